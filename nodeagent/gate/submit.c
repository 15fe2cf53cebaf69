/* One submission: whether it may go, and noting that it went. Works in the caller's thread and keeps its order.
 *
 * The open gate never comes here. A high process marks its activity and goes on. A process of a lower tier waits until the
 * lease and admission let it, then submits and lets an event follow, all under gate_lock, so that events and work agree.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate.h"

_Thread_local int gate_inside __attribute__((tls_model("initial-exec")));
_Atomic int gate_captures;

static unsigned going; /* threads between the decision and the note */
static const uint64_t soon_ns = 20000, latest_ns = 1000000;

uint64_t gate_mix(uint64_t value) { /* the finaliser of splitmix64 */
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

uint32_t gate_stream_key(CUstream stream) {
  uint64_t value = (uintptr_t)stream;
  if (stream == CU_STREAM_PER_THREAD) value += (uint64_t)(uintptr_t)&gate_inside;
  return (uint32_t)gate_mix(value);
}

/* ---- what a submission is ---- */

static struct gate_turn turn_of(uint64_t id, uint32_t nodes, CUstream stream, bool waits) {
  return (struct gate_turn){.unit = {.id = id, .nodes = nodes, .stream = gate_stream_key(stream)}, .stream = stream, .waits = waits};
}

struct gate_turn gate_unit_kernel(uintptr_t function, uint64_t grid, CUstream stream) {
  return turn_of(gate_mix(function ^ gate_mix(grid)), 1, stream, false);
}

struct gate_turn gate_unit_graph(CUgraphExec exec, CUstream stream) {
  return turn_of(gate_mix((uintptr_t)exec ^ 0x67726170), gate_graph_nodes(exec), stream, false);
}

struct gate_turn gate_unit_copy(unsigned kind, uint64_t bytes, CUstream stream, bool waits) {
  unsigned size_class = bytes ? 64u - (unsigned)__builtin_clzll(bytes) : 0; /* doubles from class to class */
  return turn_of(gate_mix(((uint64_t)kind << 8 | size_class) ^ 0x636f7079), 1, stream, waits);
}

static uint64_t plus(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

uint64_t gate_sum(const size_t *sizes, size_t count) {
  uint64_t sum = 0;
  for (size_t k = 0; sizes && k < count; k++) sum = plus(sum, sizes[k]);
  return sum;
}

uint64_t gate_batch_bytes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count) {
  uint64_t sum = 0;
  for (size_t k = 0; ops && k < count; k++)
    sum = plus(sum, gate_times3(ops[k].extent.width, ops[k].extent.height, ops[k].extent.depth));
  return sum;
}

uint64_t gate_decompressed_bytes(const CUmemDecompressParams *parts, size_t count) {
  uint64_t sum = 0;
  for (size_t k = 0; parts && k < count; k++) sum = plus(sum, parts[k].dstNumBytes);
  return sum;
}

uint64_t gate_fabric_bytes(const CUDA_FABRIC_COPY_BATCH_OP *ops, size_t count) {
  uint64_t sum = 0;
  for (size_t k = 0; ops && k < count; k++) sum = plus(sum, ops[k].size);
  return sum;
}

/* ---- capture ---- */

void gate_capture_begins(void) {
  gate_keeper_pause(); /* which may be asking a stream how far it is: that would break the capture */
  gate_captures++;
  gate_keeper_resume();
}

void gate_capture_ended(void) { gate_captures--; }

bool gate_is_capturing(CUstream stream) {
  if (gate_captures <= 0 || !gate_own.is_capturing) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  /* On an error this stream waits for one that captures; the driver will tell the program so. */
  return gate_own.is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* ---- lower tiers ---- */

static void publish_in_flight(void) {
  struct pillion_client *client = gate_client;
  gate_note32(&client->in_flight, gate_admit.in_flight + going);
}

/* What was submitted while the gate was open is complete after this. Not while anything captures: it would break that. */
static void catch_up(void) {
  gate_keeper_pause();
  if (gate_captures <= 0 && gate_own.context_synchronize) {
    gate_own.context_synchronize();
    gate_untracked = false;
  }
  gate_keeper_resume();
}

static void observe(uint64_t now_ns) {
  /* Completions before marks: work that ended before high came back is not charged as if it had not. */
  gate_flight_reap(now_ns);
  gate_others_look(now_ns);
  if (!gate_admit.in_flight && !gate_untracked) gate_drained(now_ns);
}

/* True when it may go; else `until_ns` says when to look again. */
static bool may_go(struct gate_turn *turn, uint64_t now_ns, uint64_t *until_ns) {
  struct gate_permit permit = gate_look_at_lease(now_ns);
  if (gate_untracked) {
    catch_up(); /* takes as long as the queue is: the lease may be another by then */
    now_ns = gate_now();
    permit = gate_look_at_lease(now_ns);
  }
  *until_ns = permit.until_ns;
  observe(now_ns);
  if (!permit.may_submit) return false;
  unsigned most = permit.cap && permit.cap < GATE_FLIGHTS ? permit.cap : GATE_FLIGHTS;
  if (gate_admit.in_flight + going - 1 >= most) {
    uint64_t due_ns = gate_flight_due(now_ns);
    if (due_ns < now_ns + soon_ns) due_ns = now_ns + soon_ns;
    if (due_ns > now_ns + latest_ns) due_ns = now_ns + latest_ns;
    if (due_ns < *until_ns) *until_ns = due_ns;
    return false;
  }
  struct admit_answer answer = admit_decide(&gate_admit, now_ns, &turn->unit);
  struct pillion_client *client = gate_client;
  gate_note32(&client->reason, answer.reason);
  gate_note(&client->charged_ns, (uint64_t)admit_charged_ns(&gate_admit));
  if (answer.go) return true;
  if (answer.until_ns < *until_ns) *until_ns = answer.until_ns;
  return false;
}

static void take_turn(struct gate_turn *turn) {
  pthread_mutex_lock(&gate_lock);
  uint64_t came_ns = gate_now(), now_ns = came_ns, until_ns;
  going++;
  publish_in_flight(); /* before the lease is looked at: an agent that reads 0 knows that nothing slips through */
  while (!may_go(turn, now_ns, &until_ns)) {
    struct pillion_client *client = gate_client;
    going--;
    publish_in_flight();
    gate_note32(&client->waiting, client->waiting + 1);
    if (gate_keeper_dozes) gate_wake_keeper();
    gate_wait(until_ns, now_ns);
    client = gate_client;
    gate_note32(&client->waiting, client->waiting ? client->waiting - 1 : 0);
    going++;
    publish_in_flight();
    now_ns = gate_now();
    if (gate_is_open()) break;
  }
  struct pillion_client *client = gate_client;
  gate_count(&client->submissions, 1);
  gate_note(&client->last_submit_ns, now_ns);
  if (now_ns != came_ns) {
    gate_count(&client->waits, 1);
    gate_count(&client->waited_ns, now_ns - came_ns);
  }
  if (gate_is_open()) {
    going--;
    publish_in_flight();
    turn->mode = GATE_PASSES;
    pthread_mutex_unlock(&gate_lock);
    return;
  }
  if (gate_keeper_dozes) gate_wake_keeper();
  turn->began_ns = now_ns;
  turn->mode = turn->waits ? GATE_WAITS : GATE_HELD;
  if (turn->waits) {
    turn->ticket = admit_submitted(&gate_admit, now_ns, &turn->unit);
    going--;
    publish_in_flight();
    pthread_mutex_unlock(&gate_lock);
  } else {
    gate_flight_prepare(turn->stream, turn->unit.stream);
  }
}

bool gate_enter(struct gate_turn *turn, int index) {
  if (gate_inside) {
    turn->nested = true;
    return gate_real[index] || gate_bind(index);
  }
  if (!gate_real[index] && !gate_bind(index)) return false;
  gate_inside++;
  gate_join();
  if (gate_is_open() || gate_is_capturing(turn->stream)) return true;
  take_turn(turn);
  return true;
}

CUresult gate_leave(struct gate_turn *turn, CUresult result) {
  if (turn->nested) return result;
  if (turn->mode == GATE_HELD) {
    if (result == CUDA_SUCCESS) {
      turn->ticket = admit_submitted(&gate_admit, turn->began_ns, &turn->unit);
      gate_flight_add(turn, turn->began_ns);
    }
    going--;
    publish_in_flight();
    pthread_mutex_unlock(&gate_lock);
  } else if (turn->mode == GATE_WAITS) {
    pthread_mutex_lock(&gate_lock);
    uint64_t now_ns = gate_now();
    gate_others_look(now_ns);
    admit_completed(&gate_admit, now_ns, turn->unit.stream, turn->ticket, now_ns, now_ns - turn->began_ns);
    gate_flight_reap(now_ns);
    publish_in_flight();
    pthread_mutex_unlock(&gate_lock);
  }
  gate_inside--;
  return result;
}

void gate_tend(uint64_t now_ns) {
  gate_look_at_lease(now_ns);
  observe(now_ns);
  publish_in_flight();
}

void gate_submit_after_fork(void) { going = 0; }
