/* What is known about an address, and hints about managed memory. */
#include <string.h>

#include "driver.h"

static CUresult tell(const struct emu_range *range, CUpointer_attribute attribute, CUdeviceptr at, void *value) {
  bool host = range->kind == EMU_HOST_MEMORY || range->kind == EMU_REGISTERED_MEMORY;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)value = range->context; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)value = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)value = at; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && range->kind != EMU_MANAGED_MEMORY) return CUDA_ERROR_INVALID_VALUE;
      *(void **)value = (void *)at;
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)value = 0; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)value = range->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value = range->kind == EMU_MANAGED_MEMORY; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value = range->ordinal; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)value = 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)value = range->base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)value = range->bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)value = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(cuuint64_t *)value = 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)value = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)value = range->pool; break;
    default: return emu_not_modelled("this attribute of a pointer");
  }
  return CUDA_SUCCESS;
}

/* Inside emu_lock. */
static CUresult tell_about(CUpointer_attribute attribute, CUdeviceptr at, void *value) {
  struct emu_range *range = emu_find_range(at, 1);
  return range ? tell(range, attribute, at, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr at) {
  EMU_ENTER();
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUresult result = tell_about(attribute, at, value);
  emu_unlock();
  return result;
}

/* About memory that the driver does not know this one succeeds, with zeros. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr at) {
  EMU_ENTER();
  if (!attributes || !values) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  for (unsigned index = 0; index < count && result == CUDA_SUCCESS; index++) {
    struct emu_range *range = emu_find_range(at, 1);
    struct emu_range unknown = {.ordinal = -2}; /* what the real driver says for no device */
    CUpointer_attribute attribute = attributes[index];
    result = tell(range ? range : &unknown, attribute, range ? at : 0, values[index]);
    if (result == CUDA_ERROR_INVALID_VALUE && attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
      *(void **)values[index] = NULL;
      result = CUDA_SUCCESS;
    }
    if (!range && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *(unsigned *)values[index] = 0;
    if (!range && attribute == CU_POINTER_ATTRIBUTE_MAPPED) *(unsigned *)values[index] = 0;
  }
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr at) {
  EMU_ENTER();
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  bool known = emu_find_range(at, 1) != NULL;
  emu_unlock();
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Managed memory lies on the host and never moves here, so hints are taken and change nothing. */
static CUresult check_managed(CUdeviceptr at, size_t bytes) {
  EMU_ENTER();
  emu_lock();
  struct emu_range *range = bytes ? emu_find_range(at, bytes) : NULL;
  bool managed = range && range->kind == EMU_MANAGED_MEMORY;
  emu_unlock();
  return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr at, size_t bytes, CUmem_advise advice, CUmemLocation location) {
  (void)advice, (void)location;
  return check_managed(at, bytes);
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr at, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream) {
  (void)location;
  CUresult result = flags ? CUDA_ERROR_INVALID_VALUE : check_managed(at, bytes);
  return result == CUDA_SUCCESS ? emu_resolve_stream(&stream) : result;
}
