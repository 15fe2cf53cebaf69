/* Queues: contexts, streams, and the pieces in them. See model.h. */
#include "queues.h"

#include "undo.h"

static void set_bit(struct emu_device *device, uint64_t *bits, unsigned bit, bool on) {
  uint64_t mask = 1ULL << (bit % 64);
  uint64_t word = on ? bits[bit / 64] | mask : bits[bit / 64] & ~mask;
  if (word != bits[bit / 64]) emu_put(device, &bits[bit / 64], word);
}

static bool any_bit(const uint64_t *bits, unsigned count) {
  for (unsigned word = 0; word < count / 64; word++)
    if (bits[word]) return true;
  return false;
}

/* Say for one stream whether its head can run, or has to be looked at; and the same for its context. */
static void refresh(struct emu_device *device, struct emu_context *context, struct emu_stream *stream) {
  struct emu_queues *queues = emu_queues_of(device, context);
  unsigned slot = (unsigned)(stream - queues->streams);
  unsigned context_slot = (unsigned)(context - device->contexts);
  uint64_t kind = stream->head ? queues->ops[stream->head - 1].kind : 0;
  set_bit(device, context->runnable, slot, kind == EMU_OP_WORK);
  set_bit(device, context->blocked, slot, kind == EMU_OP_MARK || kind == EMU_OP_WAIT);
  set_bit(device, device->head.runnable, context_slot, any_bit(context->runnable, EMU_MAX_STREAMS));
  set_bit(device, device->head.blocked, context_slot, any_bit(context->blocked, EMU_MAX_STREAMS));
}

void emu_note_input(struct emu_device *device, uint64_t what, uint64_t context, uint64_t stream, uint64_t a, uint64_t b,
                       uint64_t c, uint64_t seq) {
  uint64_t count = device->head.input_count;
  struct emu_input *input = &device->journal[count % EMU_JOURNAL];
  emu_put(device, &input->at_ns, device->head.clock_ns);
  emu_put(device, &input->what, what);
  emu_put(device, &input->context, context);
  emu_put(device, &input->stream, stream);
  emu_put(device, &input->a, a);
  emu_put(device, &input->b, b);
  emu_put(device, &input->c, c);
  emu_put(device, &input->seq, seq);
  emu_put(device, &device->head.input_count, count + 1);
}

/* Take the head of a stream out of its queue. */
static void pop(struct emu_device *device, struct emu_context *context, struct emu_stream *stream) {
  struct emu_queues *queues = emu_queues_of(device, context);
  uint64_t index = stream->head;
  struct emu_op *op = &queues->ops[index - 1];
  emu_put(device, &stream->completed_seq, op->seq);
  emu_put(device, &stream->head, op->next);
  if (!op->next) {
    emu_put(device, &stream->tail, 0);
    if (stream->state == EMU_STREAM_CLOSING) emu_put(device, &stream->state, EMU_STREAM_FREE);
  }
  if (op->launches) emu_add(device, &context->pending_launches, -op->launches);
  if (op->kind == EMU_OP_WAIT || op->kind == EMU_OP_HOST) emu_add(device, &context->blocking_ops, -1ULL);
  emu_put(device, &op->next, context->free_op);
  emu_put(device, &context->free_op, index);
  emu_add(device, &context->ops_in_use, -1ULL);
  refresh(device, context, stream);
}

bool emu_is_done(const struct emu_device *device, unsigned context, unsigned stream, uint64_t seq) {
  return device->contexts[context].state != EMU_CONTEXT_LIVE ||
         device->queues[context].streams[stream].completed_seq >= seq;
}

/* Take up the head of one stream if it needs no device time and nothing holds it. True if it left. */
static bool settle(struct emu_device *device, struct emu_context *context, struct emu_stream *stream) {
  struct emu_queues *queues = emu_queues_of(device, context);
  struct emu_op *op = &queues->ops[stream->head - 1];
  if (op->kind == EMU_OP_MARK) {
    if (op->target) emu_put(device, &queues->events[op->target - 1].stamp_ns, device->head.clock_ns);
  } else if (!emu_is_done(device, (unsigned)(op->target >> 32) - 1, (unsigned)op->target - 1, op->target_seq)) {
    return false;
  }
  pop(device, context, stream);
  emu_commit(device);
  return true;
}

void emu_settle_all(struct emu_device *device) {
  bool moved;
  do {
    moved = false;
    for (unsigned slot = 0; slot < EMU_MAX_CONTEXTS; slot++) {
      if (device->head.blocked[slot / 64] == 0) slot |= 63;
      if (slot >= EMU_MAX_CONTEXTS || !emu_has_bit(device->head.blocked, slot)) continue;
      struct emu_context *context = &device->contexts[slot];
      for (unsigned word = 0; word < EMU_MAX_STREAMS / 64; word++)
        for (uint64_t bits = context->blocked[word]; bits; bits &= bits - 1)
          moved |= settle(device, context, &device->queues[slot].streams[word * 64 + (unsigned)__builtin_ctzll(bits)]);
    }
  } while (moved);
}

void emu_finish_kernel(struct emu_device *device, unsigned slot) {
  struct emu_context *context = &device->contexts[slot];
  struct emu_queues *queues = emu_queues_of(device, context);
  struct emu_stream *stream = &queues->streams[context->current - 1];
  struct emu_op *op = &queues->ops[stream->head - 1];
  emu_put(device, &stream->progress_ns, 0);
  emu_put(device, &context->last_stream, context->current);
  emu_put(device, &context->current, 0);
  emu_add(device, &context->units_done, 1);
  emu_put(device, &op->units, op->units - 1);
  if (op->units == 0) pop(device, context, stream);
  emu_commit(device);
  emu_settle_all(device);
}

bool emu_has_room(const struct emu_device *device, unsigned slot, unsigned ops, unsigned launches) {
  const struct emu_context *context = &device->contexts[slot];
  return context->ops_in_use + ops <= EMU_MAX_OPS &&
         (launches == 0 || context->pending_launches + launches <= device->head.queue_depth);
}

/* Append a piece to a stream; the fields that make its kind are filled in from `piece`. */
static uint64_t push(struct emu_device *device, unsigned slot, unsigned stream_slot, const struct emu_op *piece) {
  struct emu_context *context = &device->contexts[slot];
  struct emu_queues *queues = emu_queues_of(device, context);
  struct emu_stream *stream = &queues->streams[stream_slot];
  uint64_t work_ns = piece->kind == EMU_OP_WORK ? piece->unit_ns * piece->units : 0;
  uint64_t index = context->free_op;
  if (index)
    emu_put(device, &context->free_op, queues->ops[index - 1].next);
  else
    emu_put(device, &context->fresh_ops, index = context->fresh_ops + 1);
  struct emu_op *op = &queues->ops[index - 1];
  emu_put(device, &op->kind, piece->kind);
  emu_put(device, &op->next, 0);
  emu_put(device, &op->seq, stream->submitted_seq + 1);
  emu_put(device, &op->until_ns, stream->submitted_ns + work_ns);
  emu_put(device, &op->unit_ns, piece->unit_ns);
  emu_put(device, &op->units, piece->units);
  emu_put(device, &op->target, piece->target);
  emu_put(device, &op->target_seq, piece->target_seq);
  emu_put(device, &op->launches, piece->launches);
  emu_add(device, &context->ops_in_use, 1);
  emu_add(device, &context->pending_launches, piece->launches);
  emu_add(device, &context->pending_ns, work_ns);
  if (piece->kind == EMU_OP_WAIT || piece->kind == EMU_OP_HOST) emu_add(device, &context->blocking_ops, 1);
  emu_put(device, &context->last_submit_ns, device->head.clock_ns);
  emu_put(device, &stream->submitted_seq, op->seq);
  emu_put(device, &stream->submitted_ns, op->until_ns);
  emu_put(device, stream->tail ? &queues->ops[stream->tail - 1].next : &stream->head, index);
  emu_put(device, &stream->tail, index);
  refresh(device, context, stream);
  return op->seq;
}

/* After a push or anything else that may let something run: make the step good and go on. */
static void settle_and_dispatch(struct emu_device *device) {
  emu_commit(device);
  emu_settle_all(device);
  emu_dispatch(device);
}

uint64_t emu_submit_work(struct emu_device *device, unsigned context, unsigned stream, uint64_t unit_ns, uint64_t units,
                         unsigned launches, unsigned tally) {
  struct emu_op piece = {.kind = EMU_OP_WORK, .unit_ns = unit_ns ? unit_ns : 1, .units = units, .launches = launches};
  struct emu_context *owner = &device->contexts[context];
  uint64_t *tallies[] = {NULL, &owner->launches, &owner->copies};
  uint64_t seq = push(device, context, stream, &piece);
  if (tallies[tally]) emu_add(device, tallies[tally], 1);
  emu_note_input(device, EMU_IN_WORK, owner->id, stream, piece.unit_ns, units, launches, seq);
  settle_and_dispatch(device);
  return seq;
}

uint64_t emu_submit_mark(struct emu_device *device, unsigned context, unsigned stream, unsigned event) {
  struct emu_op piece = {.kind = EMU_OP_MARK, .target = (uint64_t)event + 1};
  uint64_t seq = push(device, context, stream, &piece);
  emu_note_input(device, EMU_IN_MARK, device->contexts[context].id, stream, event, 0, 0, seq);
  settle_and_dispatch(device);
  return seq;
}

/* The stream's own work up to piece `seq`. */
static uint64_t work_until(const struct emu_queues *queues, const struct emu_stream *stream, uint64_t seq) {
  if (seq >= stream->submitted_seq) return stream->submitted_ns;
  uint64_t until_ns = stream->executed_ns;
  for (uint64_t index = stream->head; index && queues->ops[index - 1].seq <= seq; index = queues->ops[index - 1].next)
    until_ns = queues->ops[index - 1].until_ns;
  return until_ns;
}

uint64_t emu_submit_wait(struct emu_device *device, unsigned context, unsigned stream, unsigned on_context,
                         unsigned on_stream, uint64_t on_seq) {
  struct emu_queues *queues = &device->queues[on_context];
  struct emu_op piece = {.kind = EMU_OP_WAIT,
                         .unit_ns = work_until(queues, &queues->streams[on_stream], on_seq),
                         .target = ((uint64_t)on_context + 1) << 32 | (on_stream + 1),
                         .target_seq = on_seq};
  uint64_t seq = push(device, context, stream, &piece);
  emu_note_input(device, EMU_IN_WAIT, device->contexts[context].id, stream, device->contexts[on_context].id, on_stream, on_seq,
             seq);
  settle_and_dispatch(device);
  return seq;
}

uint64_t emu_submit_host(struct emu_device *device, unsigned context, unsigned stream) {
  struct emu_op piece = {.kind = EMU_OP_HOST};
  uint64_t seq = push(device, context, stream, &piece);
  emu_add(device, &device->contexts[context].host_functions, 1);
  emu_note_input(device, EMU_IN_HOST, device->contexts[context].id, stream, 0, 0, 0, seq);
  settle_and_dispatch(device);
  return seq;
}

bool emu_host_ready(const struct emu_device *device, unsigned context, unsigned stream, uint64_t seq) {
  const struct emu_queues *queues = &device->queues[context];
  uint64_t head = queues->streams[stream].head;
  return device->contexts[context].state == EMU_CONTEXT_LIVE && head && queues->ops[head - 1].kind == EMU_OP_HOST &&
         queues->ops[head - 1].seq == seq;
}

void emu_host_done(struct emu_device *device, unsigned context, unsigned stream, uint64_t seq) {
  if (!emu_host_ready(device, context, stream, seq)) return;
  pop(device, &device->contexts[context], &device->queues[context].streams[stream]);
  emu_note_input(device, EMU_IN_HOST_DONE, device->contexts[context].id, stream, 0, 0, 0, seq);
  settle_and_dispatch(device);
}

int emu_stream_open(struct emu_device *device, unsigned context, int priority) {
  struct emu_queues *queues = &device->queues[context];
  for (unsigned slot = 0; slot < EMU_MAX_STREAMS; slot++) {
    if (queues->streams[slot].state != EMU_STREAM_FREE) continue;
    emu_put(device, &queues->streams[slot].state, EMU_STREAM_OPEN);
    emu_put(device, &queues->streams[slot].priority, (uint64_t)(int64_t)priority);
    emu_note_input(device, EMU_IN_STREAM_OPEN, device->contexts[context].id, slot, (uint64_t)(int64_t)priority, 0, 0, 0);
    emu_commit(device);
    return (int)slot;
  }
  return -1;
}

void emu_stream_close(struct emu_device *device, unsigned context, unsigned slot) {
  struct emu_stream *stream = &device->queues[context].streams[slot];
  emu_put(device, &stream->state, stream->head ? EMU_STREAM_CLOSING : EMU_STREAM_FREE);
  emu_note_input(device, EMU_IN_STREAM_CLOSE, device->contexts[context].id, slot, 0, 0, 0, 0);
  emu_commit(device);
}

int emu_event_open(struct emu_device *device, unsigned slot) {
  struct emu_context *context = &device->contexts[slot];
  struct emu_event *events = device->queues[slot].events;
  for (unsigned tries = 0; tries < EMU_MAX_EVENTS; tries++) {
    unsigned event = (unsigned)((context->fresh_events + tries) % EMU_MAX_EVENTS);
    if (events[event].in_use) continue;
    emu_put(device, &events[event].in_use, 1);
    emu_put(device, &context->fresh_events, event + 1);
    if (event >= context->most_events) emu_put(device, &context->most_events, event + 1);
    emu_commit(device);
    return (int)event;
  }
  return -1;
}

void emu_event_close(struct emu_device *device, unsigned context, unsigned event) {
  emu_put(device, &device->queues[context].events[event].in_use, 0);
  emu_commit(device);
}

void emu_tally_graph(struct emu_device *device, unsigned context) {
  emu_add(device, &device->contexts[context].graph_launches, 1);
  emu_commit(device);
}
