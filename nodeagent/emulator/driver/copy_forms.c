/* The rarer forms of copies: arrays, other devices, batches. All are boxes or lines in the end (copy.c). */
#include "driver.h"

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define ARRAY CU_MEMORYTYPE_ARRAY
#define UNIFIED CU_MEMORYTYPE_UNIFIED
#define LINE(bytes) .WidthInBytes = (bytes), .Height = 1, .Depth = 1

CUresult CUDAAPI cuMemcpyDtoA(CUarray target, size_t offset, CUdeviceptr source, size_t bytes) {
  return emu_copy_box(&(CUDA_MEMCPY3D){.srcMemoryType = DEVICE, .srcDevice = source, .dstMemoryType = ARRAY,
                                       .dstArray = target, .dstXInBytes = offset, LINE(bytes)},
                      NULL, false);
}
CUresult CUDAAPI cuMemcpyAtoD(CUdeviceptr target, CUarray source, size_t offset, size_t bytes) {
  return emu_copy_box(&(CUDA_MEMCPY3D){.srcMemoryType = ARRAY, .srcArray = source, .srcXInBytes = offset,
                                       .dstMemoryType = DEVICE, .dstDevice = target, LINE(bytes)},
                      NULL, false);
}
CUresult CUDAAPI cuMemcpyAtoA(CUarray target, size_t target_offset, CUarray source, size_t offset, size_t bytes) {
  return emu_copy_box(&(CUDA_MEMCPY3D){.srcMemoryType = ARRAY, .srcArray = source, .srcXInBytes = offset,
                                       .dstMemoryType = ARRAY, .dstArray = target, .dstXInBytes = target_offset, LINE(bytes)},
                      NULL, false);
}

static CUresult to_array(CUarray target, size_t offset, const void *source, size_t bytes, CUstream stream, bool wait) {
  return emu_copy_box(&(CUDA_MEMCPY3D){.srcMemoryType = HOST, .srcHost = source, .dstMemoryType = ARRAY,
                                       .dstArray = target, .dstXInBytes = offset, LINE(bytes)},
                      stream, wait);
}
static CUresult from_array(void *target, CUarray source, size_t offset, size_t bytes, CUstream stream, bool wait) {
  return emu_copy_box(&(CUDA_MEMCPY3D){.srcMemoryType = ARRAY, .srcArray = source, .srcXInBytes = offset,
                                       .dstMemoryType = HOST, .dstHost = target, LINE(bytes)},
                      stream, wait);
}
CUresult CUDAAPI cuMemcpyHtoA(CUarray target, size_t offset, const void *source, size_t bytes) {
  return to_array(target, offset, source, bytes, NULL, true);
}
CUresult CUDAAPI cuMemcpyHtoAAsync(CUarray target, size_t offset, const void *source, size_t bytes, CUstream stream) {
  return to_array(target, offset, source, bytes, stream, false);
}
CUresult CUDAAPI cuMemcpyAtoH(void *target, CUarray source, size_t offset, size_t bytes) {
  return from_array(target, source, offset, bytes, NULL, true);
}
CUresult CUDAAPI cuMemcpyAtoHAsync(void *target, CUarray source, size_t offset, size_t bytes, CUstream stream) {
  return from_array(target, source, offset, bytes, stream, false);
}

/* Between devices: the time is spent on the stream's device alone, at that device's own speed. */
static CUresult check_peers(CUcontext to, CUcontext from) {
  CUresult result = emu_resolve_context(&to);
  return result == CUDA_SUCCESS ? emu_resolve_context(&from) : result;
}
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes) {
  CUresult result = check_peers(to, from);
  return result == CUDA_SUCCESS ? emu_copy_line(DEVICE, target, DEVICE, source, bytes, NULL, false) : result;
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes,
                                   CUstream stream) {
  CUresult result = check_peers(to, from);
  return result == CUDA_SUCCESS ? emu_copy_line(DEVICE, target, DEVICE, source, bytes, stream, false) : result;
}

static CUresult copy_peer_box(const CUDA_MEMCPY3D_PEER *peer, CUstream stream, bool wait) {
  if (!peer) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_peers(peer->dstContext, peer->srcContext);
  if (result != CUDA_SUCCESS) return result;
  return emu_copy_box(&(CUDA_MEMCPY3D){.srcXInBytes = peer->srcXInBytes, .srcY = peer->srcY, .srcZ = peer->srcZ,
                                       .srcMemoryType = peer->srcMemoryType, .srcHost = peer->srcHost,
                                       .srcDevice = peer->srcDevice, .srcArray = peer->srcArray, .srcPitch = peer->srcPitch,
                                       .srcHeight = peer->srcHeight, .dstXInBytes = peer->dstXInBytes, .dstY = peer->dstY,
                                       .dstZ = peer->dstZ, .dstMemoryType = peer->dstMemoryType, .dstHost = peer->dstHost,
                                       .dstDevice = peer->dstDevice, .dstArray = peer->dstArray, .dstPitch = peer->dstPitch,
                                       .dstHeight = peer->dstHeight, .WidthInBytes = peer->WidthInBytes,
                                       .Height = peer->Height, .Depth = peer->Depth},
                      stream, wait);
}
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy) { return copy_peer_box(copy, NULL, true); }
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream) {
  return copy_peer_box(copy, stream, false);
}

/* The members of a batch may run in any order; here they run in the one that is given. */
CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes, size_t count,
                                    CUmemcpyAttributes *attributes, size_t *attribute_indices, size_t attribute_count,
                                    CUstream stream) {
  if (!targets || !sources || !sizes || !count || !attributes || !attribute_indices || !attribute_count || !stream)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  for (size_t index = 0; index < count && result == CUDA_SUCCESS; index++)
    result = emu_copy_line(UNIFIED, targets[index], UNIFIED, sources[index], sizes[index], stream, false);
  return result;
}
CUresult CUDAAPI cuMemcpyWithAttributesAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                                             CUmemcpyAttributes *attributes, CUstream stream) {
  if (!attributes) return CUDA_ERROR_INVALID_VALUE;
  return emu_copy_line(UNIFIED, target, UNIFIED, source, bytes, stream, false);
}
