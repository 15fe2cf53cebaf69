/* Who takes part in the emulated machine, and taking back what the dead have left. See machine.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine.h"
#include "model/undo.h"

enum { EXAMINE_EVERY_NS = 100000000 };

/* When the process started, in the kernel's ticks since boot: with the id it names a process for good. 0: it is dead. */
static uint64_t start_of(uint64_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT || errno == ESRCH ? 0 : EMU_NEVER;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  char *field = strrchr(text, ')'); /* the name before it may hold anything */
  if (!field || !field[1]) return EMU_NEVER;
  char state = field[2];
  if (state == 'Z' || state == 'X') return 0;
  for (int skip = 0; skip < 20 && field; skip++) field = strchr(field + 1, ' ');
  return field ? strtoull(field, NULL, 10) : EMU_NEVER;
}

static void hold_processes(struct emu_machine *machine) {
  pthread_mutex_t *mutex = &machine->process_lock.mutex;
  /* Nothing to undo: a slot counts only once its state, written last, says so; taking one back can be repeated. */
  if (pthread_mutex_lock(mutex) == EOWNERDEAD) pthread_mutex_consistent(mutex);
}

static void release_processes(struct emu_machine *machine) { pthread_mutex_unlock(&machine->process_lock.mutex); }

int emu_process_enter(struct emu_machine *machine) {
  emu_reap(machine, 0);
  hold_processes(machine);
  int found = -1;
  for (unsigned slot = 0; slot < EMU_MAX_PROCESSES && found < 0; slot++) {
    struct emu_process *process = &machine->processes[slot];
    if (process->state != EMU_PROCESS_FREE) continue;
    *process = (struct emu_process){.pid = (uint64_t)getpid(), .thread = (uint64_t)syscall(SYS_gettid)};
    process->started = start_of(process->pid);
    __atomic_store_n(&process->state, EMU_PROCESS_LIVE, __ATOMIC_RELEASE);
    found = (int)slot;
  }
  release_processes(machine);
  return found;
}

/* End everything that the process in `slot` has on the devices. */
static void take_back(struct emu_machine *machine, unsigned slot) {
  for (unsigned index = 0; index < machine->head.device_count; index++) {
    struct emu_device *device = emu_hold(machine, index);
    for (unsigned context = 0; context < EMU_MAX_CONTEXTS; context++)
      if (device->contexts[context].state == EMU_CONTEXT_LIVE && device->contexts[context].process == slot)
        emu_context_close(device, context);
    emu_add(device, &device->head.memory_used, -device->head.process_memory[slot]);
    emu_put(device, &device->head.process_memory[slot], 0);
    emu_add(device, &device->head.host_used, -device->head.process_host[slot]);
    emu_put(device, &device->head.process_host[slot], 0);
    emu_put(device, &device->head.process_away[slot], 0);
    emu_commit(device);
    emu_release(machine, index);
    emu_wake(machine, index);
  }
  __atomic_store_n(&machine->processes[slot].state, EMU_PROCESS_FREE, __ATOMIC_RELEASE);
}

void emu_process_leave(struct emu_machine *machine, unsigned slot) {
  hold_processes(machine);
  take_back(machine, slot);
  release_processes(machine);
}

int emu_process_find(struct emu_machine *machine, uint64_t pid) {
  for (unsigned slot = 0; slot < EMU_MAX_PROCESSES; slot++) {
    struct emu_process *process = &machine->processes[slot];
    if (__atomic_load_n(&process->state, __ATOMIC_ACQUIRE) == EMU_PROCESS_LIVE && process->pid == pid &&
        start_of(pid) == process->started)
      return (int)slot;
  }
  return -1;
}

/* True if enough time has passed since the last look, by whichever process; then this is the next one. */
static bool is_due(uint64_t *last_ns, uint64_t now_ns, uint64_t interval_ns) {
  uint64_t last = __atomic_load_n(last_ns, __ATOMIC_RELAXED);
  if (interval_ns && now_ns < last + interval_ns) return false;
  __atomic_store_n(last_ns, now_ns, __ATOMIC_RELAXED);
  return true;
}

static bool is_dead(const struct emu_process *process, bool examine) {
  if (kill((pid_t)process->pid, 0) != 0 && errno == ESRCH) return true;
  if (!examine) return false;
  uint64_t started = start_of(process->pid); /* a zombie, or someone else with the same id? */
  return started != EMU_NEVER && started != process->started;
}

void emu_reap(struct emu_machine *machine, uint64_t interval_ns) {
  uint64_t now_ns = emu_now();
  if (!is_due(&machine->watch.looked_ns, now_ns, interval_ns)) return;
  bool examine = is_due(&machine->watch.examined_ns, now_ns, interval_ns ? EXAMINE_EVERY_NS : 0);
  hold_processes(machine);
  for (unsigned slot = 0; slot < EMU_MAX_PROCESSES; slot++) {
    struct emu_process *process = &machine->processes[slot];
    if (process->state == EMU_PROCESS_LIVE && is_dead(process, examine)) take_back(machine, slot);
  }
  release_processes(machine);
}
