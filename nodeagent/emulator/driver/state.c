/* Initialising the driver in a process, and what every call asks first. */
#include <ctype.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"

struct emu_driver emu_driver = {.mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;

void emu_lock(void) { pthread_mutex_lock(&emu_driver.mutex); }
void emu_unlock(void) { pthread_mutex_unlock(&emu_driver.mutex); }

int emu_not_modelled(const char *name) {
  if (getenv("PILLION_EMULATED_VERBOSE")) fprintf(stderr, "pillion emulated GPU: %s is not modelled\n", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

/* A context does not survive into a forked child; like the real driver, say so instead of working by chance. */
static void in_forked_child(void) {
  if (emu_driver.state != EMU_UNINITIALISED) emu_driver.state = EMU_FORKED;
}

__attribute__((destructor)) static void at_exit(void) {
  int ready = EMU_READY;
  if (atomic_compare_exchange_strong(&emu_driver.state, &ready, EMU_EXITING))
    emu_process_leave(emu_driver.machine, emu_driver.process);
}

static int by_uuid(const char *text, size_t length) {
  int found = -1;
  for (unsigned index = 0; index < emu_driver.machine->head.device_count; index++) {
    const unsigned char *uuid = (const unsigned char *)emu_driver.machine->devices[index].head.uuid;
    char name[48] = "GPU-";
    char *end = name + 4;
    for (int byte = 0; byte < 16; byte++) {
      if (byte == 4 || byte == 6 || byte == 8 || byte == 10) *end++ = '-';
      end += sprintf(end, "%02x", uuid[byte]);
    }
    if (length > 4 && length <= strlen(name) && strncasecmp(name, text, length) == 0) {
      if (found >= 0) return -1; /* ambiguous */
      found = (int)index;
    }
  }
  return found;
}

/* CUDA_VISIBLE_DEVICES: indices or UUIDs, up to the first that names no device or one for the second time. */
static void choose_visible(void) {
  const char *text = getenv("CUDA_VISIBLE_DEVICES");
  int count = (int)emu_driver.machine->head.device_count;
  emu_driver.device_count = 0;
  if (!text) {
    for (; emu_driver.device_count < count; emu_driver.device_count++)
      emu_driver.devices[emu_driver.device_count] = (unsigned)emu_driver.device_count;
    return;
  }
  while (*text) {
    while (isspace((unsigned char)*text)) text++;
    size_t length = strcspn(text, ", \t");
    int chosen = -1;
    if (isdigit((unsigned char)*text)) {
      char *end;
      long index = strtol(text, &end, 10);
      if (end == text + length && index < count) chosen = (int)index;
    } else {
      chosen = by_uuid(text, length);
    }
    if (chosen < 0) return;
    for (int known = 0; known < emu_driver.device_count; known++) {
      if (emu_driver.devices[known] != (unsigned)chosen) continue;
      emu_driver.device_count = 0; /* the real driver refuses a list with the same device twice as a whole */
      return;
    }
    emu_driver.devices[emu_driver.device_count++] = (unsigned)chosen;
    text += length;
    text += strspn(text, " \t");
    if (*text == ',') text++;
  }
}

static CUresult initialise(void) {
  static bool fork_handled;
  emu_driver.machine = emu_machine_open(NULL);
  if (!emu_driver.machine) return errno == EPROTO ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE;
  choose_visible();
  if (emu_driver.device_count == 0) {
    emu_machine_close(emu_driver.machine);
    return CUDA_ERROR_NO_DEVICE;
  }
  int process = emu_process_enter(emu_driver.machine);
  if (process < 0) {
    emu_machine_close(emu_driver.machine);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  emu_driver.process = (unsigned)process;
  if (!fork_handled) fork_handled = pthread_atfork(NULL, NULL, in_forked_child) == 0;
  emu_driver.state = EMU_READY;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned int flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&init_mutex);
  CUresult result = CUDA_SUCCESS;
  if (emu_driver.state == EMU_UNINITIALISED) result = initialise();
  pthread_mutex_unlock(&init_mutex);
  if (emu_driver.state == EMU_FORKED) return CUDA_ERROR_NOT_INITIALIZED;
  return result;
}

static uint32_t *gate_word(void) {
  return (uint32_t *)&emu_driver.machine->processes[emu_driver.process].gate; /* both targets are little-endian */
}

void emu_await_gate(void) {
  uint32_t shut;
  while ((shut = __atomic_load_n(gate_word(), __ATOMIC_ACQUIRE)) != 0)
    syscall(SYS_futex, gate_word(), FUTEX_WAIT, shut, NULL, NULL, 0);
}

CUresult emu_enter(void) {
  int state = atomic_load_explicit(&emu_driver.state, memory_order_acquire);
  if (state == EMU_EXITING) return CUDA_ERROR_DEINITIALIZED;
  if (state != EMU_READY) return CUDA_ERROR_NOT_INITIALIZED;
  if (__atomic_load_n(gate_word(), __ATOMIC_ACQUIRE) && !emu_on_callback_thread()) emu_await_gate();
  return CUDA_SUCCESS;
}

CUresult emu_check_device(CUdevice device) {
  return device >= 0 && device < emu_driver.device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
