/* Events: marks in streams, with the device time at which they were passed. */
#include <stdlib.h>

#include "driver.h"
#include "graph.h"

CUresult CUDAAPI cuEventCreate(CUevent *made, unsigned int flags) {
  EMU_ENTER();
  const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (!made || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS) return emu_not_modelled("cuEventCreate with CU_EVENT_INTERPROCESS");
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result != CUDA_SUCCESS) return result;
  CUevent event = calloc(1, sizeof *event);
  if (!event) return CUDA_ERROR_OUT_OF_MEMORY;
  event->magic = EMU_EVENT;
  event->context = context;
  event->flags = flags;
  event->slot = -1;
  if (!(flags & CU_EVENT_DISABLE_TIMING)) {
    struct emu_device *device = emu_hold(emu_driver.machine, context->device);
    event->slot = emu_event_open(device, context->slot);
    emu_release(emu_driver.machine, context->device);
    if (event->slot < 0) {
      free(event);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  *made = event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  EMU_ENTER();
  if (!EMU_IS(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  emu_lock();
  CUcontext context = event->context;
  if (event->slot >= 0 && context->magic == EMU_CONTEXT) {
    struct emu_device *device = emu_hold(emu_driver.machine, context->device);
    /* A mark that is still queued will write to the slot: such a slot is not used again while the context lives. */
    if (!event->recorded || emu_is_done(device, context->slot, event->stream, event->seq))
      emu_event_close(device, context->slot, (unsigned)event->slot);
    emu_release(emu_driver.machine, context->device);
  }
  emu_set_clear(&event->tail);
  event->magic = 0;
  emu_unlock();
  free(event);
  return CUDA_SUCCESS;
}

void emu_append_record(CUstream stream, struct emu_device *device, CUevent event) {
  unsigned context = stream->context->slot;
  if (event->slot >= 0) emu_submit_mark(device, context, stream->slot, (unsigned)event->slot);
  event->recorded = true;
  event->capture = NULL;
  event->stream = stream->slot;
  event->seq = device->queues[context].streams[stream->slot].submitted_seq;
  event->until_ns = device->queues[context].streams[stream->slot].submitted_ns;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  EMU_ENTER();
  if (!EMU_IS(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->context != event->context) return CUDA_ERROR_INVALID_HANDLE;
  bool captured;
  result = emu_capture_record(stream, event, &captured);
  if (result != CUDA_SUCCESS || captured) return result;
  struct emu_device *device;
  result = emu_begin(stream, 1, 0, &device);
  if (result != CUDA_SUCCESS) return result;
  emu_append_record(stream, device, event);
  emu_end(stream, device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags) return emu_not_modelled("cuEventRecordWithFlags with CU_EVENT_RECORD_EXTERNAL");
  return cuEventRecord(event, stream);
}

static CUresult check_event(CUevent event) {
  EMU_ENTER();
  if (!EMU_IS(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (emu_event_is_captured(event)) return CUDA_ERROR_CAPTURED_EVENT;
  return emu_check_capture();
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  CUresult result = check_event(event);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  bool done = !event->recorded || emu_done(event->context, event->stream, event->seq);
  emu_unlock();
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  CUresult result = check_event(event);
  if (result != CUDA_SUCCESS || !event->recorded) return result;
  return emu_wait(event->context, event->stream, event->seq, event->until_ns);
}

/* All versions of cuEventElapsedTime (older.c) come here. */
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  EMU_ENTER();
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (!EMU_IS(start, EMU_EVENT) || !EMU_IS(end, EMU_EVENT) || start->slot < 0 || end->slot < 0) return CUDA_ERROR_INVALID_HANDLE;
  if (start->context->device != end->context->device) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  emu_lock();
  CUresult result = CUDA_SUCCESS;
  if (!emu_done(start->context, start->stream, start->seq) || !emu_done(end->context, end->stream, end->seq)) {
    result = CUDA_ERROR_NOT_READY;
  } else {
    struct emu_device *device = emu_hold(emu_driver.machine, start->context->device);
    uint64_t from_ns = device->queues[start->context->slot].events[start->slot].stamp_ns;
    uint64_t to_ns = device->queues[end->context->slot].events[end->slot].stamp_ns;
    emu_release(emu_driver.machine, start->context->device);
    *milliseconds = (float)((double)(int64_t)(to_ns - from_ns) / 1e6);
  }
  emu_unlock();
  return result;
}

/* Work of another device, or of a context on it, cannot be a piece of this device's queues: the callback thread waits. */
struct foreign_wait {
  CUcontext context;
  unsigned stream;
  uint64_t seq, until_ns;
};

static void wait_for_foreign(void *data) {
  struct foreign_wait *wait = data;
  emu_wait(wait->context, wait->stream, wait->seq, wait->until_ns);
  free(wait);
}

static CUresult wait_across_devices(CUstream stream, CUevent event) {
  struct foreign_wait *wait = malloc(sizeof *wait);
  if (!wait) return CUDA_ERROR_OUT_OF_MEMORY;
  *wait = (struct foreign_wait){event->context, event->stream, event->seq, event->until_ns};
  CUresult result = emu_submit_host_function(stream, wait_for_foreign, wait);
  if (result != CUDA_SUCCESS) free(wait);
  return result;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  EMU_ENTER();
  if (!EMU_IS(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags) return emu_not_modelled("cuStreamWaitEvent with CU_EVENT_WAIT_EXTERNAL");
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  bool captured;
  result = emu_capture_wait(stream, event, &captured);
  if (result != CUDA_SUCCESS || captured || !event->recorded) return result;
  CUcontext of = event->context;
  if (of->device != stream->context->device) return wait_across_devices(stream, event);
  struct emu_device *device;
  result = emu_begin(stream, 1, 0, &device);
  if (result != CUDA_SUCCESS) return result;
  if (!emu_is_done(device, of->slot, event->stream, event->seq))
    emu_submit_wait(device, stream->context->slot, stream->slot, of->slot, event->stream, event->seq);
  emu_end(stream, device);
  return CUDA_SUCCESS;
}
