/* What the agent allows this process, and waiting for it. docs/gate.md has the rules for when the agent is lost. */
#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gate.h"

_Alignas(GATE_PAGE) union gate_lease_page gate_lease;
struct admit gate_admit;
bool gate_agent_lost, gate_untracked;
pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;

static const uint64_t longest_wait_ns = 50000000; /* then look again, whatever happened to the agent */
static const uint64_t precise_below_ns = 5000000; /* shorter waits are worth a system call for a better timer */
static const unsigned precise_slack_ns = 1000;
enum { READ_ATTEMPTS = 1000, ORPHAN_CAP = 8, ORPHAN_PPM = 20000 };
static const uint64_t orphan_period_ns = 100000000;

static struct pillion_lease seen;
static bool have_seen;
static uint32_t seen_news;
static uint64_t draining_since_ns;
static struct admit_terms terms;
static enum admit_lease told = ADMIT_STOP;

uint64_t gate_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t load32(const uint32_t *word) {
  return atomic_load_explicit((const _Atomic uint32_t *)word, memory_order_seq_cst);
}
static uint64_t load64(const uint64_t *word) {
  return atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_relaxed);
}

/* False if the writer is at it all the while, or died there: the lease as last seen holds on. */
static bool read_lease(const struct pillion_lease *page, struct pillion_lease *lease) {
  const uint64_t *from = (const uint64_t *)page;
  uint64_t *to = (uint64_t *)lease;
  for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
    uint32_t before = load32(&page->sequence);
    if (before & 1) continue;
    for (size_t k = 0; k < sizeof *lease / sizeof *to; k++) to[k] = load64(&from[k]);
    atomic_thread_fence(memory_order_acquire);
    if (load32(&page->sequence) == before) return true;
  }
  return false;
}

bool gate_lease_is_whole(const struct pillion_lease *page) {
  struct pillion_lease lease;
  return page->magic == PILLION_MAGIC && page->version == PILLION_PROTOCOL && read_lease(page, &lease);
}

void gate_pass_freely(void) {
  if (load32(&gate_lease.lease.magic) != PILLION_MAGIC) gate_note32(&gate_lease.lease.open, 1);
}

void gate_lease_joined(void) {
  have_seen = false;
  gate_agent_lost = false;
  gate_untracked = true; /* it passed freely until now */
  gate_look_at_lease(gate_now());
}

static void take_in(const struct pillion_lease *lease, uint64_t now_ns) {
  struct admit_terms given = {.max_slowdown_ppm = lease->max_slowdown_ppm,
                              .budget_ppm = lease->budget_ppm,
                              .max_stall_ns = lease->max_stall_ns,
                              .bucket_ns = lease->bucket_ns,
                              .switch_ns = lease->switch_ns,
                              .slice_ns = lease->slice_ns};
  if (memcmp(&given, &terms, sizeof terms) != 0) {
    terms = given;
    admit_set_terms(&gate_admit, now_ns, &terms);
  }
  if (have_seen && lease->openings != seen.openings) gate_untracked = true;
  if (have_seen && seen.state == ADMIT_RUN && lease->state != ADMIT_RUN) draining_since_ns = now_ns;
  seen = *lease;
  have_seen = true;
  struct pillion_client *client = gate_client;
  gate_note(&client->acknowledged_epoch, lease->epoch);
}

void gate_drained(uint64_t now_ns) {
  if (!draining_since_ns) return;
  struct pillion_client *client = gate_client;
  gate_note(&client->drain_ns, now_ns - draining_since_ns);
  gate_count(&client->drains, 1);
  draining_since_ns = 0;
}

static void tell(enum admit_lease lease, uint64_t now_ns) {
  if (told == lease) return;
  told = lease;
  admit_set_lease(&gate_admit, now_ns, lease);
}

/* Alone: this process's own part of each period. */
static struct gate_permit permit_of_orphan(uint64_t now_ns) {
  struct gate_permit permit = {.cap = seen.in_flight_cap ? seen.in_flight_cap : ORPHAN_CAP, .until_ns = now_ns + longest_wait_ns};
  bool given = seen.duty_period_ns && seen.duty_ppm; /* if not, a small part: nobody sleeps for ever */
  uint64_t period_ns = given ? seen.duty_period_ns : orphan_period_ns;
  uint64_t length_ns = period_ns * (given ? seen.duty_ppm : ORPHAN_PPM) / 1000000;
  uint64_t place_ns = (now_ns + period_ns - period_ns * (seen.duty_phase_ppm % 1000000) / 1000000) % period_ns;
  permit.may_submit = place_ns < length_ns;
  if (!permit.may_submit && now_ns + period_ns - place_ns < permit.until_ns) permit.until_ns = now_ns + period_ns - place_ns;
  return permit;
}

struct gate_permit gate_look_at_lease(uint64_t now_ns) {
  uint32_t news = load32(&gate_lease.lease.news);
  if (!have_seen || news != seen_news) {
    struct pillion_lease lease = {0};
    if (read_lease(&gate_lease.lease, &lease)) {
      seen_news = news;
      take_in(&lease, now_ns);
    }
  }
  uint64_t heartbeat_ns = load64(&gate_lease.lease.heartbeat_ns);
  bool lost = gate_agent_lost || (seen.stale_after_ns && now_ns > heartbeat_ns && now_ns - heartbeat_ns > seen.stale_after_ns);
  struct gate_permit permit;
  if (lost) {
    permit = permit_of_orphan(now_ns);
  } else {
    permit = (struct gate_permit){.may_submit = seen.state == ADMIT_RUN, .cap = seen.in_flight_cap, .until_ns = now_ns + longest_wait_ns};
    if (permit.may_submit && seen.deadline_ns && now_ns >= seen.deadline_ns) permit.may_submit = false;
  }
  tell(permit.may_submit ? ADMIT_RUN : ADMIT_STOP, now_ns);
  struct pillion_client *client = gate_client;
  gate_note32(&client->flags, (gate_untracked ? PILLION_CLIENT_UNTRACKED : 0u) | (lost ? PILLION_CLIENT_ORPHAN : 0u));
  return permit;
}

void gate_wait(uint64_t until_ns, uint64_t now_ns) {
  uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
  if (wait_ns > longest_wait_ns) wait_ns = longest_wait_ns;
  uint32_t expected = seen_news;
  pthread_mutex_unlock(&gate_lock);
  struct timespec timeout = {.tv_nsec = (long)wait_ns};
  int slack = -1;
  if (wait_ns < precise_below_ns) {
    slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, precise_slack_ns, 0, 0, 0);
  }
  if (wait_ns) syscall(SYS_futex, &gate_lease.lease.news, FUTEX_WAIT, expected, &timeout, NULL, 0);
  if (slack >= 0) prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
  pthread_mutex_lock(&gate_lock);
}

void gate_lease_after_fork(void) {
  have_seen = gate_agent_lost = gate_untracked = false;
  draining_since_ns = 0;
  told = ADMIT_STOP;
  memset(&terms, 0, sizeof terms);
}
