/* What this process has on the GPU: an event follows each submission, and the time between events is how long it took.
 *
 * The driver is asked about events in relaxed capture mode, so that another thread's capture is left alone.
 */
#include <string.h>

#include "gate.h"

enum { MARKS = 2 * GATE_FLIGHTS + 16 };
static const uint64_t prompt_ns = 100000; /* a completion seen within this of its not being complete dates others */

struct mark {
  CUevent event;
  CUcontext context;
  int users;
};
static struct mark marks[MARKS];

struct flight {
  uint32_t key;
  int from, to; /* marks, or -1 */
  uint64_t id, ticket, submitted_ns, not_done_ns;
};
static struct flight flights[GATE_FLIGHTS];
static unsigned count;
static int prepared = -1;

static int anchor = -1; /* a mark whose time on the host is known */
static uint64_t anchor_ns;

unsigned gate_flights(void) { return count; }

static CUstreamCaptureMode relax(void) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (gate_captures > 0 && gate_own.exchange_mode) gate_own.exchange_mode(&mode);
  return mode;
}
static void restore(CUstreamCaptureMode mode) {
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED && gate_own.exchange_mode) gate_own.exchange_mode(&mode);
}

static void let_go(int mark) {
  if (mark >= 0 && marks[mark].users > 0) marks[mark].users--;
}

static int use(int mark) {
  if (mark >= 0) marks[mark].users++;
  return mark;
}

/* A mark of the current context that nobody uses, or -1. */
static int get_mark(void) {
  CUcontext context = NULL;
  if (gate_own.context_get(&context) != CUDA_SUCCESS || !context) return -1;
  int empty = -1;
  for (int k = 0; k < MARKS; k++) {
    if (marks[k].users) continue;
    if (marks[k].event && marks[k].context == context) return use(k);
    if (!marks[k].event && empty < 0) empty = k;
  }
  if (empty < 0) return -1;
  if (gate_own.event_create(&marks[empty].event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return -1;
  marks[empty].context = context;
  return use(empty);
}

static int record(CUstream stream) {
  int mark = get_mark();
  if (mark >= 0 && gate_own.event_record(marks[mark].event, stream) == CUDA_SUCCESS) return mark;
  let_go(mark);
  return -1;
}

void gate_flight_prepare(CUstream stream, uint32_t key) {
  let_go(prepared);
  prepared = -1;
  for (unsigned k = count; k-- > 0;) {
    if (flights[k].key != key) continue;
    prepared = use(flights[k].to);
    return;
  }
  CUstreamCaptureMode mode = relax();
  prepared = record(stream);
  restore(mode);
}

void gate_flight_add(const struct gate_turn *turn, uint64_t submitted_ns) {
  CUstreamCaptureMode mode = relax();
  int to = count < GATE_FLIGHTS ? record(turn->stream) : -1;
  restore(mode);
  if (to < 0) { /* its end cannot be seen: take it for done, so that nobody waits for it for ever */
    let_go(prepared);
    admit_completed(&gate_admit, submitted_ns, turn->unit.stream, turn->ticket, submitted_ns, 0);
  } else {
    flights[count++] = (struct flight){.key = turn->unit.stream, .from = prepared, .to = to, .id = turn->unit.id,
                                       .ticket = turn->ticket, .submitted_ns = submitted_ns};
  }
  prepared = -1;
}

static uint64_t between_ns(int from, int to) {
  float milliseconds = 0;
  if (from < 0 || to < 0 || marks[from].context != marks[to].context) return 0;
  if (gate_own.event_elapsed(&milliseconds, marks[from].event, marks[to].event) != CUDA_SUCCESS) return 0;
  return milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
}

/* When it was done, on the host's clock. */
static uint64_t done_at(const struct flight *flight, uint64_t now_ns) {
  if (flight->not_done_ns && now_ns - flight->not_done_ns < prompt_ns) {
    let_go(anchor);
    anchor = use(flight->to);
    anchor_ns = now_ns;
    return now_ns;
  }
  if (anchor < 0) return now_ns;
  uint64_t since_ns = between_ns(anchor, flight->to);
  uint64_t done_ns = anchor_ns + since_ns;
  if (!since_ns || done_ns > now_ns) return now_ns;
  return done_ns < flight->submitted_ns ? flight->submitted_ns : done_ns;
}

static void complete(const struct flight *flight, uint64_t now_ns, bool measured) {
  uint64_t elapsed_ns = measured ? between_ns(flight->from, flight->to) : 0;
  uint64_t done_ns = measured ? done_at(flight, now_ns) : now_ns;
  admit_completed(&gate_admit, now_ns, flight->key, flight->ticket, done_ns, elapsed_ns);
  struct pillion_client *client = gate_client;
  gate_count(&client->device_ns, elapsed_ns);
  if (elapsed_ns > client->longest_unit_ns) gate_note(&client->longest_unit_ns, elapsed_ns);
  let_go(flight->from);
  let_go(flight->to);
}

void gate_flight_reap(uint64_t now_ns) {
  if (!count) return;
  uint32_t blocked[GATE_FLIGHTS];
  unsigned blocked_count = 0, kept = 0;
  CUstreamCaptureMode mode = relax();
  gate_inside++;
  for (unsigned k = 0; k < count; k++) {
    struct flight flight = flights[k];
    bool behind = false;
    for (unsigned b = 0; b < blocked_count && !behind; b++) behind = blocked[b] == flight.key;
    CUresult result = behind ? CUDA_ERROR_NOT_READY : gate_own.event_query(marks[flight.to].event);
    if (result == CUDA_ERROR_NOT_READY) {
      if (!behind) blocked[blocked_count++] = flight.key;
      if (!behind) flight.not_done_ns = now_ns;
      flights[kept++] = flight;
    } else {
      complete(&flight, now_ns, result == CUDA_SUCCESS);
    }
  }
  count = kept;
  gate_inside--;
  restore(mode);
}

uint64_t gate_flight_due(uint64_t now_ns) {
  if (!count) return now_ns;
  struct admit_unit unit = {.id = flights[0].id, .nodes = 1, .stream = flights[0].key};
  return flights[0].submitted_ns + (uint64_t)admit_expected_ns(&gate_admit, &unit);
}

static void forget(bool all, CUcontext context, uint64_t now_ns) {
  unsigned kept = 0;
  for (unsigned k = 0; k < count; k++) {
    if (!all && marks[flights[k].to].context != context) flights[kept++] = flights[k];
    else if (!all) admit_completed(&gate_admit, now_ns, flights[k].key, flights[k].ticket, now_ns, 0);
  }
  count = kept;
  for (int k = 0; k < MARKS; k++)
    if (all || marks[k].context == context) marks[k] = (struct mark){0}; /* events go with their context */
  if (anchor >= 0 && !marks[anchor].event) anchor = -1;
  prepared = -1;
}

void gate_flight_context_gone(CUcontext context) { forget(false, context, gate_now()); }

void gate_flight_forget_all(void) {
  forget(true, NULL, 0);
  anchor = -1;
}
