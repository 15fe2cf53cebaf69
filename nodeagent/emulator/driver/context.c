/* Contexts: primary ones, created ones, and each thread's stack of current ones. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "graph.h"

enum { STACK_DEPTH = 64 };
static _Thread_local struct {
  CUcontext entries[STACK_DEPTH];
  unsigned count;
} stack;

static CUcontext all_contexts;
static unsigned long long last_id;

static bool is_known(CUcontext context) {
  for (CUcontext other = all_contexts; other; other = other->next)
    if (other == context) return true;
  return false;
}

CUresult emu_check_context(CUcontext context) {
  return EMU_IS(context, EMU_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult emu_current(CUcontext *context) {
  if (!stack.count || !stack.entries[stack.count - 1]) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack.entries[stack.count - 1];
  return EMU_IS(*context, EMU_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult emu_resolve_context(CUcontext *context) {
  return *context ? emu_check_context(*context) : emu_current(context);
}

/* Open the context on its device; also again for a primary context that was reset. Inside emu_lock. */
static CUresult open_on_device(CUcontext context) {
  struct emu_machine *machine = emu_driver.machine;
  uint64_t own_bytes = machine->devices[context->device].head.context_bytes;
  CUresult result = emu_charge(context->device, own_bytes);
  if (result != CUDA_SUCCESS) return result;
  struct emu_device *device = emu_hold(machine, context->device);
  int slot = emu_context_open(device, emu_driver.process, machine->processes[emu_driver.process].pid);
  emu_release(machine, context->device);
  if (slot < 0) {
    emu_discharge(context->device, own_bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->slot = (unsigned)slot;
  context->magic = EMU_CONTEXT;
  context->id = ++last_id;
  context->next = all_contexts;
  all_contexts = context;
  memset(context->limits, 0, sizeof context->limits);
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  result = emu_make_stream(context, CU_STREAM_DEFAULT, 0, &context->legacy);
  return result;
}

/* Inside emu_lock. */
static void close_on_device(CUcontext context) {
  struct emu_machine *machine = emu_driver.machine;
  emu_drop_host_functions(context);
  emu_drop_ranges(context);
  struct emu_device *device = emu_hold(machine, context->device);
  emu_context_close(device, context->slot);
  emu_release(machine, context->device);
  emu_wake(machine, context->device);
  emu_discharge(context->device, device->head.context_bytes);
  emu_drop_streams(context);
  context->magic = 0;
  for (CUcontext *link = &all_contexts; *link; link = &(*link)->next) {
    if (*link != context) continue;
    *link = context->next;
    break;
  }
}

static CUresult make_context(int ordinal, unsigned flags, CUcontext *made) {
  CUcontext context = calloc(1, sizeof *context);
  if (!context) return CUDA_ERROR_OUT_OF_MEMORY;
  context->ordinal = ordinal;
  context->device = emu_driver.devices[ordinal];
  context->flags = flags;
  CUresult result = open_on_device(context);
  if (result != CUDA_SUCCESS)
    free(context);
  else
    *made = context;
  return result;
}

static CUresult push(CUcontext context) {
  if (stack.count == STACK_DEPTH) return CUDA_ERROR_INVALID_CONTEXT;
  stack.entries[stack.count++] = context;
  return CUDA_SUCCESS;
}

/* All versions of cuCtxCreate (older.c) come here. */
CUresult CUDAAPI cuCtxCreate(CUcontext *made, CUctxCreateParams *parameters, unsigned int flags, CUdevice device) {
  EMU_ENTER();
  if (!made || flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  if (parameters && (parameters->numExecAffinityParams || parameters->cigParams))
    return emu_not_modelled("cuCtxCreate with execution affinity or CIG parameters");
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  result = make_context(device, flags, made);
  emu_unlock();
  return result == CUDA_SUCCESS ? push(*made) : result;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext context) {
  EMU_ENTER();
  emu_lock();
  CUresult result = is_known(context) && !context->primary ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS) close_on_device(context); /* the handle stays allocated: other threads may have it current */
  emu_unlock();
  if (result == CUDA_SUCCESS && stack.count && stack.entries[stack.count - 1] == context) stack.count--;
  return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  EMU_ENTER();
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  CUcontext *primary = &emu_driver.primary[device];
  if (!*primary) {
    result = make_context(device, emu_driver.primary_flags[device], primary);
    if (result == CUDA_SUCCESS) (*primary)->primary = true;
  } else if ((*primary)->magic != EMU_CONTEXT) {
    result = open_on_device(*primary);
  }
  if (result == CUDA_SUCCESS) {
    (*primary)->retained++;
    *context = *primary;
  }
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  EMU_ENTER();
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  CUcontext primary = emu_driver.primary[device];
  if (!EMU_IS(primary, EMU_CONTEXT) || !primary->retained)
    result = CUDA_ERROR_INVALID_CONTEXT;
  else if (--primary->retained == 0)
    close_on_device(primary);
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) {
  EMU_ENTER();
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  CUcontext primary = emu_driver.primary[device];
  if (EMU_IS(primary, EMU_CONTEXT)) {
    unsigned retained = primary->retained;
    close_on_device(primary);
    if (retained) result = open_on_device(primary);
  }
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  EMU_ENTER();
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  emu_driver.primary_flags[device] = flags;
  if (EMU_IS(emu_driver.primary[device], EMU_CONTEXT)) emu_driver.primary[device]->flags = flags;
  emu_unlock();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
  EMU_ENTER();
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  *flags = emu_driver.primary_flags[device];
  *active = EMU_IS(emu_driver.primary[device], EMU_CONTEXT);
  emu_unlock();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  EMU_ENTER();
  CUresult result = emu_check_context(context);
  return result == CUDA_SUCCESS ? push(context) : result;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context) {
  EMU_ENTER();
  if (!stack.count) return CUDA_ERROR_INVALID_CONTEXT;
  stack.count--;
  if (context) *context = stack.entries[stack.count];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  EMU_ENTER();
  if (!context) {
    if (stack.count) stack.count--;
    return CUDA_SUCCESS;
  }
  CUresult result = emu_check_context(context);
  if (result != CUDA_SUCCESS) return result;
  if (!stack.count) stack.count = 1;
  stack.entries[stack.count - 1] = context;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context) {
  EMU_ENTER();
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = stack.count ? stack.entries[stack.count - 1] : NULL;
  return CUDA_SUCCESS;
}

/* Begin a call that answers about the current context. */
#define EMU_WITH_CURRENT(argument)                      \
  EMU_ENTER();                                          \
  CUcontext context;                                    \
  if (!(argument)) return CUDA_ERROR_INVALID_VALUE;     \
  CUresult found = emu_current(&context);               \
  if (found != CUDA_SUCCESS) return found

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  EMU_WITH_CURRENT(device);
  *device = context->ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
  EMU_ENTER();
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_context(&context);
  if (result == CUDA_SUCCESS) *device = context->ordinal;
  return result;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags) {
  EMU_WITH_CURRENT(flags);
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  EMU_WITH_CURRENT(!(flags & ~(unsigned)CU_CTX_FLAGS_MASK));
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long *id) {
  EMU_ENTER();
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_context(&context);
  if (result == CUDA_SUCCESS) *id = context->id;
  return result;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext context, unsigned int *version) {
  EMU_ENTER();
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_context(&context);
  if (result == CUDA_SUCCESS) *version = 3020;
  return result;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit) {
  EMU_WITH_CURRENT(value && (unsigned)limit < CU_LIMIT_MAX);
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  EMU_WITH_CURRENT((unsigned)limit < CU_LIMIT_MAX);
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *config) {
  EMU_WITH_CURRENT(config);
  *config = context->cache;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  EMU_WITH_CURRENT((unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL);
  context->cache = config;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  EMU_WITH_CURRENT(true);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

/* Wait for what every stream of a context had queued at this moment. */
CUresult emu_synchronise(CUcontext context) {
  struct {
    unsigned slot;
    uint64_t seq, until_ns;
  } ends[EMU_MAX_STREAMS];
  unsigned count = 0;
  CUresult result = emu_check_capture();
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  for (CUstream stream = context->streams; stream && count < EMU_MAX_STREAMS; stream = stream->next) {
    ends[count].slot = stream->slot;
    ends[count].seq = stream->last_seq;
    ends[count++].until_ns = stream->last_until_ns;
  }
  emu_unlock();
  for (unsigned index = 0; index < count && result == CUDA_SUCCESS; index++)
    result = emu_wait(context, ends[index].slot, ends[index].seq, ends[index].until_ns);
  return result;
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  EMU_WITH_CURRENT(true);
  return emu_synchronise(context);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context) {
  EMU_ENTER();
  CUresult result = emu_resolve_context(&context);
  return result == CUDA_SUCCESS ? emu_synchronise(context) : result;
}
