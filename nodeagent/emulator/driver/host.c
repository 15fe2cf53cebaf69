/* Host functions: pieces of a stream that this process carries out itself, on one callback thread per device. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "driver.h"
#include "graph.h"

struct pending {
  struct pending *next;
  CUcontext context;
  unsigned slot, stream;
  uint64_t seq, until_ns;
  emu_host_function function;
  void *data;
};

static struct {
  struct pending *first, **end;
  bool running;
} queues[EMU_MAX_DEVICES];

static _Thread_local bool on_callback_thread;

bool emu_on_callback_thread(void) { return on_callback_thread; }

bool emu_host_pending(CUcontext context) {
  for (struct pending *entry = queues[context->device].first; entry; entry = entry->next)
    if (entry->context == context) return true;
  return false;
}

bool emu_host_pending_on(unsigned device) { return queues[device].first != NULL; }

void emu_drop_host_functions(CUcontext context) {
  struct pending **link = &queues[context->device].first;
  while (*link) {
    struct pending *entry = *link;
    if (entry->context == context) {
      *link = entry->next;
      free(entry);
    } else {
      link = &entry->next;
    }
  }
  queues[context->device].end = link;
}

/* Inside emu_lock: the first function whose turn it is, or when to look again. */
static struct pending *find_ready(unsigned index, uint64_t *look_ns) {
  struct emu_device *device = emu_hold(emu_driver.machine, index);
  struct pending *ready = NULL;
  uint64_t clock_ns = device->head.clock_ns;
  *look_ns = clock_ns + 5000000;
  for (struct pending *entry = queues[index].first; entry && !ready; entry = entry->next) {
    if (emu_host_ready(device, entry->slot, entry->stream, entry->seq)) ready = entry;
    uint64_t at_ns = emu_earliest(device, entry->slot, entry->stream, entry->until_ns);
    if (at_ns > clock_ns && at_ns < *look_ns) *look_ns = at_ns;
  }
  emu_release(emu_driver.machine, index);
  return ready;
}

static void carry_out(unsigned index, struct pending *entry) {
  struct pending work = *entry;
  emu_unlock();
  work.function(work.data);
  emu_lock();
  struct pending **link = &queues[index].first;
  while (*link && *link != entry) link = &(*link)->next;
  if (!*link) return; /* its context was destroyed meanwhile */
  *link = entry->next;
  if (!entry->next) queues[index].end = link;
  free(entry);
  struct emu_device *device = emu_hold(emu_driver.machine, index);
  emu_host_done(device, work.slot, work.stream, work.seq);
  emu_release(emu_driver.machine, index);
  emu_wake(emu_driver.machine, index);
}

static void *callback_thread(void *argument) {
  unsigned index = (unsigned)(uintptr_t)argument;
  on_callback_thread = true;
  for (;;) {
    uint64_t look_ns;
    emu_lock();
    uint32_t epoch = emu_epoch(emu_driver.machine, index);
    struct pending *ready = find_ready(index, &look_ns);
    bool idle = !queues[index].first;
    if (ready) carry_out(index, ready);
    if (idle) queues[index].running = false;
    emu_unlock();
    if (idle) return NULL;
    if (!ready) emu_sleep(emu_driver.machine, index, epoch, look_ns);
  }
}

static bool start_thread(unsigned index) {
  if (queues[index].running) return true;
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for this thread */
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  queues[index].running = pthread_create(&thread, &attributes, callback_thread, (void *)(uintptr_t)index) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return queues[index].running;
}

CUresult emu_append_host(CUstream stream, struct emu_device *device, emu_host_function function, void *data) {
  unsigned index = stream->context->device;
  struct pending *entry = malloc(sizeof *entry);
  if (!entry || !start_thread(index)) {
    free(entry);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  uint64_t seq = emu_submit_host(device, stream->context->slot, stream->slot);
  *entry = (struct pending){.context = stream->context,
                            .slot = stream->context->slot,
                            .stream = stream->slot,
                            .seq = seq,
                            .until_ns = device->queues[stream->context->slot].streams[stream->slot].submitted_ns,
                            .function = function,
                            .data = data};
  if (!queues[index].first) queues[index].end = &queues[index].first;
  *queues[index].end = entry;
  queues[index].end = &entry->next;
  return CUDA_SUCCESS;
}

CUresult emu_submit_host_function(CUstream stream, emu_host_function function, void *data) {
  struct emu_device *device;
  CUresult result = emu_begin(stream, 1, 0, &device);
  if (result != CUDA_SUCCESS) return result;
  result = emu_append_host(stream, device, function, data);
  emu_end(stream, device);
  if (result == CUDA_SUCCESS) emu_wake(emu_driver.machine, stream->context->device);
  return result;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  EMU_ENTER();
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  struct emu_task task = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {function, data}};
  bool captured;
  result = emu_capture_task(stream, &task, &captured);
  if (result != CUDA_SUCCESS || captured) return result;
  return emu_submit_host_function(stream, function, data);
}

struct callback {
  CUstream stream;
  CUstreamCallback function;
  void *data;
};

static void call_back(void *data) {
  struct callback *callback = data;
  callback->function(callback->stream, CUDA_SUCCESS, callback->data);
  free(callback);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data, unsigned int flags) {
  EMU_ENTER();
  if (!function || flags) return CUDA_ERROR_INVALID_VALUE;
  struct callback *callback = malloc(sizeof *callback);
  if (!callback) return CUDA_ERROR_OUT_OF_MEMORY;
  *callback = (struct callback){stream, function, data};
  CUresult result = emu_resolve_stream(&stream);
  if (result == CUDA_SUCCESS && stream->capture) result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (result == CUDA_SUCCESS) result = emu_submit_host_function(stream, call_back, callback);
  if (result != CUDA_SUCCESS) free(callback);
  return result;
}
