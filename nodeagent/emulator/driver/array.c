/* Arrays. See array.h. */
#include "array.h"

#include <stdlib.h>

struct CUarray_st {
  enum emu_magic magic;
  CUDA_ARRAY3D_DESCRIPTOR shape;
  CUdeviceptr memory;
  size_t pitch, rows, slices;
};

static size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
  size_t channel;
  switch (shape->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: channel = 1; break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: channel = 2; break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: channel = 4; break;
    default: return 0;
  }
  unsigned channels = shape->NumChannels;
  return channels == 1 || channels == 2 || channels == 4 ? channel * channels : 0;
}

CUresult emu_array_end(CUarray array, size_t x, size_t y, size_t z, const CUDA_MEMCPY3D *copy, char **at, size_t *pitch,
                       size_t *slice) {
  if (!EMU_IS(array, EMU_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
  if (x + copy->WidthInBytes > array->pitch || y + copy->Height > array->rows || z + copy->Depth > array->slices)
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = array->pitch;
  *slice = array->pitch * array->rows;
  *at = (char *)array->memory + x + y * *pitch + z * *slice;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArray3DCreate(CUarray *made, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
  EMU_ENTER();
  if (!made || !shape || !shape->Width) return CUDA_ERROR_INVALID_VALUE;
  if (shape->Flags) return emu_not_modelled("cuArray3DCreate with flags");
  size_t element = element_bytes(shape);
  if (!element) return emu_not_modelled("cuArray3DCreate with this format");
  CUarray array = calloc(1, sizeof *array);
  if (!array) return CUDA_ERROR_OUT_OF_MEMORY;
  array->magic = EMU_ARRAY;
  array->shape = *shape;
  array->pitch = shape->Width * element;
  array->rows = shape->Height ? shape->Height : 1;
  array->slices = shape->Depth ? shape->Depth : 1;
  CUresult result = cuMemAlloc(&array->memory, array->pitch * array->rows * array->slices);
  if (result != CUDA_SUCCESS)
    free(array);
  else
    *made = array;
  return result;
}

CUresult CUDAAPI cuArrayCreate(CUarray *made, const CUDA_ARRAY_DESCRIPTOR *shape) {
  if (!shape) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR deep = {
      .Width = shape->Width, .Height = shape->Height, .Format = shape->Format, .NumChannels = shape->NumChannels};
  return cuArray3DCreate(made, &deep);
}

CUresult CUDAAPI cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array) {
  EMU_ENTER();
  if (!shape) return CUDA_ERROR_INVALID_VALUE;
  if (!EMU_IS(array, EMU_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
  *shape = array->shape;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR *shape, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR deep;
  if (!shape) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = cuArray3DGetDescriptor(&deep, array);
  if (result == CUDA_SUCCESS)
    *shape = (CUDA_ARRAY_DESCRIPTOR){
        .Width = deep.Width, .Height = deep.Height, .Format = deep.Format, .NumChannels = deep.NumChannels};
  return result;
}

CUresult CUDAAPI cuArrayDestroy(CUarray array) {
  EMU_ENTER();
  if (!EMU_IS(array, EMU_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = cuMemFree(array->memory);
  array->magic = 0;
  free(array);
  return result;
}
