/* Memory: what is allocated where, and how much of each device it takes.
 *
 * Device memory is address space of this process that takes host memory only where it is touched, so that big allocations
 * cost nothing and copies move real bytes. A device address is the host address behind it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/undo.h"
#include "driver.h"
#include "graph.h"

enum { GRANULE = 512 }; /* what an allocation is rounded up to */

static struct {
  struct emu_range *items; /* by address */
  size_t count, room;
  uint64_t last_id;
} ranges;

/* The place of the first range that begins after `at`. */
static size_t place_after(uintptr_t at) {
  size_t low = 0, high = ranges.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges.items[middle].base <= at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct emu_range *emu_find_range(uintptr_t at, size_t bytes) {
  size_t place = place_after(at);
  if (!place) return NULL;
  struct emu_range *range = &ranges.items[place - 1];
  size_t offset = at - range->base;
  return offset < range->bytes && bytes <= range->bytes - offset ? range : NULL;
}

bool emu_add_range(const struct emu_range *range) {
  if (ranges.count == ranges.room) {
    size_t room = ranges.room ? ranges.room * 2 : 64;
    struct emu_range *grown = realloc(ranges.items, room * sizeof *grown);
    if (!grown) return false;
    ranges.items = grown;
    ranges.room = room;
  }
  size_t place = place_after(range->base);
  memmove(&ranges.items[place + 1], &ranges.items[place], (ranges.count - place) * sizeof *range);
  ranges.items[place] = *range;
  ranges.items[place].id = ++ranges.last_id;
  ranges.count++;
  return true;
}

void emu_remove_range(struct emu_range *range) {
  size_t place = (size_t)(range - ranges.items);
  memmove(range, range + 1, (ranges.count - place - 1) * sizeof *range);
  ranges.count--;
}

/* Where this process's memory on a device is counted: on the device, or on the host while a checkpoint has moved it. A call
 * that was under way when the process was locked still ends, and must be counted where the rest is. */
static uint64_t *account(struct emu_device *device, uint64_t **total) {
  unsigned slot = emu_driver.process;
  bool away = device->head.process_away[slot];
  *total = away ? &device->head.host_used : &device->head.memory_used;
  return away ? &device->head.process_host[slot] : &device->head.process_memory[slot];
}

static bool take(unsigned index, uint64_t bytes) {
  struct emu_device *device = emu_hold(emu_driver.machine, index);
  uint64_t *total, *own = account(device, &total);
  bool fits = total == &device->head.host_used || bytes <= device->head.memory_bytes - device->head.memory_used;
  if (fits) {
    emu_add(device, total, bytes);
    emu_add(device, own, bytes);
    emu_commit(device);
  }
  emu_release(emu_driver.machine, index);
  return fits;
}

CUresult emu_charge(unsigned index, uint64_t bytes) {
  if (take(index, bytes)) return CUDA_SUCCESS;
  emu_reap(emu_driver.machine, 0); /* someone may have died with it */
  return take(index, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void emu_discharge(unsigned index, uint64_t bytes) {
  struct emu_device *device = emu_hold(emu_driver.machine, index);
  uint64_t *total, *own = account(device, &total);
  emu_add(device, total, -bytes);
  emu_add(device, own, -bytes);
  emu_commit(device);
  emu_release(emu_driver.machine, index);
}

void *emu_reserve_bytes(size_t bytes, size_t alignment) {
  size_t page = 4096, whole = (bytes + page - 1) & ~(page - 1);
  size_t extra = alignment > page ? alignment : 0;
  char *at = mmap(NULL, whole + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return NULL;
  if (extra) {
    char *aligned = (char *)(((uintptr_t)at + alignment - 1) & ~(alignment - 1));
    if (aligned > at) munmap(at, (size_t)(aligned - at));
    if (at + extra > aligned) munmap(aligned + whole, (size_t)(at + extra - aligned));
    at = aligned;
  }
  madvise(at, whole, MADV_DONTFORK); /* a GPU's memory is not copied into a child */
  return at;
}

void emu_forget_bytes(void *at, size_t bytes) { munmap(at, (bytes + 4095) & ~(size_t)4095); }

CUresult emu_allocate(CUcontext context, int ordinal, size_t bytes, enum emu_kind kind, unsigned flags, CUmemoryPool pool,
                      CUdeviceptr *at) {
  if (!at || !bytes) return CUDA_ERROR_INVALID_VALUE;
  struct emu_range range = {.bytes = bytes, .kind = kind, .context = context, .flags = flags, .pool = pool,
                            .ordinal = ordinal, .device = emu_driver.devices[ordinal]};
  uint64_t charged = bytes <= UINT64_MAX - GRANULE ? (bytes + GRANULE - 1) / GRANULE * GRANULE : bytes;
  if (kind == EMU_DEVICE_MEMORY) {
    CUresult result = emu_charge(range.device, charged);
    if (result != CUDA_SUCCESS) return result;
    range.charged = charged;
  }
  void *memory = emu_reserve_bytes(bytes, 4096);
  range.base = (uintptr_t)memory;
  if (!memory || !emu_add_range(&range)) {
    if (memory) emu_forget_bytes(memory, bytes);
    emu_discharge(range.device, range.charged);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *at = (CUdeviceptr)range.base;
  return CUDA_SUCCESS;
}

static void drop(struct emu_range *range) {
  if (range->charged) emu_discharge(range->device, range->charged);
  if (range->pool) emu_pool_returned(range->pool, range->bytes);
  if (range->kind != EMU_REGISTERED_MEMORY && range->kind != EMU_MAPPED_MEMORY)
    emu_forget_bytes((void *)range->base, range->bytes);
  emu_remove_range(range);
}

void emu_drop_ranges(CUcontext context) {
  for (size_t index = ranges.count; index-- > 0;)
    if (ranges.items[index].context == context) drop(&ranges.items[index]);
}

static CUresult allocate_here(CUdeviceptr *at, size_t bytes, enum emu_kind kind, unsigned flags) {
  EMU_ENTER();
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result == CUDA_SUCCESS) result = emu_check_capture();
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  result = emu_allocate(context, context->ordinal, bytes, kind, flags, NULL, at);
  emu_unlock();
  return result;
}

/* Free the allocation that begins at `at` and is of one of two kinds. */
static CUresult free_here(CUdeviceptr at, enum emu_kind one, enum emu_kind other) {
  EMU_ENTER();
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result == CUDA_SUCCESS) result = emu_check_capture();
  if (result != CUDA_SUCCESS || !at) return result;
  emu_lock();
  struct emu_range *range = emu_find_range(at, 1);
  if (!range || range->base != at || (range->kind != one && range->kind != other && !range->pool)) result = CUDA_ERROR_INVALID_VALUE;
  if (range && range->base == at && range->kind == EMU_GRAPH_MEMORY && one == EMU_DEVICE_MEMORY) {
    emu_unlock();
    return CUDA_SUCCESS; /* stays with its graph until that is trimmed */
  }
  CUcontext owner = result == CUDA_SUCCESS && range->context ? range->context : context;
  emu_unlock();
  if (result != CUDA_SUCCESS) return result;
  if (one == EMU_DEVICE_MEMORY) result = emu_synchronise(owner); /* freeing waits for work that may use it */
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  range = emu_find_range(at, 1);
  if (range && range->base == at)
    drop(range);
  else
    result = CUDA_ERROR_INVALID_VALUE;
  emu_unlock();
  return result;
}

CUresult emu_free(CUdeviceptr at) {
  struct emu_range *range = emu_find_range(at, 1);
  if (!range || range->base != at || (range->kind != EMU_DEVICE_MEMORY && !range->pool)) return CUDA_ERROR_INVALID_VALUE;
  drop(range);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *at, size_t bytes) { return allocate_here(at, bytes, EMU_DEVICE_MEMORY, 0); }

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int element) {
  if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16)) return CUDA_ERROR_INVALID_VALUE;
  if (width > SIZE_MAX - GRANULE) return CUDA_ERROR_OUT_OF_MEMORY;
  *pitch = (width + GRANULE - 1) / GRANULE * GRANULE;
  if (height > SIZE_MAX / *pitch) return CUDA_ERROR_OUT_OF_MEMORY;
  return cuMemAlloc(at, *pitch * height);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr at) { return free_here(at, EMU_DEVICE_MEMORY, EMU_MANAGED_MEMORY); }

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *at, size_t bytes, unsigned int flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return allocate_here(at, bytes, EMU_MANAGED_MEMORY, flags);
}

CUresult CUDAAPI cuMemHostAlloc(void **at, size_t bytes, unsigned int flags) {
  if (flags & ~7u || !at) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address = 0;
  CUresult result = allocate_here(&address, bytes, EMU_HOST_MEMORY, flags);
  if (result == CUDA_SUCCESS) *at = (void *)address;
  return result;
}

CUresult CUDAAPI cuMemAllocHost(void **at, size_t bytes) { return cuMemHostAlloc(at, bytes, 0); }

CUresult CUDAAPI cuMemFreeHost(void *at) { return free_here((CUdeviceptr)(uintptr_t)at, EMU_HOST_MEMORY, EMU_HOST_MEMORY); }

CUresult CUDAAPI cuMemHostRegister(void *at, size_t bytes, unsigned int flags) {
  EMU_ENTER();
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result != CUDA_SUCCESS) return result;
  if (!at || !bytes) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  uintptr_t base = (uintptr_t)at;
  size_t place = place_after(base + bytes - 1);
  struct emu_range *before = place ? &ranges.items[place - 1] : NULL;
  struct emu_range range = {.base = base, .bytes = bytes, .kind = EMU_REGISTERED_MEMORY, .context = context,
                            .device = context->device, .ordinal = context->ordinal, .flags = flags};
  if (before && before->base + before->bytes > base)
    result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  else if (!emu_add_range(&range))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuMemHostUnregister(void *at) {
  CUresult result = free_here((CUdeviceptr)(uintptr_t)at, EMU_REGISTERED_MEMORY, EMU_REGISTERED_MEMORY);
  return result == CUDA_ERROR_INVALID_VALUE && at ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : result;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *device_at, void *at, unsigned int flags) {
  EMU_ENTER();
  if (!device_at || flags) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  struct emu_range *range = emu_find_range((uintptr_t)at, 1);
  emu_unlock();
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  *device_at = (CUdeviceptr)(uintptr_t)at;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *at) {
  EMU_ENTER();
  emu_lock();
  struct emu_range *range = emu_find_range((uintptr_t)at, 1);
  bool host = range && range->kind == EMU_HOST_MEMORY;
  if (host && flags) *flags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  emu_unlock();
  return host && flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  EMU_ENTER();
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result != CUDA_SUCCESS) return result;
  emu_reap(emu_driver.machine, 10000000);
  struct emu_device *device = emu_hold(emu_driver.machine, context->device);
  if (free_bytes) *free_bytes = device->head.memory_bytes - device->head.memory_used;
  if (total_bytes) *total_bytes = device->head.memory_bytes;
  emu_release(emu_driver.machine, context->device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr at) {
  EMU_ENTER();
  emu_lock();
  struct emu_range *range = emu_find_range(at, 1);
  if (range && base) *base = range->base;
  if (range && bytes) *bytes = range->bytes;
  emu_unlock();
  return range ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
