/* How work reaches a device's queues, and how a thread waits for it. */
#include "driver.h"
#include "graph.h"

/* How long a sleeper may go without looking whether someone it waits for has died. */
enum { LOOK_EVERY_NS = 10000000 };

/* The pieces that a stream must wait for before its next one: the default stream's implicit order. */
static void keep_default_order(CUstream stream, struct emu_device *device) {
  CUcontext context = stream->context;
  if (stream->flags & CU_STREAM_NON_BLOCKING) return;
  if (stream != context->legacy) {
    CUstream legacy = context->legacy;
    if (stream->legacy_seq >= legacy->last_seq) return;
    stream->legacy_seq = legacy->last_seq;
    if (!emu_is_done(device, context->slot, legacy->slot, legacy->last_seq))
      emu_submit_wait(device, context->slot, stream->slot, context->slot, legacy->slot, legacy->last_seq);
    return;
  }
  for (CUstream other = context->streams; other; other = other->next) {
    if (other == stream || other->flags & CU_STREAM_NON_BLOCKING) continue;
    if (!emu_is_done(device, context->slot, other->slot, other->last_seq))
      emu_submit_wait(device, context->slot, stream->slot, context->slot, other->slot, other->last_seq);
  }
}

CUresult emu_begin(CUstream stream, unsigned ops, unsigned launches, struct emu_device **held) {
  struct emu_machine *machine = emu_driver.machine;
  CUcontext context = stream->context;
  for (;;) {
    emu_lock();
    if (context->magic != EMU_CONTEXT) {
      emu_unlock();
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    struct emu_device *device = emu_hold(machine, context->device);
    if (device->contexts[context->slot].state != EMU_CONTEXT_LIVE ||
        device->contexts[context->slot].process != emu_driver.process) {
      emu_release(machine, context->device);
      emu_unlock();
      return CUDA_ERROR_DEINITIALIZED;
    }
    bool shut = __atomic_load_n(&machine->processes[emu_driver.process].gate, __ATOMIC_ACQUIRE) && !emu_on_callback_thread();
    if (!shut && emu_has_room(device, context->slot, ops + EMU_MAX_STREAMS, launches)) {
      keep_default_order(stream, device);
      *held = device;
      return CUDA_SUCCESS;
    }
    uint32_t epoch = emu_epoch(machine, context->device);
    uint64_t look_ns = emu_earliest_progress(device, context->slot);
    uint64_t clock_ns = device->head.clock_ns;
    emu_release(machine, context->device);
    emu_unlock();
    if (shut) {
      emu_await_gate();
      continue;
    }
    if (look_ns < clock_ns + 20000) look_ns = clock_ns + 20000; /* let several short kernels pass at once */
    if (look_ns > clock_ns + LOOK_EVERY_NS) look_ns = clock_ns + LOOK_EVERY_NS;
    emu_sleep(machine, context->device, epoch, look_ns);
    emu_reap(machine, LOOK_EVERY_NS);
  }
}

void emu_append_work(CUstream stream, struct emu_device *device, uint64_t unit_ns, uint64_t units, unsigned launches,
                     unsigned tally) {
  emu_submit_work(device, stream->context->slot, stream->slot, unit_ns, units, launches, tally);
}

void emu_end(CUstream stream, struct emu_device *device) {
  const struct emu_stream *queue = &device->queues[stream->context->slot].streams[stream->slot];
  stream->last_seq = queue->submitted_seq;
  stream->last_until_ns = queue->submitted_ns;
  emu_release(emu_driver.machine, stream->context->device);
  emu_unlock();
}

bool emu_done(CUcontext context, unsigned stream, uint64_t seq) {
  struct emu_device *device = emu_hold(emu_driver.machine, context->device);
  bool done = context->magic != EMU_CONTEXT || emu_is_done(device, context->slot, stream, seq);
  emu_release(emu_driver.machine, context->device);
  return done;
}

CUresult emu_wait(CUcontext context, unsigned stream, uint64_t seq, uint64_t until_ns) {
  struct emu_machine *machine = emu_driver.machine;
  unsigned index = context->device, slot = context->slot;
  for (;;) {
    if (context->magic != EMU_CONTEXT) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    struct emu_device *device = emu_hold(machine, index);
    bool done = emu_is_done(device, slot, stream, seq);
    uint64_t clock_ns = device->head.clock_ns;
    uint64_t look_ns = done ? 0 : emu_earliest(device, slot, stream, until_ns);
    uint32_t epoch = emu_epoch(machine, index);
    emu_release(machine, index);
    if (done) return CUDA_SUCCESS;
    if (look_ns <= clock_ns || look_ns > clock_ns + LOOK_EVERY_NS) look_ns = clock_ns + LOOK_EVERY_NS;
    emu_sleep(machine, index, epoch, look_ns);
    emu_reap(machine, LOOK_EVERY_NS);
  }
}

CUresult emu_wait_stream(CUstream stream) {
  emu_lock();
  CUcontext context = stream->context;
  unsigned slot = stream->slot;
  uint64_t seq = stream->last_seq, until_ns = stream->last_until_ns;
  emu_unlock();
  return emu_wait(context, slot, seq, until_ns);
}
