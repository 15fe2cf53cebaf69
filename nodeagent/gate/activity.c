/* When high steps have work on the GPU: a high process marks it, processes of lower tiers read it.
 *
 * The high side never waits: counters per stream, and a compare-and-swap where it turns busy or idle. It is idle when every
 * stream is known to be complete: its own synchronisation tells, or, for programs that do not synchronise, the keeper asks.
 */
#include <string.h>

#include "gate.h"

enum { LINES = 64, EVENTS = 256, PROBES = 8, EVERYTHING = -1, NOTHING = -2 };

struct line { /* of submissions: a stream */
  _Atomic uint64_t key; /* 0: free */
  _Atomic(CUstream) stream;
  _Atomic(CUcontext) context;
  _Atomic uint64_t submitted, completed;
};
static struct line lines[LINES]; /* the last one takes the streams that find no place: only a whole context completes it */

static _Atomic int used = 0; /* lines beyond this were never claimed */

struct recorded {
  _Atomic(CUevent) event;
  _Atomic int line;
  _Atomic uint64_t upto;
};
static struct recorded events[EVENTS]; /* lossy: a lost one only means that idleness is noticed later */

enum { IDLE, BUSY, MARKING };
static _Atomic int state;
static _Atomic uint64_t told_ns; /* when something was last known to be complete */
static struct pillion_activity *_Atomic page;

static void mark(bool busy) {
  struct pillion_activity *activity = page;
  uint64_t now_ns = gate_now();
  atomic_store_explicit(&told_ns, now_ns, memory_order_relaxed);
  if (!activity) return;
  uint64_t count = atomic_load_explicit((_Atomic uint64_t *)&activity->marks, memory_order_relaxed);
  gate_note(&activity->mark[count % PILLION_MARKS], now_ns * 2 + busy);
  atomic_store_explicit((_Atomic uint64_t *)&activity->marks, count + 1, memory_order_release);
}

static bool all_complete(void) {
  for (int k = 0, end = used; k < end; k++)
    if (atomic_load(&lines[k].completed) < atomic_load(&lines[k].submitted)) return false;
  return true;
}

static void become_busy(void) {
  int idle = IDLE;
  if (!atomic_compare_exchange_strong(&state, &idle, MARKING)) return;
  mark(true);
  atomic_store(&state, BUSY);
}

static void become_idle_if_complete(void) {
  if (!all_complete()) return;
  int busy = BUSY;
  if (!atomic_compare_exchange_strong(&state, &busy, MARKING)) return;
  mark(false);
  atomic_store(&state, IDLE);
  if (!all_complete()) become_busy(); /* a submission came in between and took it for busy */
}

static int line_at(uint64_t key, int probe) { return (int)((key * 0x9e3779b97f4a7c15u >> 58) + (unsigned)probe) % (LINES - 1); }

static void now_used(int line) {
  int seen = used;
  while (seen <= line && !atomic_compare_exchange_weak(&used, &seen, line + 1)) continue;
}

static int find_line(uint64_t key) {
  for (int probe = 0; probe < PROBES; probe++) {
    int k = line_at(key, probe);
    if (atomic_load_explicit(&lines[k].key, memory_order_relaxed) == key) return k;
  }
  return -1;
}

static int claim_line(uint64_t key, CUstream stream) {
  int found = find_line(key);
  if (found >= 0) return found;
  for (int probe = 0; probe < PROBES; probe++) {
    int k = line_at(key, probe);
    uint64_t free_key = 0;
    if (!atomic_compare_exchange_strong(&lines[k].key, &free_key, key)) {
      if (free_key == key) return k;
      continue;
    }
    CUcontext context = NULL;
    gate_own.context_get(&context);
    lines[k].stream = stream;
    lines[k].context = context;
    now_used(k);
    return k;
  }
  now_used(LINES - 1);
  return LINES - 1;
}

static uint64_t line_key(CUstream stream) {
  return (uintptr_t)stream + (stream == CU_STREAM_PER_THREAD ? (uintptr_t)&gate_inside : 0);
}

struct gate_mark gate_activity_submit(CUstream stream) {
  if (gate_is_capturing(stream)) return (struct gate_mark){.line = -1};
  struct gate_mark mark = {.line = claim_line(line_key(stream), stream)};
  mark.upto = atomic_fetch_add(&lines[mark.line].submitted, 1) + 1;
  if (atomic_load(&state) != BUSY) become_busy();
  return mark;
}

static void raise_to(_Atomic uint64_t *counter, uint64_t value) {
  uint64_t seen = atomic_load(counter);
  while (seen < value && !atomic_compare_exchange_weak(counter, &seen, value)) continue;
}

CUresult gate_activity_done(struct gate_mark mark, CUresult result) {
  if (mark.line < 0 || result != CUDA_SUCCESS) return result;
  raise_to(&lines[mark.line].completed, mark.upto);
  become_idle_if_complete();
  return result;
}

static bool concerns_us(void) { return gate_tier == PILLION_HIGH && !gate_inside && atomic_load(&state) != IDLE; }

void gate_seen_all(struct gate_seen *seen) {
  seen->line = concerns_us() ? EVERYTHING : NOTHING;
  if (seen->line == EVERYTHING)
    for (int k = 0, end = seen->lines = used; k < end; k++) seen->upto[k] = atomic_load(&lines[k].submitted);
}

static void see_line(struct gate_seen *seen, int line) {
  seen->line = line;
  if (line >= 0) seen->upto[line] = atomic_load(&lines[line].submitted);
}

void gate_seen_stream(struct gate_seen *seen, CUstream stream) {
  int line = concerns_us() ? find_line(line_key(stream)) : -1;
  see_line(seen, line >= 0 ? line : NOTHING);
}

void gate_seen_recorded(CUevent event, CUstream stream) {
  if (gate_tier != PILLION_HIGH || gate_inside || gate_is_open()) return;
  struct recorded *entry = &events[gate_mix((uintptr_t)event) % EVENTS];
  int line = find_line(line_key(stream));
  atomic_store(&entry->event, NULL);
  if (line < 0) return;
  atomic_store(&entry->line, line);
  atomic_store(&entry->upto, atomic_load(&lines[line].submitted));
  atomic_store(&entry->event, event);
}

void gate_seen_event(struct gate_seen *seen, CUevent event) {
  seen->line = NOTHING;
  if (!concerns_us()) return;
  const struct recorded *entry = &events[gate_mix((uintptr_t)event) % EVENTS];
  int line = atomic_load(&entry->line);
  uint64_t upto = atomic_load(&entry->upto);
  if (atomic_load(&entry->event) != event) return;
  seen->line = line;
  seen->upto[line] = upto;
}

void gate_seen_done(const struct gate_seen *seen) {
  if (seen->line == NOTHING) return;
  if (seen->line >= 0) raise_to(&lines[seen->line].completed, seen->upto[seen->line]);
  for (int k = 0; seen->line == EVERYTHING && k < seen->lines; k++) raise_to(&lines[k].completed, seen->upto[k]);
  atomic_store_explicit(&told_ns, gate_now(), memory_order_relaxed);
  become_idle_if_complete();
}

static void drop(struct line *line) {
  atomic_store(&line->completed, atomic_load(&line->submitted));
  atomic_store(&line->key, 0);
}

void gate_stream_going(CUstream stream) {
  gate_keeper_pause();
  int line = find_line(line_key(stream));
  if (line >= 0) drop(&lines[line]);
  gate_keeper_resume();
}

void gate_activity_context_going(CUcontext context) {
  gate_keeper_pause();
  for (int k = 0; k < LINES; k++)
    if (lines[k].key && lines[k].context == context) drop(&lines[k]);
  gate_keeper_resume();
  become_idle_if_complete();
}

/* Under the keeper's lock, and with no capture going on: then asking a stream cannot break one. */
bool gate_activity_watch(uint64_t now_ns) {
  static const uint64_t silent_ns = 2000000;
  if (atomic_load(&state) != BUSY || gate_captures > 0) return false;
  if (now_ns < atomic_load_explicit(&told_ns, memory_order_relaxed) + silent_ns) return false;
  for (int k = 0; k < LINES; k++) {
    uint64_t upto = atomic_load(&lines[k].submitted);
    if (!lines[k].key || atomic_load(&lines[k].completed) >= upto || lines[k].stream == CU_STREAM_PER_THREAD) continue;
    CUresult result = gate_own.context_set(lines[k].context);
    if (result == CUDA_SUCCESS) result = gate_own.stream_query(lines[k].stream);
    if (result != CUDA_ERROR_NOT_READY) raise_to(&lines[k].completed, upto);
  }
  become_idle_if_complete();
  return true;
}

/* A page that another agent handed out is replaced by a new agent's only if it does not know the old one. */
void gate_activity_page(struct pillion_activity *given) {
  atomic_store(&page, given);
  if (atomic_load(&state) == BUSY) mark(true);
}

void gate_activity_reset(void) {
  memset(lines, 0, sizeof lines);
  memset(events, 0, sizeof events);
  page = NULL;
  state = IDLE;
}

/* ---- the other side ---- */

static struct {
  const struct pillion_activity *page;
  uint64_t next;
} others[PILLION_HIGH_STEPS];

static void take_mark(unsigned which, uint64_t now_ns, uint64_t word) {
  if (word & 1) admit_high_busy(&gate_admit, now_ns, which, word / 2);
  else admit_high_idle(&gate_admit, now_ns, which, word / 2);
}

void gate_others_attach(unsigned which, const struct pillion_activity *given, uint64_t now_ns) {
  if (which >= PILLION_HIGH_STEPS) return;
  others[which].page = given;
  admit_high_present(&gate_admit, now_ns, which, given != NULL);
  if (!given) return;
  uint64_t count = atomic_load_explicit((const _Atomic uint64_t *)&given->marks, memory_order_acquire);
  others[which].next = count;
  if (!count) return;
  take_mark(which, now_ns, atomic_load_explicit((const _Atomic uint64_t *)&given->mark[(count - 1) % PILLION_MARKS], memory_order_relaxed));
}

void gate_others_detach_all(uint64_t now_ns) {
  for (unsigned k = 0; k < PILLION_HIGH_STEPS; k++)
    if (others[k].page) gate_others_attach(k, NULL, now_ns);
}

void gate_others_look(uint64_t now_ns) {
  for (unsigned k = 0; k < PILLION_HIGH_STEPS; k++) {
    const struct pillion_activity *given = others[k].page;
    if (!given) continue;
    uint64_t count = atomic_load_explicit((const _Atomic uint64_t *)&given->marks, memory_order_acquire);
    uint64_t next = others[k].next;
    if (count - next > PILLION_MARKS / 2) next = count - PILLION_MARKS / 2; /* the rest may be overwritten meanwhile */
    for (; next != count; next++)
      take_mark(k, now_ns, atomic_load_explicit((const _Atomic uint64_t *)&given->mark[next % PILLION_MARKS], memory_order_relaxed));
    others[k].next = count;
  }
}

void gate_others_forget_all(void) { memset(others, 0, sizeof others); }
