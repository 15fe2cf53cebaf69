/* Load and processes, from the model's own records. */
#include <string.h>

#include "nvml/nvml_private.h"

enum { SAMPLE_NS = 1000000000 / 6 }; /* NVML documents a sample period between 1/6 s and 1 s */

/* How long the device computed in the last sample period. */
static uint64_t busy_in_sample(const struct emu_device *device) {
  uint64_t now_ns = device->head.clock_ns, from_ns = now_ns > SAMPLE_NS ? now_ns - SAMPLE_NS : 0, busy_ns = 0;
  uint64_t count = device->head.history_count;
  for (uint64_t back = 1; back <= count && back <= EMU_HISTORY; back++) {
    const struct emu_span *span = &device->history[(count - back) % EMU_HISTORY];
    if (span->end_ns <= from_ns) break;
    if (span->kind == EMU_RUNNING) busy_ns += span->end_ns - (span->start_ns > from_ns ? span->start_ns : from_ns);
  }
  return busy_ns;
}

nvmlReturn_t DECLDIR nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *load) {
  unsigned index;
  struct emu_machine *machine = emu_nvml_machine();
  if (!machine) return NVML_ERROR_UNINITIALIZED;
  struct emu_device *device = emu_nvml_device(handle, &index);
  if (!device || !load) return NVML_ERROR_INVALID_ARGUMENT;
  emu_hold(machine, index);
  load->gpu = (unsigned)((busy_in_sample(device) * 100 + SAMPLE_NS / 2) / SAMPLE_NS);
  emu_release(machine, index);
  load->memory = load->gpu; /* the model does not tell memory traffic from computing */
  return NVML_SUCCESS;
}

/* Each process that has a context or memory on a device, with what it uses there. */
nvmlReturn_t DECLDIR nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count, nvmlProcessInfo_t *list) {
  unsigned index, room, found = 0;
  struct emu_machine *machine = emu_nvml_machine();
  if (!machine) return NVML_ERROR_UNINITIALIZED;
  struct emu_device *device = emu_nvml_device(handle, &index);
  if (!device || !count || (*count && !list)) return NVML_ERROR_INVALID_ARGUMENT;
  room = *count;
  emu_reap(machine, 10000000);
  emu_hold(machine, index);
  for (unsigned slot = 0; slot < EMU_MAX_PROCESSES; slot++) {
    if (machine->processes[slot].state != EMU_PROCESS_LIVE) continue;
    bool here = device->head.process_memory[slot] != 0;
    for (unsigned context = 0; context < EMU_MAX_CONTEXTS && !here; context++)
      here = device->contexts[context].state == EMU_CONTEXT_LIVE && device->contexts[context].process == slot;
    if (!here) continue;
    if (found < room) {
      memset(&list[found], 0, sizeof *list);
      list[found].pid = (unsigned)machine->processes[slot].pid;
      list[found].usedGpuMemory = device->head.process_memory[slot];
      list[found].gpuInstanceId = list[found].computeInstanceId = 0xFFFFFFFF;
    }
    found++;
  }
  emu_release(machine, index);
  *count = found;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count, nvmlProcessInfo_t *list) {
  unsigned index;
  (void)list;
  if (!emu_nvml_machine()) return NVML_ERROR_UNINITIALIZED;
  if (!emu_nvml_device(handle, &index) || !count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}
