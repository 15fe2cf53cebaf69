/* Joining the agent, and the keeper: one thread per process that joined, asleep in poll unless there is something to do.
 *
 * The keeper hears from the agent, joins again when there is a new one, sees completions while the program is elsewhere, and
 * looks after high processes that do not synchronise. It submits nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gate.h"

#ifndef PILLION_WELL_KNOWN
#define PILLION_WELL_KNOWN PILLION_WELL_KNOWN_SOCKET
#endif

enum { HIGH_DESCRIPTORS = 512, MOST_DESCRIPTORS = 4, KEEPER_STACK = 128 * 1024 };
enum { ANSWER_MS = 500, DOZE_MS = 200, WATCH_MS = 10, CLOSE_MS = 1, RETRY_MS = 200, REFUSED_MS = 5000 };
static const uint64_t awake_ns = 20000000; /* the keeper looks often for this long after it saw something to do */

static struct pillion_client unjoined; /* where counters go before there is an agent */
struct pillion_client *_Atomic gate_client = &unjoined;
_Atomic uint32_t gate_tier = PILLION_NORMAL;
_Atomic bool gate_keeper_dozes;

static struct sockaddr_un address; /* as the environment had it when the process started */
static pthread_mutex_t join_lock = PTHREAD_MUTEX_INITIALIZER, keeper_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool joined; /* tried, that is */
static bool keeping;
static _Atomic bool ending;
static int connection = -1, bell = -1, activity = -1;
static struct stat connection_is, activity_is, bell_is;
static uint64_t retry_ns;

void gate_keeper_pause(void) { pthread_mutex_lock(&keeper_lock); }
void gate_keeper_resume(void) { pthread_mutex_unlock(&keeper_lock); }

/* ---- descriptors: programs close and reuse numbers that they did not open ---- */

static bool is_still(int descriptor, const struct stat *what) {
  struct stat now;
  return descriptor >= 0 && fstat(descriptor, &now) == 0 && now.st_dev == what->st_dev && now.st_ino == what->st_ino;
}

static int out_of_the_way(int descriptor) {
  struct rlimit limit;
  if (descriptor < 0 || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur <= HIGH_DESCRIPTORS) return descriptor;
  int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, HIGH_DESCRIPTORS);
  if (moved < 0) return descriptor;
  close(descriptor);
  return moved;
}

void gate_wake_keeper(void) {
  if (!atomic_exchange(&gate_keeper_dozes, false) || !is_still(bell, &bell_is)) return;
  uint64_t one = 1;
  ssize_t written = write(bell, &one, sizeof one);
  (void)written; /* full: it rings already */
}

static void make_bell(void) {
  bell = out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bell >= 0) fstat(bell, &bell_is);
}

static void hang_up(void) {
  if (is_still(connection, &connection_is)) close(connection);
  connection = -1;
}

/* ---- messages ---- */

static bool send_message(uint32_t kind, int descriptor) {
  struct pillion_message message = {.magic = PILLION_MAGIC, .version = PILLION_PROTOCOL, .kind = kind, .cuda_version = CUDA_VERSION};
  struct iovec part = {&message, sizeof message};
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
  } control = {0};
  struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1};
  if (descriptor >= 0) {
    whole.msg_control = control.room;
    whole.msg_controllen = sizeof control.room;
    struct cmsghdr *header = CMSG_FIRSTHDR(&whole);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  return sendmsg(connection, &whole, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof message;
}

struct arrival {
  struct pillion_message message;
  int descriptors[MOST_DESCRIPTORS];
  int count;
};

static void close_all(struct arrival *arrival) {
  for (int k = 0; k < arrival->count; k++)
    if (arrival->descriptors[k] >= 0) close(arrival->descriptors[k]);
  arrival->count = 0;
}

/* 1: a message; 0: none yet; -1: gone, or not the protocol. */
static int receive(struct arrival *arrival) {
  char data[sizeof arrival->message + 1];
  struct iovec part = {data, sizeof data};
  union {
    char room[CMSG_SPACE(sizeof(int) * MOST_DESCRIPTORS)];
    struct cmsghdr aligned;
  } control;
  struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  ssize_t size = recvmsg(connection, &whole, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  arrival->count = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&whole); header; header = CMSG_NXTHDR(&whole, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (size_t k = 0; k < bytes / sizeof(int) && arrival->count < MOST_DESCRIPTORS; k++)
      memcpy(&arrival->descriptors[arrival->count++], CMSG_DATA(header) + k * sizeof(int), sizeof(int));
  }
  if (size == (ssize_t)sizeof arrival->message) memcpy(&arrival->message, data, sizeof arrival->message);
  if (size == (ssize_t)sizeof arrival->message && arrival->message.magic == PILLION_MAGIC &&
      (arrival->message.version == PILLION_PROTOCOL || arrival->message.kind == PILLION_REFUSED))
    return 1;
  close_all(arrival);
  return -1;
}

/* ---- pages ---- */

static void *map(int descriptor, int protection, void *at) {
  struct stat file;
  if (fstat(descriptor, &file) || file.st_size < PILLION_PAGE_BYTES) return NULL;
  void *page = mmap(at, PILLION_PAGE_BYTES, protection, MAP_SHARED | (at ? MAP_FIXED : 0), descriptor, 0);
  return page == MAP_FAILED ? NULL : page;
}

/* Nobody is forced to let go of a page that this process once had: a thread may still be looking at it. */
static bool take_pages(struct arrival *arrival) {
  bool fresh = activity < 0;
  int expected = arrival->message.tier == PILLION_HIGH && fresh ? 4 : 3;
  if (arrival->count < expected || arrival->message.tier > PILLION_HIGH || arrival->message.slot >= PILLION_LEDGER_SLOTS) return false;
  const struct pillion_lease *lease = map(arrival->descriptors[0], PROT_READ, NULL);
  struct pillion_client *client = map(arrival->descriptors[1], PROT_READ | PROT_WRITE, NULL);
  struct pillion_ledger *ledger = map(arrival->descriptors[2], PROT_READ | PROT_WRITE, NULL);
  struct pillion_activity *marks = expected == 4 ? map(arrival->descriptors[3], PROT_READ | PROT_WRITE, NULL) : NULL;
  bool good = lease && client && ledger && (marks || expected == 3) && gate_lease_is_whole(lease);
  if (lease) munmap((void *)(uintptr_t)lease, PILLION_PAGE_BYTES);
  if (!good) {
    if (client) munmap(client, PILLION_PAGE_BYTES);
    if (ledger) munmap(ledger, PILLION_PAGE_BYTES);
    if (marks) munmap(marks, PILLION_PAGE_BYTES);
    return false;
  }
  if (marks) {
    activity = out_of_the_way(arrival->descriptors[3]);
    arrival->descriptors[3] = -1;
    fstat(activity, &activity_is);
    gate_activity_page(marks);
  }
  gate_ledger_joined(ledger, arrival->message.slot);
  pthread_mutex_lock(&gate_lock);
  gate_client = client;
  gate_note(&client->unknown_lookups, gate_unknown_lookups);
  gate_others_detach_all(gate_now());
  gate_tier = arrival->message.tier;
  bool mapped = map(arrival->descriptors[0], PROT_READ, &gate_lease) != NULL;
  gate_lease_joined();
  pthread_mutex_unlock(&gate_lock);
  return mapped;
}

/* Back to a page of this process's own, which lets everything pass. */
static void let_pass(void) {
  mmap(&gate_lease, PILLION_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  gate_pass_freely();
}

static void attach(struct arrival *arrival) {
  const struct pillion_activity *page = NULL;
  if (arrival->message.present && arrival->count) page = map(arrival->descriptors[0], PROT_READ, NULL);
  pthread_mutex_lock(&gate_lock);
  gate_others_attach(arrival->message.slot, page, gate_now());
  pthread_mutex_unlock(&gate_lock);
}

/* ---- joining ---- */

static void lose_agent(void) {
  hang_up();
  pthread_mutex_lock(&gate_lock);
  gate_agent_lost = true;
  pthread_mutex_unlock(&gate_lock);
}

static void say_hello(uint64_t now_ns) {
  retry_ns = now_ns + RETRY_MS * 1000000ull;
  connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return;
  bool brings = is_still(activity, &activity_is);
  if (!brings) activity = -1;
  if (connect(connection, (struct sockaddr *)&address, sizeof address) || fstat(connection, &connection_is) ||
      !send_message(PILLION_HELLO, activity)) {
    close(connection);
    connection = -1;
    return;
  }
  connection = out_of_the_way(connection);
}

/* Returns false when the connection is of no more use. */
static bool hear(struct arrival *arrival) {
  switch (arrival->message.kind) {
    case PILLION_WELCOME: return take_pages(arrival) && send_message(PILLION_MAPPED, -1);
    case PILLION_REFUSED:
      let_pass();
      retry_ns = gate_now() + REFUSED_MS * 1000000ull;
      return false;
    case PILLION_ACTIVITY: attach(arrival); return true;
    case PILLION_NEWS: return true; /* looked at on the way round */
    default: return false;
  }
}

static bool hear_all(bool *any) {
  struct arrival arrival;
  for (int got; (got = receive(&arrival)) != 0;) {
    if (got < 0) return false;
    *any = true;
    bool good = hear(&arrival);
    close_all(&arrival);
    if (!good) return false;
  }
  return true;
}

/* ---- the keeper ---- */

static int tend(uint64_t now_ns, uint64_t *busy_until_ns, bool heard) {
  if (gate_is_open()) return DOZE_MS;
  if (gate_tier == PILLION_HIGH) {
    pthread_mutex_lock(&keeper_lock);
    bool looked = !ending && gate_activity_watch(now_ns);
    pthread_mutex_unlock(&keeper_lock);
    return looked ? CLOSE_MS : WATCH_MS;
  }
  pthread_mutex_lock(&gate_lock);
  if (!ending) gate_tend(now_ns);
  bool busy = gate_flights() > 0;
  pthread_mutex_unlock(&gate_lock);
  if (busy || heard || !gate_keeper_dozes) {
    if (busy || heard) *busy_until_ns = now_ns + awake_ns;
  }
  return now_ns < *busy_until_ns ? CLOSE_MS : DOZE_MS;
}

static void *keep(void *unused) {
  (void)unused;
  prctl(PR_SET_NAME, "pillion-gate", 0, 0, 0);
  gate_inside = 1; /* whatever it asks the driver is not the program's */
  int wait_ms = DOZE_MS;
  uint64_t busy_until_ns = 0;
  while (!ending) {
    bool here = is_still(connection, &connection_is);
    if (!is_still(bell, &bell_is)) make_bell();
    struct pollfd watched[2] = {{bell, POLLIN, 0}, {here ? connection : -1, POLLIN, 0}};
    if (wait_ms == DOZE_MS) gate_keeper_dozes = true;
    poll(watched, 2, wait_ms);
    bool rung = gate_keeper_dozes == false && wait_ms == DOZE_MS;
    gate_keeper_dozes = false;
    uint64_t now_ns = gate_now(), rings;
    if (watched[0].revents & POLLIN && is_still(bell, &bell_is)) rung = read(bell, &rings, sizeof rings) > 0;
    if (rung) busy_until_ns = now_ns + awake_ns;
    bool heard = false;
    pthread_mutex_lock(&join_lock);
    if (connection < 0 && now_ns >= retry_ns) say_hello(now_ns);
    if (connection >= 0 && (!is_still(connection, &connection_is) || !hear_all(&heard))) lose_agent();
    pthread_mutex_unlock(&join_lock);
    wait_ms = tend(now_ns, &busy_until_ns, heard);
  }
  return NULL;
}

static void start_keeper(void) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  make_bell();
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, KEEPER_STACK);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  keeping = pthread_create(&thread, &attributes, keep, NULL) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The driver takes itself apart at exit: after this the keeper asks it nothing more. */
static void end_keeper(void) {
  ending = true;
  pthread_mutex_lock(&keeper_lock);
  pthread_mutex_unlock(&keeper_lock);
}

static void forked(void) {
  /* The connection and the pages are the parent's. This process has no keeper and nothing on the GPU. */
  if (is_still(connection, &connection_is)) close(connection);
  if (is_still(activity, &activity_is)) close(activity);
  connection = activity = bell = -1;
  pthread_mutex_init(&join_lock, NULL);
  pthread_mutex_init(&keeper_lock, NULL);
  pthread_mutex_init(&gate_lock, NULL);
  gate_client = &unjoined;
  gate_tier = PILLION_NORMAL;
  gate_inside = 0;
  gate_captures = 0;
  gate_keeper_dozes = false;
  gate_flight_forget_all();
  gate_activity_reset();
  gate_others_forget_all();
  gate_memory_after_fork();
  gate_submit_after_fork();
  admit_init(&gate_admit, gate_now());
  gate_lease_after_fork();
  mmap(&gate_lease, PILLION_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  joined = keeping = false;
  retry_ns = 0;
}

/* Not all C libraries have it, and where there is none, nothing of this is ever needed. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

void gate_join(void) {
  if (joined) return;
  pthread_mutex_lock(&join_lock);
  if (!joined) {
    static bool prepared;
    if (!prepared) {
      prepared = true;
      admit_init(&gate_admit, gate_now());
      if (__register_atfork) __register_atfork(NULL, NULL, forked, &__dso_handle);
      atexit(end_keeper);
    }
    if (address.sun_path[0]) {
      say_hello(gate_now());
      struct pollfd answer = {connection, POLLIN, 0};
      bool any = false;
      if (connection >= 0 && poll(&answer, 1, ANSWER_MS) > 0 && !hear_all(&any)) hang_up();
      if (!keeping) start_keeper();
    }
    gate_pass_freely();
    joined = true;
  }
  pthread_mutex_unlock(&join_lock);
}

/* The only thing done at load: the program may change its environment later. */
__attribute__((constructor)) static void remember_address(void) {
  const char *path = PILLION_WELL_KNOWN;
  if (access(path, F_OK) != 0) path = getenv("PILLION_SOCKET");
  if (!path || strlen(path) >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, path);
}
