/* What the devices are: names, numbers, attributes. They answer as a card of compute capability 8.0 does. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

_Static_assert(CUDA_VERSION == EMU_CUDA_VERSION, "layout.h says what the headers say");

enum { MULTIPROCESSORS = 108 };

static struct emu_device_head *head_of(CUdevice device) {
  return &emu_driver.machine->devices[emu_driver.devices[device]].head;
}

#define EMU_WITH_DEVICE(device, argument)           \
  EMU_ENTER();                                      \
  if (!(argument)) return CUDA_ERROR_INVALID_VALUE; \
  CUresult known = emu_check_device(device);        \
  if (known != CUDA_SUCCESS) return known

CUresult CUDAAPI cuDriverGetVersion(int *version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
  EMU_ENTER();
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = emu_driver.device_count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  EMU_WITH_DEVICE(ordinal, device);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int room, CUdevice device) {
  EMU_WITH_DEVICE(device, name && room > 0);
  snprintf(name, (size_t)room, "%s", (const char *)head_of(device)->name);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  EMU_WITH_DEVICE(device, uuid);
  memcpy(uuid, head_of(device)->uuid, sizeof *uuid);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  EMU_WITH_DEVICE(device, bytes);
  *bytes = head_of(device)->memory_bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  EMU_WITH_DEVICE(device, major && minor);
  *major = 8;
  *minor = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *id, int room, CUdevice device) {
  EMU_WITH_DEVICE(device, id && room > 0);
  snprintf(id, (size_t)room, "0000:%02X:00.0", emu_driver.devices[device] + 1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
  EMU_ENTER();
  if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0;
  if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) < 3 && sscanf(id, "%x:%x", &bus, &slot) < 2) return CUDA_ERROR_INVALID_VALUE;
  for (int ordinal = 0; ordinal < emu_driver.device_count; ordinal++) {
    if (emu_driver.devices[ordinal] + 1 != bus || domain || slot) continue;
    *device = ordinal;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

/* Attributes whose value is not 0. The values are those that NVIDIA documents for compute capability 8.0. */
static const struct {
  CUdevice_attribute attribute;
  int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1410000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, MULTIPROCESSORS},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1512000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 41943040},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 167936},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 166912},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1},
};

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  EMU_WITH_DEVICE(device, value && attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX);
  *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? (int)emu_driver.devices[device] + 1 : 0;
  for (unsigned index = 0; index < sizeof attributes / sizeof *attributes; index++)
    if (attributes[index].attribute == attribute) *value = attributes[index].value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  EMU_WITH_DEVICE(device, can);
  known = emu_check_device(peer);
  *can = 0; /* the emulated cards have no link to each other; copies between them go over the host link */
  return known;
}

/* Blocks of `threads` that fit a multiprocessor; registers and shared memory are taken not to limit them. */
static int blocks_per_multiprocessor(int threads) {
  int blocks = 2048 / threads;
  return blocks > 32 ? 32 : blocks;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                             size_t shared_bytes) {
  EMU_ENTER();
  struct emu_kernel *kernel;
  if (!blocks || threads <= 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  *blocks = shared_bytes > 166912 ? 0 : blocks_per_multiprocessor(threads);
  return emu_kernel_of(function, &kernel);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                                      size_t shared_bytes, unsigned int flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *least_grid, int *threads, CUfunction function,
                                                  CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit) {
  EMU_ENTER();
  (void)shared_of, (void)shared_bytes;
  struct emu_kernel *kernel;
  if (!least_grid || !threads || limit < 0) return CUDA_ERROR_INVALID_VALUE;
  *threads = limit && limit < 1024 ? limit : 1024;
  *least_grid = MULTIPROCESSORS * blocks_per_multiprocessor(*threads);
  return emu_kernel_of(function, &kernel);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *least_grid, int *threads, CUfunction function,
                                                           CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
                                                           unsigned int flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return cuOccupancyMaxPotentialBlockSize(least_grid, threads, function, shared_of, shared_bytes, limit);
}
