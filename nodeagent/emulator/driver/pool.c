/* Memory pools and stream-ordered allocation.
 *
 * A pool here keeps nothing back: what is freed returns to its device at once, so "reserved" is "used". Memory is there when
 * the call returns, and goes when the call to free it is made, or behind host functions that are queued before that.
 */
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "graph.h"

struct CUmemPoolHandle_st {
  enum emu_magic magic;
  CUmemPoolProps properties;
  int ordinal; /* of the device that pays, or that is near for host memory */
  enum emu_kind kind;
  cuuint64_t used, most_used, threshold;
  int reuse[3];
};

static struct CUmemPoolHandle_st *default_pools[EMU_MAX_DEVICES], *current_pools[EMU_MAX_DEVICES];

void emu_pool_returned(CUmemoryPool pool, size_t bytes) { pool->used -= bytes; }

static CUresult describe(const CUmemPoolProps *properties, struct CUmemPoolHandle_st *pool) {
  *pool = (struct CUmemPoolHandle_st){.magic = EMU_POOL, .properties = *properties, .reuse = {1, 1, 1}};
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return emu_not_modelled("memory pools that other processes share");
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED) {
    pool->ordinal = properties->location.id;
    pool->kind = EMU_DEVICE_MEMORY;
    return emu_check_device(pool->ordinal);
  }
  if (properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
    pool->kind = EMU_MANAGED_MEMORY;
  else if (properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
           (properties->location.type == CU_MEM_LOCATION_TYPE_HOST ||
            properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
            properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT))
    pool->kind = EMU_HOST_MEMORY;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *made, const CUmemPoolProps *properties) {
  EMU_ENTER();
  struct CUmemPoolHandle_st described;
  if (!made || !properties) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = describe(properties, &described);
  if (result != CUDA_SUCCESS) return result;
  CUmemoryPool pool = malloc(sizeof *pool);
  if (!pool) return CUDA_ERROR_OUT_OF_MEMORY;
  *pool = described;
  *made = pool;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  EMU_ENTER();
  if (!EMU_IS(pool, EMU_POOL)) return CUDA_ERROR_INVALID_VALUE;
  for (int device = 0; device < emu_driver.device_count; device++) {
    if (default_pools[device] == pool) return CUDA_ERROR_INVALID_VALUE;
    if (current_pools[device] == pool) current_pools[device] = NULL;
  }
  pool->magic = 0; /* its memory lives on until it is freed, and refers to it */
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  EMU_ENTER();
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  if (!default_pools[device] && (default_pools[device] = malloc(sizeof **default_pools)))
    describe(&(CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
             default_pools[device]);
  *pool = default_pools[device];
  emu_unlock();
  return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  CUresult result = cuDeviceGetDefaultMemPool(pool, device);
  if (result == CUDA_SUCCESS && current_pools[device]) *pool = current_pools[device];
  return result;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  EMU_ENTER();
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  if (!EMU_IS(pool, EMU_POOL) || pool->kind != EMU_DEVICE_MEMORY || pool->ordinal != device) return CUDA_ERROR_INVALID_VALUE;
  current_pools[device] = pool;
  return CUDA_SUCCESS;
}

/* The pools that go by place and kind: a device's, the host's, and the one of managed memory. */
static CUresult find_pool(CUmemoryPool **found, const CUmemLocation *location, CUmemAllocationType type, bool is_default) {
  static struct CUmemPoolHandle_st *others[2][2]; /* host or managed; default or current */
  CUmemPoolProps wanted = {.allocType = type, .location = *location};
  struct CUmemPoolHandle_st described;
  CUresult result = describe(&wanted, &described);
  if (result != CUDA_SUCCESS) return result;
  if (described.kind == EMU_DEVICE_MEMORY) {
    CUmemoryPool pool;
    result = cuDeviceGetDefaultMemPool(&pool, described.ordinal);
    *found = is_default || !current_pools[described.ordinal] ? &default_pools[described.ordinal]
                                                             : &current_pools[described.ordinal];
    return result;
  }
  struct CUmemPoolHandle_st **pair = others[described.kind == EMU_MANAGED_MEMORY];
  emu_lock();
  if (!pair[0] && (pair[0] = malloc(sizeof **pair))) *pair[0] = described;
  if (!pair[1]) pair[1] = pair[0];
  emu_unlock();
  *found = &pair[is_default ? 0 : 1];
  return **found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult get_pool(CUmemoryPool *pool, const CUmemLocation *location, CUmemAllocationType type, bool is_default) {
  EMU_ENTER();
  if (!pool || !location) return CUDA_ERROR_INVALID_VALUE;
  CUmemoryPool *found;
  CUresult result = find_pool(&found, location, type, is_default);
  if (result == CUDA_SUCCESS) *pool = *found;
  return result;
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
  return get_pool(pool, location, type, true);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
  return get_pool(pool, location, type, false);
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
  EMU_ENTER();
  if (!location || !EMU_IS(pool, EMU_POOL)) return CUDA_ERROR_INVALID_VALUE;
  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) return cuDeviceSetMemPool(location->id, pool);
  CUmemoryPool *found;
  CUresult result = find_pool(&found, location, type, false);
  if (result == CUDA_SUCCESS && (*found)->kind != pool->kind) return CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) *found = pool;
  return result;
}

/* While a stream captures, allocations belong to the graph. */
static CUresult capture_allocation(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream) {
  struct emu_task task = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
  emu_lock();
  CUresult result = emu_make_graph_memory(&pool->properties, bytes, &task.memory);
  if (result == CUDA_SUCCESS) *at = emu_graph_memory_address(task.memory);
  emu_unlock();
  bool captured;
  return result == CUDA_SUCCESS ? emu_capture_task(stream, &task, &captured) : result;
}

static CUresult allocate(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream) {
  if (!at) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return capture_allocation(at, bytes, pool, stream);
  if (pool->properties.maxSize && bytes > pool->properties.maxSize - pool->used) return CUDA_ERROR_OUT_OF_MEMORY;
  emu_lock();
  CUresult result = emu_allocate(NULL, pool->ordinal, bytes, pool->kind, 0, pool, at);
  if (result == CUDA_SUCCESS) {
    pool->used += bytes;
    if (pool->used > pool->most_used) pool->most_used = pool->used;
  }
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream) {
  EMU_ENTER();
  if (!EMU_IS(pool, EMU_POOL)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_stream(&stream);
  return result == CUDA_SUCCESS ? allocate(at, bytes, pool, stream) : result;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream) {
  EMU_ENTER();
  CUmemoryPool pool;
  CUresult result = emu_resolve_stream(&stream);
  if (result == CUDA_SUCCESS) result = cuDeviceGetMemPool(&pool, stream->context->ordinal);
  return result == CUDA_SUCCESS ? allocate(at, bytes, pool, stream) : result;
}

static void free_later(void *at) {
  emu_lock();
  emu_free((CUdeviceptr)(uintptr_t)at);
  emu_unlock();
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  EMU_ENTER();
  if (!at) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->capture) {
    struct emu_task task = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .address = at};
    bool captured;
    result = emu_check_graph_address(at);
    return result == CUDA_SUCCESS ? emu_capture_task(stream, &task, &captured) : result;
  }
  if (emu_check_graph_address(at) == CUDA_SUCCESS) return CUDA_SUCCESS; /* stays with its graph until that is trimmed */
  emu_lock();
  bool later = emu_host_pending(stream->context);
  struct emu_range *range = emu_find_range(at, 1);
  bool known = range && range->base == at;
  if (known && !later) result = emu_free(at);
  emu_unlock();
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  return later ? emu_submit_host_function(stream, free_later, (void *)at) : result;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  EMU_ENTER();
  (void)keep;
  return EMU_IS(pool, EMU_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  EMU_ENTER();
  if (!EMU_IS(pool, EMU_POOL) || !value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = *(cuuint64_t *)value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*(cuuint64_t *)value) return CUDA_ERROR_INVALID_VALUE;
      pool->most_used = pool->used;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  EMU_ENTER();
  if (!EMU_IS(pool, EMU_POOL) || !value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *(int *)value = pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = pool->threshold; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = pool->used; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = pool->most_used; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE: *(int *)value = (int)pool->properties.allocType; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES: *(int *)value = CU_MEM_HANDLE_TYPE_NONE; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_LOCATION_ID: *(int *)value = pool->properties.location.id; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE: *(int *)value = (int)pool->properties.location.type; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE: *(cuuint64_t *)value = pool->properties.maxSize; return CUDA_SUCCESS;
    default: return emu_not_modelled("this attribute of a memory pool");
  }
}

/* Each device sees its own pools and no other's: they have no links. */
CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
  EMU_ENTER();
  if (!EMU_IS(pool, EMU_POOL) || !flags || !location) return CUDA_ERROR_INVALID_VALUE;
  bool own = pool->kind != EMU_DEVICE_MEMORY ||
             (location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == pool->ordinal);
  *flags = own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t count) {
  EMU_ENTER();
  if (!EMU_IS(pool, EMU_POOL) || (count && !wanted)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t index = 0; index < count; index++) {
    CUmemAccess_flags has;
    CUmemLocation location = wanted[index].location;
    cuMemPoolGetAccess(&has, pool, &location);
    if (wanted[index].flags != has) return emu_not_modelled("access to memory pools between devices");
  }
  return CUDA_SUCCESS;
}
