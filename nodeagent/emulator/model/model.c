/* Scheduling: how time passes on the device, and who holds it. See model.h. */
#include "model.h"

#include "queues.h"
#include "undo.h"

void emu_rollback(struct emu_device *device) {
  while (device->head.undo_count) {
    struct emu_undo *note = &device->undo[device->head.undo_count - 1];
    *(volatile uint64_t *)((char *)device + note->offset) = note->old;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *(volatile uint64_t *)&device->head.undo_count -= 1;
  }
}

int emu_next_bit(const uint64_t *bits, unsigned count, unsigned after) {
  for (unsigned step = 1; step <= count; step++) {
    unsigned bit = (after + step) % count;
    uint64_t rest = bits[bit / 64] >> (bit % 64);
    if (rest & 1) return (int)bit;
    if (rest == 0) {
      unsigned skip = 63 - bit % 64;
      if (step + skip <= count) step += skip;
    }
  }
  return -1;
}

/* The context that the device works for, or loads, at this moment; -1 when idle. */
static int holder(const struct emu_device *device) {
  if (device->head.activity == EMU_RUNNING) return (int)device->head.resident - 1;
  if (device->head.activity == EMU_SWITCHING) return (int)device->head.switch_to - 1;
  return -1;
}

/* Note in the history that the device did `kind` for context `id` until now; contiguous spans grow together. */
static void extend_history(struct emu_device *device, uint64_t kind, uint64_t id, uint64_t start_ns, uint64_t end_ns) {
  uint64_t count = device->head.history_count;
  struct emu_span *last = &device->history[(count + EMU_HISTORY - 1) % EMU_HISTORY];
  if (count && last->kind == kind && last->id == id && last->end_ns == start_ns) {
    emu_put(device, &last->end_ns, end_ns);
    return;
  }
  struct emu_span *span = &device->history[count % EMU_HISTORY];
  emu_put(device, &span->start_ns, start_ns);
  emu_put(device, &span->end_ns, end_ns);
  emu_put(device, &span->kind, kind);
  emu_put(device, &span->id, id);
  emu_put(device, &device->head.history_count, count + 1);
}

/* Charge `span_ns` of waiting to every context that had work and did not run, and say whose doing it was: the running
 * context's, or in a switch the context's that is being loaded, and for that one itself the context's that was there. */
static void charge_waiting(struct emu_device *device, uint64_t span_ns) {
  struct emu_device_head *head = &device->head;
  int in_hand = holder(device);
  for (unsigned word = 0; word < EMU_MAX_CONTEXTS / 64; word++) {
    for (uint64_t bits = head->runnable[word]; bits; bits &= bits - 1) {
      int slot = (int)(word * 64) + __builtin_ctzll(bits);
      if (head->activity == EMU_RUNNING && slot == in_hand) continue;
      struct emu_context *waiting = &device->contexts[slot];
      uint64_t culprit = (uint64_t)in_hand + 1;
      emu_add(device, &waiting->wait_ns, span_ns);
      if (head->activity == EMU_SWITCHING) {
        emu_add(device, &waiting->wait_in_switch_ns, span_ns);
        if (slot == in_hand) culprit = head->switch_from;
      }
      if (culprit == EMU_RESIDENT_GONE)
        emu_add(device, &waiting->wait_on_gone_ns, span_ns);
      else
        emu_add(device, &waiting->wait_on[culprit - 1], span_ns);
    }
  }
}

/* Let `span_ns` pass in which nothing changes hands. */
static void pass(struct emu_device *device, uint64_t span_ns) {
  struct emu_device_head *head = &device->head;
  uint64_t until_ns = head->clock_ns + span_ns;
  int in_hand = holder(device);
  if (in_hand < 0) {
    emu_add(device, &head->idle_ns, span_ns);
  } else {
    struct emu_context *context = &device->contexts[in_hand];
    if (head->activity == EMU_RUNNING) {
      struct emu_stream *stream = &emu_queues_of(device, context)->streams[context->current - 1];
      emu_add(device, &head->busy_ns, span_ns);
      emu_add(device, &context->busy_ns, span_ns);
      emu_add(device, &context->pending_ns, -span_ns);
      emu_add(device, &stream->progress_ns, span_ns);
      emu_add(device, &stream->executed_ns, span_ns);
    } else {
      emu_add(device, &head->switching_ns, span_ns);
    }
    extend_history(device, head->activity, context->id, head->clock_ns, until_ns);
    charge_waiting(device, span_ns);
  }
  emu_put(device, &head->clock_ns, until_ns);
  emu_commit(device);
}

/* The stream whose kernel the context runs next: best priority first, in turn among equals. */
static unsigned pick_stream(struct emu_device *device, struct emu_context *context) {
  struct emu_queues *queues = emu_queues_of(device, context);
  unsigned last = context->last_stream ? (unsigned)context->last_stream - 1 : EMU_MAX_STREAMS - 1;
  int first = emu_next_bit(context->runnable, EMU_MAX_STREAMS, last);
  int best = first;
  for (int slot = first;;) {
    slot = emu_next_bit(context->runnable, EMU_MAX_STREAMS, (unsigned)slot);
    if (slot == first) break;
    if ((int64_t)queues->streams[slot].priority < (int64_t)queues->streams[best].priority) best = slot;
  }
  return (unsigned)best;
}

static void run_context(struct emu_device *device, unsigned slot) {
  struct emu_context *context = &device->contexts[slot];
  emu_put(device, &device->head.activity, EMU_RUNNING);
  emu_put(device, &device->head.resident, slot + 1);
  emu_put(device, &device->head.slice_end_ns, device->head.clock_ns + device->head.slice_ns);
  emu_add(device, &context->slices, 1);
  if (!context->current) emu_put(device, &context->current, pick_stream(device, context) + 1);
  emu_commit(device);
}

/* Give the device to the next context with work, in turn after the one in slot `last`. */
static void choose_context(struct emu_device *device, unsigned last) {
  struct emu_device_head *head = &device->head;
  int next = emu_next_bit(head->runnable, EMU_MAX_CONTEXTS, last);
  if (next < 0) {
    emu_put(device, &head->activity, EMU_IDLE);
    emu_commit(device);
  } else if (head->resident == (uint64_t)next + 1 || head->resident == 0 || head->switch_ns == 0) {
    run_context(device, (unsigned)next);
  } else {
    emu_put(device, &head->activity, EMU_SWITCHING);
    emu_put(device, &head->switch_from, head->resident);
    emu_put(device, &head->switch_to, (uint64_t)next + 1);
    emu_put(device, &head->switch_end_ns, head->clock_ns + head->switch_ns);
    emu_add(device, &head->switches, 1);
    emu_commit(device);
  }
}

static unsigned last_holder(const struct emu_device *device) {
  uint64_t resident = device->head.resident;
  return resident && resident != EMU_RESIDENT_GONE ? (unsigned)resident - 1 : EMU_MAX_CONTEXTS - 1;
}

void emu_dispatch(struct emu_device *device) {
  struct emu_device_head *head = &device->head;
  if (head->activity == EMU_IDLE) choose_context(device, last_holder(device));
  if (head->activity != EMU_RUNNING) return;
  unsigned slot = (unsigned)head->resident - 1;
  struct emu_context *context = &device->contexts[slot];
  if (!emu_has_bit(head->runnable, slot)) {
    choose_context(device, slot);
  } else if (!context->current) {
    emu_put(device, &context->current, pick_stream(device, context) + 1);
    emu_commit(device);
  }
}

static void end_slice(struct emu_device *device) {
  unsigned slot = (unsigned)device->head.resident - 1;
  if (emu_next_bit(device->head.runnable, EMU_MAX_CONTEXTS, slot) == (int)slot) {
    emu_add(device, &device->head.slice_end_ns, device->head.slice_ns);
    emu_commit(device);
    return;
  }
  struct emu_context *context = &device->contexts[slot];
  if (emu_queues_of(device, context)->streams[context->current - 1].progress_ns)
    emu_add(device, &context->preemptions, 1);
  choose_context(device, slot);
}

static void end_switch(struct emu_device *device) {
  unsigned slot = (unsigned)device->head.switch_to - 1;
  if (emu_has_bit(device->head.runnable, slot)) {
    run_context(device, slot);
    return;
  }
  emu_put(device, &device->head.resident, device->contexts[slot].state == EMU_CONTEXT_LIVE ? slot + 1 : EMU_RESIDENT_GONE);
  choose_context(device, slot);
}

/* When the present activity ends by itself. */
static uint64_t next_change(struct emu_device *device, bool *kernel_ends) {
  struct emu_device_head *head = &device->head;
  *kernel_ends = false;
  if (head->activity == EMU_IDLE) return EMU_NEVER;
  if (head->activity == EMU_SWITCHING) return head->switch_end_ns;
  struct emu_context *context = &device->contexts[head->resident - 1];
  struct emu_queues *queues = emu_queues_of(device, context);
  struct emu_stream *stream = &queues->streams[context->current - 1];
  uint64_t end_ns = head->clock_ns + queues->ops[stream->head - 1].unit_ns - stream->progress_ns;
  *kernel_ends = end_ns <= head->slice_end_ns; /* a kernel that ends with the slice has ended */
  return *kernel_ends ? end_ns : head->slice_end_ns;
}

void emu_advance(struct emu_device *device, uint64_t now_ns) {
  struct emu_device_head *head = &device->head;
  emu_settle_all(device); /* after a rollback there may be pieces to take up again */
  emu_dispatch(device);
  for (;;) {
    bool kernel_ends;
    uint64_t next_ns = next_change(device, &kernel_ends);
    if (next_ns > now_ns) {
      if (now_ns > head->clock_ns) pass(device, now_ns - head->clock_ns);
      return;
    }
    if (next_ns > head->clock_ns) pass(device, next_ns - head->clock_ns);
    if (kernel_ends) {
      emu_finish_kernel(device, (unsigned)head->resident - 1);
      emu_dispatch(device);
    } else if (head->activity == EMU_RUNNING) {
      end_slice(device);
    } else {
      end_switch(device);
    }
  }
}
