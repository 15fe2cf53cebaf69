/* Contexts of the model: their slots, and what becomes of one that ends. See model.h. */
#include "queues.h"
#include "undo.h"

/* The slot for a new context: one that was never used, or else the one whose owner has been gone for longest. */
static int free_slot(const struct emu_device *device) {
  int oldest = -1;
  for (unsigned slot = 0; slot < EMU_MAX_CONTEXTS; slot++) {
    const struct emu_context *context = &device->contexts[slot];
    if (context->state == EMU_CONTEXT_FREE) return (int)slot;
    if (context->state == EMU_CONTEXT_ENDED &&
        (oldest < 0 || context->ended_ns < device->contexts[oldest].ended_ns))
      oldest = (int)slot;
  }
  return oldest;
}

/* Empty what the last owner of a slot left. Safe to repeat: the slot does not count until its state says so. */
static void clear_slot(struct emu_device *device, unsigned slot) {
  struct emu_context *context = &device->contexts[slot];
  struct emu_queues *queues = &device->queues[slot];
  for (unsigned index = 0; index < EMU_MAX_STREAMS; index++) {
    struct emu_stream *stream = &queues->streams[index];
    if (stream->submitted_seq == 0 && stream->state == EMU_STREAM_FREE) continue;
    emu_put(device, &stream->completed_seq, stream->submitted_seq);
    emu_put(device, &stream->executed_ns, stream->submitted_ns);
    emu_put(device, &stream->progress_ns, 0);
    emu_put(device, &stream->head, 0);
    emu_put(device, &stream->tail, 0);
    emu_put(device, &stream->state, EMU_STREAM_FREE);
    emu_commit(device);
  }
  for (unsigned index = 0; index < context->most_events; index++) {
    if (!queues->events[index].in_use) continue;
    emu_put(device, &queues->events[index].in_use, 0);
    emu_commit(device);
  }
  for (unsigned other = 0; other < EMU_MAX_CONTEXTS; other++) {
    struct emu_context *waiter = &device->contexts[other];
    if (!waiter->wait_on[slot]) continue;
    emu_add(device, &waiter->wait_on_gone_ns, waiter->wait_on[slot]);
    emu_put(device, &waiter->wait_on[slot], 0);
    emu_commit(device);
  }
  for (uint64_t *word = (uint64_t *)context; word < (uint64_t *)(context + 1); word++) {
    if (*word && word != &context->state) emu_put(device, word, 0);
  }
}

int emu_context_open(struct emu_device *device, unsigned process, uint64_t pid) {
  int slot = free_slot(device);
  if (slot < 0) return -1;
  struct emu_context *context = &device->contexts[slot];
  clear_slot(device, (unsigned)slot);
  emu_add(device, &device->head.next_id, 1);
  emu_put(device, &context->id, device->head.next_id);
  emu_put(device, &context->process, process);
  emu_put(device, &context->pid, pid);
  emu_put(device, &context->created_ns, device->head.clock_ns);
  emu_put(device, &context->state, EMU_CONTEXT_LIVE);
  emu_note_input(device, EMU_IN_CONTEXT_OPEN, context->id, 0, (uint64_t)slot, pid, 0, 0);
  emu_commit(device);
  return slot;
}

void emu_context_close(struct emu_device *device, unsigned slot) {
  struct emu_device_head *head = &device->head;
  struct emu_context *context = &device->contexts[slot];
  emu_put(device, &context->state, EMU_CONTEXT_ENDED);
  emu_put(device, &context->ended_ns, head->clock_ns);
  emu_put(device, &context->pending_launches, 0);
  emu_put(device, &context->pending_ns, 0);
  emu_put(device, &head->runnable[slot / 64], head->runnable[slot / 64] & ~(1ULL << (slot % 64)));
  emu_put(device, &head->blocked[slot / 64], head->blocked[slot / 64] & ~(1ULL << (slot % 64)));
  if (head->resident == slot + 1) {
    emu_put(device, &head->resident, EMU_RESIDENT_GONE);
    if (head->activity == EMU_RUNNING) emu_put(device, &head->activity, EMU_IDLE);
  }
  if (head->activity == EMU_SWITCHING && head->switch_from == slot + 1)
    emu_put(device, &head->switch_from, EMU_RESIDENT_GONE);
  emu_note_input(device, EMU_IN_CONTEXT_CLOSE, context->id, 0, slot, 0, 0, 0);
  emu_commit(device);
  emu_settle_all(device); /* whoever waited for its streams waits no longer */
  emu_dispatch(device);
}
