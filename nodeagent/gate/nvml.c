/* NVML's words on memory: a tenant sees a card of the size of its quota. */
#include <nvml.h>
#undef nvmlDeviceGetMemoryInfo

#include "gate.h"

GATE_ENTRY nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  if (!gate_bind(GATE_nvmlDeviceGetMemoryInfo)) return NVML_ERROR_FUNCTION_NOT_FOUND;
  nvmlReturn_t (*real)(nvmlDevice_t, nvmlMemory_t *) =
      (nvmlReturn_t(*)(nvmlDevice_t, nvmlMemory_t *))gate_real[GATE_nvmlDeviceGetMemoryInfo];
  nvmlReturn_t result = real(device, memory);
  if (result != NVML_SUCCESS) return result;
  gate_join();
  size_t left = memory->free, all = memory->total;
  gate_tell_memory(&left, &all);
  memory->free = left;
  memory->total = all;
  memory->used = all - left;
  return result;
}

GATE_ENTRY nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  if (!gate_bind(GATE_nvmlDeviceGetMemoryInfo_v2)) return NVML_ERROR_FUNCTION_NOT_FOUND;
  nvmlReturn_t (*real)(nvmlDevice_t, nvmlMemory_v2_t *) =
      (nvmlReturn_t(*)(nvmlDevice_t, nvmlMemory_v2_t *))gate_real[GATE_nvmlDeviceGetMemoryInfo_v2];
  nvmlReturn_t result = real(device, memory);
  if (result != NVML_SUCCESS) return result;
  gate_join();
  size_t left = memory->free, all = memory->total;
  gate_tell_memory(&left, &all);
  memory->free = left;
  memory->total = all;
  memory->used = all - left - (memory->reserved < all - left ? memory->reserved : all - left);
  return result;
}
