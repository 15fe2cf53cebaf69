/* Streams, among them the two default ones. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "graph.h"

_Thread_local bool emu_default_is_per_thread;

static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;

static pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

/* Inside emu_lock. */
static void drop_stream(CUstream stream) {
  CUcontext context = stream->context;
  for (CUstream *link = &context->streams; *link; link = &(*link)->next) {
    if (*link != stream) continue;
    *link = stream->next;
    break;
  }
  emu_capture_forget_stream(stream);
  stream->magic = 0;
  free(stream);
}

/* Inside emu_lock. */
static void close_stream(CUstream stream) {
  CUcontext context = stream->context;
  struct emu_device *device = emu_hold(emu_driver.machine, context->device);
  emu_stream_close(device, context->slot, stream->slot);
  emu_release(emu_driver.machine, context->device);
  drop_stream(stream);
}

void emu_drop_streams(CUcontext context) {
  while (context->streams) drop_stream(context->streams);
  context->legacy = NULL;
}

/* A thread that ends leaves no default stream behind. */
static void thread_ended(void *contexts) {
  (void)contexts;
  if (emu_driver.state != EMU_READY) return;
  emu_lock();
  for (int device = 0; device < emu_driver.device_count; device++) {
    CUcontext context = emu_driver.primary[device];
    if (!EMU_IS(context, EMU_CONTEXT)) continue;
    for (CUstream stream = context->streams, next; stream; stream = next) {
      next = stream->next;
      if (stream->thread == this_thread()) close_stream(stream);
    }
  }
  emu_unlock();
}

static void make_thread_key(void) { pthread_key_create(&thread_key, thread_ended); }

CUresult emu_make_stream(CUcontext context, unsigned flags, int priority, CUstream *made) {
  CUstream stream = calloc(1, sizeof *stream);
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  struct emu_device *device = emu_hold(emu_driver.machine, context->device);
  int slot = emu_stream_open(device, context->slot, priority);
  if (slot >= 0) { /* numbers go on where the slot's last owner left them */
    stream->last_seq = device->queues[context->slot].streams[slot].submitted_seq;
    stream->last_until_ns = device->queues[context->slot].streams[slot].submitted_ns;
  }
  emu_release(emu_driver.machine, context->device);
  if (slot < 0) {
    free(stream);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  stream->magic = EMU_STREAM;
  stream->context = context;
  stream->slot = (unsigned)slot;
  stream->flags = flags;
  stream->priority = priority;
  stream->next = context->streams;
  context->streams = stream;
  *made = stream;
  return CUDA_SUCCESS;
}

/* This thread's default stream in a context, made when first asked for. */
static CUresult thread_stream(CUcontext context, CUstream *found) {
  static _Thread_local pid_t thread;
  if (!thread) thread = this_thread();
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  CUstream stream = context->streams;
  while (stream && stream->thread != thread) stream = stream->next;
  if (!stream) {
    result = emu_make_stream(context, CU_STREAM_DEFAULT, 0, &stream);
    if (result == CUDA_SUCCESS) {
      stream->thread = thread;
      pthread_once(&thread_key_once, make_thread_key);
      pthread_setspecific(thread_key, stream);
    }
  }
  emu_unlock();
  *found = stream;
  return result;
}

CUresult emu_resolve_stream(CUstream *stream) {
  CUcontext context;
  bool per_thread = *stream == CU_STREAM_PER_THREAD || (!*stream && emu_default_is_per_thread);
  if (!*stream || *stream == CU_STREAM_LEGACY || per_thread) {
    CUresult result = emu_current(&context);
    if (result != CUDA_SUCCESS) return result;
    if (per_thread) return thread_stream(context, stream);
    *stream = context->legacy;
    return CUDA_SUCCESS;
  }
  return EMU_IS(*stream, EMU_STREAM) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
  EMU_ENTER();
  if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result != CUDA_SUCCESS) return result;
  if (priority > 0) priority = 0;
  if (priority < -5) priority = -5;
  emu_lock();
  result = emu_make_stream(context, flags, priority, stream);
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  EMU_ENTER();
  if (!EMU_IS(stream, EMU_STREAM) || stream == stream->context->legacy || stream->thread) return CUDA_ERROR_INVALID_HANDLE;
  emu_lock();
  close_stream(stream);
  emu_unlock();
  return CUDA_SUCCESS;
}

#define EMU_WITH_STREAM(stream, argument)           \
  EMU_ENTER();                                      \
  if (!(argument)) return CUDA_ERROR_INVALID_VALUE; \
  CUresult found = emu_resolve_stream(&(stream));   \
  if (found != CUDA_SUCCESS) return found

CUresult CUDAAPI cuStreamGetPriority(CUstream stream, int *priority) {
  EMU_WITH_STREAM(stream, priority);
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream stream, unsigned int *flags) {
  EMU_WITH_STREAM(stream, flags);
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice *device) {
  EMU_WITH_STREAM(stream, device);
  *device = stream->context->ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long *id) {
  EMU_WITH_STREAM(stream, id);
  *id = stream->context->id << 32 | (stream->slot + 1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *context) {
  EMU_WITH_STREAM(stream, context);
  *context = stream->context;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green) {
  EMU_WITH_STREAM(stream, context && green);
  *context = stream->context;
  *green = NULL;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  EMU_WITH_STREAM(stream, true);
  found = emu_check_capture();
  return found == CUDA_SUCCESS ? emu_wait_stream(stream) : found;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
  EMU_WITH_STREAM(stream, true);
  found = emu_check_capture();
  if (found != CUDA_SUCCESS) return found;
  emu_lock();
  found = emu_done(stream->context, stream->slot, stream->last_seq) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  emu_unlock();
  return found;
}
