/* Lower bounds on when something can be done, so that a process can sleep until then and look again. See model.h.
 *
 * Whatever else is submitted can only make it later, so no one has to be woken for new work. The bounds are exact for a
 * context that is alone on the device with one stream.
 */
#include "queues.h"

/* Streams that wait for streams that wait: beyond this many, look again soon instead of following them. */
enum { MOST_WAITS = 16, LOOK_AGAIN_NS = 100000 };

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* How long a context that has the device keeps others waiting at least, when it has `slice_ns` left. */
static uint64_t least_hold(const struct emu_device *device, unsigned slot, uint64_t slice_ns) {
  const struct emu_context *context = &device->contexts[slot];
  if (!context->blocking_ops) return sooner(context->pending_ns, slice_ns);
  if (!context->current) return 0;
  const struct emu_queues *queues = &device->queues[slot];
  const struct emu_stream *stream = &queues->streams[context->current - 1];
  return sooner(queues->ops[stream->head - 1].unit_ns - stream->progress_ns, slice_ns);
}

/* The earliest time at which the context can run. */
static uint64_t earliest_start(const struct emu_device *device, unsigned slot) {
  const struct emu_device_head *head = &device->head;
  uint64_t at_ns = head->clock_ns;
  unsigned last;
  if (head->activity == EMU_RUNNING) {
    last = (unsigned)head->resident - 1;
    if (last == slot) return at_ns;
    at_ns += least_hold(device, last, head->slice_end_ns - at_ns);
  } else if (head->activity == EMU_SWITCHING) {
    last = (unsigned)head->switch_to - 1;
    at_ns = head->switch_end_ns;
    if (last == slot) return at_ns;
    if (emu_has_bit(head->runnable, last)) at_ns += least_hold(device, last, head->slice_ns);
  } else {
    return at_ns; /* idle: it has nothing to run yet */
  }
  if (!emu_has_bit(head->runnable, slot)) return at_ns;
  for (;;) { /* those whose turn comes first */
    int next = emu_next_bit(head->runnable, EMU_MAX_CONTEXTS, last);
    at_ns += head->switch_ns;
    if (next < 0 || next == (int)slot) return at_ns;
    last = (unsigned)next;
    at_ns += least_hold(device, last, head->slice_ns);
  }
}

/* As emu_earliest, following at most `depth` waits of streams for one another. */
static uint64_t earliest(const struct emu_device *device, unsigned slot, unsigned stream_slot, uint64_t until_ns,
                         unsigned depth) {
  const struct emu_queues *queues = &device->queues[slot];
  const struct emu_stream *stream = &queues->streams[stream_slot];
  uint64_t own_ns = until_ns > stream->executed_ns ? until_ns - stream->executed_ns : 0;
  uint64_t start_ns = device->head.clock_ns;
  const struct emu_op *head = stream->head ? &queues->ops[stream->head - 1] : NULL;
  if (head && head->kind == EMU_OP_HOST) return 0;
  if (head && head->kind == EMU_OP_WAIT) {
    if (!depth) return start_ns + LOOK_AGAIN_NS;
    start_ns = earliest(device, (unsigned)(head->target >> 32) - 1, (unsigned)head->target - 1, head->unit_ns, depth - 1);
    if (!start_ns) return 0;
  }
  if (own_ns) start_ns = later(start_ns, earliest_start(device, slot));
  return start_ns + own_ns;
}

uint64_t emu_earliest(const struct emu_device *device, unsigned slot, unsigned stream, uint64_t until_ns) {
  return earliest(device, slot, stream, until_ns, MOST_WAITS);
}

uint64_t emu_earliest_progress(const struct emu_device *device, unsigned slot) {
  const struct emu_context *context = &device->contexts[slot];
  const struct emu_queues *queues = &device->queues[slot];
  uint64_t at_ns = EMU_NEVER;
  for (unsigned word = 0; word < EMU_MAX_STREAMS / 64; word++) {
    for (uint64_t bits = context->runnable[word]; bits; bits &= bits - 1) {
      const struct emu_stream *stream = &queues->streams[word * 64 + (unsigned)__builtin_ctzll(bits)];
      const struct emu_op *op = &queues->ops[stream->head - 1];
      at_ns = sooner(at_ns, op->unit_ns - stream->progress_ns);
    }
  }
  return at_ns == EMU_NEVER ? device->head.clock_ns : earliest_start(device, slot) + at_ns;
}
