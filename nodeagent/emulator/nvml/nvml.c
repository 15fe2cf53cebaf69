/* The part of NVML that monitors and agents use: devices, names, memory, load, processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"
#include "nvml/nvml_private.h"

static struct emu_machine *machine;
static unsigned initialised;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct emu_machine *emu_nvml_machine(void) { return initialised ? machine : NULL; }

/* A handle is the address of the device's place on the machine; nobody may look behind it. */
struct emu_device *emu_nvml_device(nvmlDevice_t handle, unsigned *index) {
  if (!initialised) return NULL;
  for (*index = 0; *index < machine->head.device_count; (*index)++)
    if ((void *)handle == (void *)&machine->devices[*index]) return &machine->devices[*index];
  return NULL;
}

static nvmlReturn_t start(void) {
  pthread_mutex_lock(&mutex);
  if (!machine) machine = emu_machine_open(NULL); /* stays mapped: handles of a program that forgot them must not crash */
  if (machine) initialised++;
  pthread_mutex_unlock(&mutex);
  return machine ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

nvmlReturn_t DECLDIR nvmlInit_v2(void) { return start(); }

nvmlReturn_t DECLDIR nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  return start();
}

nvmlReturn_t DECLDIR nvmlShutdown(void) {
  pthread_mutex_lock(&mutex);
  bool was = initialised > 0;
  if (was) initialised--;
  pthread_mutex_unlock(&mutex);
  return was ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t put_text(char *target, unsigned room, const char *text) {
  if (!target) return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(text) + 1 > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(target, text);
  return NVML_SUCCESS;
}

#define EMU_WITH_NVML(argument)                       \
  if (!initialised) return NVML_ERROR_UNINITIALIZED; \
  if (!(argument)) return NVML_ERROR_INVALID_ARGUMENT

nvmlReturn_t DECLDIR nvmlSystemGetDriverVersion(char *version, unsigned int room) {
  EMU_WITH_NVML(version);
  return put_text(version, room, (const char *)machine->head.driver_name);
}

nvmlReturn_t DECLDIR nvmlSystemGetNVMLVersion(char *version, unsigned int room) {
  EMU_WITH_NVML(version);
  char text[128];
  snprintf(text, sizeof text, "13.%s", (const char *)machine->head.driver_name);
  return put_text(version, room, text);
}

nvmlReturn_t DECLDIR nvmlSystemGetCudaDriverVersion(int *version) {
  EMU_WITH_NVML(version);
  *version = (int)machine->head.driver_version;
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

nvmlReturn_t DECLDIR nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int room) {
  EMU_WITH_NVML(name && room);
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  FILE *file = fopen(path, "rbe");
  if (!file) return NVML_ERROR_NOT_FOUND;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  snprintf(name, room, "%s", text);
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetCount_v2(unsigned int *count) {
  EMU_WITH_NVML(count);
  *count = (unsigned)machine->head.device_count;
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle) {
  EMU_WITH_NVML(handle && index < machine->head.device_count);
  *handle = (nvmlDevice_t)(void *)&machine->devices[index];
  return NVML_SUCCESS;
}

static void write_uuid(const struct emu_device *device, char text[48]) {
  const unsigned char *uuid = (const unsigned char *)device->head.uuid;
  char *end = text + sprintf(text, "GPU-");
  for (int byte = 0; byte < 16; byte++) {
    if (byte == 4 || byte == 6 || byte == 8 || byte == 10) *end++ = '-';
    end += sprintf(end, "%02x", uuid[byte]);
  }
}

nvmlReturn_t DECLDIR nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle) {
  EMU_WITH_NVML(uuid && handle);
  for (unsigned index = 0; index < machine->head.device_count; index++) {
    char text[48];
    write_uuid(&machine->devices[index], text);
    if (strcmp(text, uuid) == 0) return nvmlDeviceGetHandleByIndex_v2(index, handle);
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t DECLDIR nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *handle) {
  EMU_WITH_NVML(id && handle);
  unsigned domain, bus, slot;
  if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) return NVML_ERROR_INVALID_ARGUMENT;
  if (domain || slot || !bus || bus > machine->head.device_count) return NVML_ERROR_NOT_FOUND;
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, handle);
}

#define EMU_WITH_HANDLE(handle, argument)                            \
  EMU_WITH_NVML(argument);                                           \
  unsigned index;                                                    \
  struct emu_device *device = emu_nvml_device(handle, &index);       \
  if (!device) return NVML_ERROR_INVALID_ARGUMENT

nvmlReturn_t DECLDIR nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *found) {
  EMU_WITH_HANDLE(handle, found);
  *found = index;
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int *found) {
  return nvmlDeviceGetIndex(handle, found);
}

nvmlReturn_t DECLDIR nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int room) {
  EMU_WITH_HANDLE(handle, name);
  return put_text(name, room, (const char *)device->head.name);
}

nvmlReturn_t DECLDIR nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int room) {
  EMU_WITH_HANDLE(handle, uuid);
  char text[48];
  write_uuid(device, text);
  return put_text(uuid, room, text);
}

nvmlReturn_t DECLDIR nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *info) {
  EMU_WITH_HANDLE(handle, info);
  memset(info, 0, sizeof *info);
  snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", index + 1);
  snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "0000:%02X:00.0", (index + 1) & 0xff);
  info->bus = index + 1;
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major, int *minor) {
  EMU_WITH_HANDLE(handle, major && minor);
  *major = 8;
  *minor = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, nvmlEnableState_t *mode) {
  EMU_WITH_HANDLE(handle, mode);
  *mode = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetComputeMode(nvmlDevice_t handle, nvmlComputeMode_t *mode) {
  EMU_WITH_HANDLE(handle, mode);
  *mode = NVML_COMPUTEMODE_DEFAULT;
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory) {
  EMU_WITH_HANDLE(handle, memory);
  emu_reap(machine, 10000000);
  emu_hold(machine, index);
  memory->total = device->head.memory_bytes;
  memory->used = device->head.memory_used;
  memory->free = memory->total - memory->used;
  emu_release(machine, index);
  return NVML_SUCCESS;
}

nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory) {
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t plain;
  nvmlReturn_t result = nvmlDeviceGetMemoryInfo(handle, &plain);
  if (result != NVML_SUCCESS) return result;
  memory->total = plain.total;
  memory->used = plain.used;
  memory->free = plain.free;
  memory->reserved = 0;
  return NVML_SUCCESS;
}

const char *DECLDIR nvmlErrorString(nvmlReturn_t code) {
  static const struct {
    nvmlReturn_t code;
    const char *text;
  } texts[] = {
      {NVML_SUCCESS, "The operation was successful"},
      {NVML_ERROR_UNINITIALIZED, "NVML was not first initialized with nvmlInit()"},
      {NVML_ERROR_INVALID_ARGUMENT, "A supplied argument is invalid"},
      {NVML_ERROR_NOT_SUPPORTED, "Not modelled by the emulated GPU"},
      {NVML_ERROR_NO_PERMISSION, "The current user does not have permission for operation"},
      {NVML_ERROR_NOT_FOUND, "A query to find an object was unsuccessful"},
      {NVML_ERROR_INSUFFICIENT_SIZE, "An input argument is not large enough"},
      {NVML_ERROR_DRIVER_NOT_LOADED, "No emulated GPU here: create one with python -m pillion_node.emulator create"},
      {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "The provided version is invalid or unsupported"},
  };
  for (unsigned place = 0; place < sizeof texts / sizeof *texts; place++)
    if (texts[place].code == code) return texts[place].text;
  return "Unknown Error";
}
