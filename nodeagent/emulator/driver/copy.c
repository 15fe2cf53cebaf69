/* Copies and sets. Bytes move when the call is made, or on the callback thread if host functions are queued before it; the
 * device time that they take passes in stream order. */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "driver.h"
#include "graph.h"

enum { FIXED_NS = 1000 }; /* what a copy or set costs whatever its size */

static uint64_t duration(uint64_t bytes, bool over_host_link) {
  const struct emu_device_head *head = &emu_driver.machine->devices[0].head;
  uint64_t per_us = over_host_link ? head->host_bytes_per_us : head->device_bytes_per_us;
  return FIXED_NS + (uint64_t)((double)bytes * 1000.0 / (double)per_us);
}

static void set_row(const struct emu_move *move, char *row) {
  if (move->pattern_bytes == 1) {
    memset(row, (int)move->pattern, move->width);
    return;
  }
  for (size_t at = 0; at + move->pattern_bytes <= move->width; at += move->pattern_bytes)
    memcpy(row + at, &move->pattern, move->pattern_bytes);
}

void emu_carry_out(const struct emu_move *move) {
  for (size_t slice = 0; slice < move->depth; slice++) {
    char *target = move->target + slice * move->target_slice;
    const char *source = move->source + (move->source ? slice * move->source_slice : 0);
    for (size_t row = 0; row < move->height; row++) {
      if (move->source)
        memmove(target + row * move->target_pitch, source + row * move->source_pitch, move->width);
      else
        set_row(move, target + row * move->target_pitch);
    }
  }
}

static void carry_out_later(void *data) {
  emu_carry_out(data);
  free(data);
}

CUresult emu_append_move(CUstream stream, struct emu_device *device, const struct emu_move *move, unsigned launches) {
  if (emu_host_pending(stream->context)) {
    struct emu_move *kept = malloc(sizeof *kept);
    if (!kept) return CUDA_ERROR_OUT_OF_MEMORY;
    *kept = *move;
    CUresult result = emu_append_host(stream, device, carry_out_later, kept);
    if (result != CUDA_SUCCESS) {
      free(kept);
      return result;
    }
  } else {
    emu_carry_out(move);
  }
  emu_append_work(stream, device, move->duration_ns, 1, launches, EMU_TALLY_COPY);
  return CUDA_SUCCESS;
}

/* One end of a copy: where it begins, and whether it lies on the host. */
struct end {
  char *at;
  size_t pitch, slice;
  bool host;
};

static CUresult plan_end(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t pitch, size_t rows,
                         size_t x, size_t y, size_t z, const CUDA_MEMCPY3D *copy, struct end *end) {
  size_t extent;
  *end = (struct end){0};
  if (type == CU_MEMORYTYPE_ARRAY) return emu_array_end(array, x, y, z, copy, &end->at, &end->pitch, &end->slice);
  if (!pitch) pitch = copy->WidthInBytes + x;
  if (!rows) rows = copy->Height + y;
  if (copy->WidthInBytes > pitch && (copy->Height > 1 || copy->Depth > 1)) return CUDA_ERROR_INVALID_VALUE;
  *end = (struct end){.pitch = pitch, .slice = pitch * rows, .host = type == CU_MEMORYTYPE_HOST};
  char *base = type == CU_MEMORYTYPE_HOST ? (char *)(uintptr_t)host : (char *)device;
  if (!base) return CUDA_ERROR_INVALID_VALUE;
  end->at = base + x + y * pitch + z * end->slice;
  extent = (copy->Depth - 1) * end->slice + (copy->Height - 1) * pitch + copy->WidthInBytes;
  if (type == CU_MEMORYTYPE_HOST) return CUDA_SUCCESS;
  emu_lock();
  const struct emu_range *range = emu_find_range((uintptr_t)end->at, extent);
  bool known = range != NULL;
  bool starts_inside = known || emu_find_range((uintptr_t)end->at, 1);
  if (known) end->host = range->kind == EMU_HOST_MEMORY || range->kind == EMU_REGISTERED_MEMORY;
  emu_unlock();
  if (known) return CUDA_SUCCESS;
  /* Pageable host memory, which no one has told the driver of, is for the unified calls alone. */
  end->host = true;
  return type == CU_MEMORYTYPE_UNIFIED && !starts_inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult emu_plan_copy(const CUDA_MEMCPY3D *copy, struct emu_move *move) {
  struct end source, target;
  memset(move, 0, sizeof *move);
  if (!copy->WidthInBytes || !copy->Height || !copy->Depth) return CUDA_SUCCESS;
  CUresult result = plan_end(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray, copy->srcPitch,
                             copy->srcHeight, copy->srcXInBytes, copy->srcY, copy->srcZ, copy, &source);
  if (result == CUDA_SUCCESS)
    result = plan_end(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray, copy->dstPitch, copy->dstHeight,
                      copy->dstXInBytes, copy->dstY, copy->dstZ, copy, &target);
  if (result != CUDA_SUCCESS) return result;
  *move = (struct emu_move){.target = target.at, .source = source.at, .width = copy->WidthInBytes, .height = copy->Height,
                            .depth = copy->Depth, .target_pitch = target.pitch, .source_pitch = source.pitch,
                            .target_slice = target.slice, .source_slice = source.slice};
  move->duration_ns = duration(copy->WidthInBytes * copy->Height * copy->Depth, source.host || target.host);
  return CUDA_SUCCESS;
}

CUresult emu_plan_set(CUdeviceptr at, size_t pitch, uint32_t value, unsigned bytes, size_t width, size_t height,
                      struct emu_move *move) {
  memset(move, 0, sizeof *move);
  if (bytes != 1 && bytes != 2 && bytes != 4) return CUDA_ERROR_INVALID_VALUE;
  if (at % bytes || pitch % bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!width || !height) return CUDA_SUCCESS;
  if (width > SIZE_MAX / bytes) return CUDA_ERROR_INVALID_VALUE;
  size_t row = width * bytes;
  if (height == 1) pitch = row;
  if (pitch < row) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  bool inside = emu_find_range(at, (height - 1) * pitch + row) != NULL;
  emu_unlock();
  if (!inside) return CUDA_ERROR_INVALID_VALUE;
  *move = (struct emu_move){.target = (char *)at, .width = row, .height = height, .depth = 1, .target_pitch = pitch,
                            .pattern = value, .pattern_bytes = bytes, .duration_ns = duration(row * height, false)};
  return CUDA_SUCCESS;
}

/* Hand a planned task to a stream: as a node of what it captures, or to the device. */
static CUresult submit(struct emu_task *task, CUstream stream, bool wait) {
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  if (wait && (result = emu_check_capture()) != CUDA_SUCCESS) return result;
  task->context = stream->context;
  bool captured = false;
  if (!wait) result = emu_capture_task(stream, task, &captured);
  if (result != CUDA_SUCCESS || captured || !task->move.width) return result;
  struct emu_device *device;
  result = emu_begin(stream, 2, 1, &device);
  if (result != CUDA_SUCCESS) return result;
  result = emu_append_move(stream, device, &task->move, 1);
  emu_end(stream, device);
  return result == CUDA_SUCCESS && wait ? emu_wait_stream(stream) : result;
}

CUresult emu_copy_box(const CUDA_MEMCPY3D *copy, CUstream stream, bool wait) {
  EMU_ENTER();
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  struct emu_task task = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .copy = *copy};
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result == CUDA_SUCCESS) result = emu_plan_copy(copy, &task.move);
  return result == CUDA_SUCCESS ? submit(&task, stream, wait) : result;
}

CUresult emu_copy_line(CUmemorytype to, CUdeviceptr target, CUmemorytype from, CUdeviceptr source, size_t bytes,
                          CUstream stream, bool wait) {
  CUDA_MEMCPY3D copy = {.srcMemoryType = from, .dstMemoryType = to, .WidthInBytes = bytes, .Height = 1, .Depth = 1};
  copy.srcDevice = source;
  copy.dstDevice = target;
  copy.srcHost = (const void *)source;
  copy.dstHost = (void *)target;
  return emu_copy_box(&copy, stream, wait);
}

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

CUresult CUDAAPI cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return emu_copy_line(UNIFIED, target, UNIFIED, source, bytes, NULL, true);
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return emu_copy_line(UNIFIED, target, UNIFIED, source, bytes, stream, false);
}
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr target, const void *source, size_t bytes) {
  return emu_copy_line(DEVICE, target, HOST, (CUdeviceptr)(uintptr_t)source, bytes, NULL, true);
}
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  return emu_copy_line(DEVICE, target, HOST, (CUdeviceptr)(uintptr_t)source, bytes, stream, false);
}
CUresult CUDAAPI cuMemcpyDtoH(void *target, CUdeviceptr source, size_t bytes) {
  return emu_copy_line(HOST, (CUdeviceptr)(uintptr_t)target, DEVICE, source, bytes, NULL, true);
}
CUresult CUDAAPI cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return emu_copy_line(HOST, (CUdeviceptr)(uintptr_t)target, DEVICE, source, bytes, stream, false);
}
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return emu_copy_line(DEVICE, target, DEVICE, source, bytes, NULL, false); /* the host does not wait for these */
}
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return emu_copy_line(DEVICE, target, DEVICE, source, bytes, stream, false);
}
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D *copy) { return emu_copy_box(copy, NULL, true); }
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream) { return emu_copy_box(copy, stream, false); }

static CUresult copy_rectangle(const CUDA_MEMCPY2D *flat, CUstream stream, bool wait) {
  if (!flat) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D copy = {.srcXInBytes = flat->srcXInBytes, .srcY = flat->srcY, .srcMemoryType = flat->srcMemoryType,
                        .srcHost = flat->srcHost, .srcDevice = flat->srcDevice, .srcArray = flat->srcArray,
                        .srcPitch = flat->srcPitch, .dstXInBytes = flat->dstXInBytes, .dstY = flat->dstY,
                        .dstMemoryType = flat->dstMemoryType, .dstHost = flat->dstHost, .dstDevice = flat->dstDevice,
                        .dstArray = flat->dstArray, .dstPitch = flat->dstPitch, .WidthInBytes = flat->WidthInBytes,
                        .Height = flat->Height, .Depth = 1};
  return emu_copy_box(&copy, stream, wait);
}
CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *copy) { return copy_rectangle(copy, NULL, true); }
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy) { return copy_rectangle(copy, NULL, true); }
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) { return copy_rectangle(copy, stream, false); }

/* Sets are asynchronous to the host in either form, as the real driver's are on device memory. */
static CUresult set(CUdeviceptr at, size_t pitch, uint32_t value, unsigned bytes, size_t width, size_t height, CUstream stream) {
  EMU_ENTER();
  struct emu_task task = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                          .set = {.dst = at, .pitch = pitch, .value = value, .elementSize = bytes, .width = width,
                                  .height = height}};
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result == CUDA_SUCCESS) result = emu_plan_set(at, pitch, value, bytes, width, height, &task.move);
  return result == CUDA_SUCCESS ? submit(&task, stream, false) : result;
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr at, unsigned char value, size_t count) { return set(at, 0, value, 1, count, 1, NULL); }
CUresult CUDAAPI cuMemsetD16(CUdeviceptr at, unsigned short value, size_t count) { return set(at, 0, value, 2, count, 1, NULL); }
CUresult CUDAAPI cuMemsetD32(CUdeviceptr at, unsigned int value, size_t count) { return set(at, 0, value, 4, count, 1, NULL); }
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, CUstream stream) {
  return set(at, 0, value, 1, count, 1, stream);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t count, CUstream stream) {
  return set(at, 0, value, 2, count, 1, stream);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr at, unsigned int value, size_t count, CUstream stream) {
  return set(at, 0, value, 4, count, 1, stream);
}
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height) {
  return set(at, pitch, value, 1, width, height, NULL);
}
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height) {
  return set(at, pitch, value, 2, width, height, NULL);
}
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr at, size_t pitch, unsigned int value, size_t width, size_t height) {
  return set(at, pitch, value, 4, width, height, NULL);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height,
                                   CUstream stream) {
  return set(at, pitch, value, 1, width, height, stream);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height,
                                    CUstream stream) {
  return set(at, pitch, value, 2, width, height, stream);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr at, size_t pitch, unsigned int value, size_t width, size_t height,
                                    CUstream stream) {
  return set(at, pitch, value, 4, width, height, stream);
}
