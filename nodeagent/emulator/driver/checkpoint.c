/* Checkpoints of other processes: lock, move the memory to the host, bring it back, unlock.
 *
 * The target does nothing for it. Its calls wait at its gate word while it is not RUNNING; what it had queued before goes on
 * and is waited for. Its device memory is host memory in truth, so moving it is a matter of accounts, and takes the time
 * that the host link would need.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "model/undo.h"

static CUresult find(int pid, struct emu_process **process, unsigned *slot) {
  if (emu_driver.state != EMU_READY) return CUDA_ERROR_NOT_INITIALIZED;
  int found = pid > 0 ? emu_process_find(emu_driver.machine, (uint64_t)pid) : -1;
  if (found < 0) return CUDA_ERROR_INVALID_VALUE;
  *slot = (unsigned)found;
  *process = &emu_driver.machine->processes[found];
  return CUDA_SUCCESS;
}

/* Take the process from one state to another, unless someone was faster. */
static CUresult change(struct emu_process *process, CUprocessState from, CUprocessState to) {
  uint64_t expected = from;
  bool done = __atomic_compare_exchange_n(&process->checkpoint, &expected, (uint64_t)to, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE);
  return done ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

static void set_gate(struct emu_process *process, uint64_t shut) {
  __atomic_store_n(&process->gate, shut, __ATOMIC_RELEASE);
  if (!shut) syscall(SYS_futex, &process->gate, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* True if the process has nothing left to do on any device; otherwise where to wait, and for how long. */
static bool is_drained(unsigned slot, unsigned *where, uint32_t *epoch, uint64_t *look_ns) {
  struct emu_machine *machine = emu_driver.machine;
  for (unsigned index = 0; index < machine->head.device_count; index++) {
    struct emu_device *device = emu_hold(machine, index);
    bool busy = false;
    *epoch = emu_epoch(machine, index);
    *look_ns = device->head.clock_ns + 1000000;
    for (unsigned context = 0; context < EMU_MAX_CONTEXTS && !busy; context++) {
      if (device->contexts[context].state != EMU_CONTEXT_LIVE || device->contexts[context].process != slot) continue;
      busy = device->contexts[context].ops_in_use > 0;
    }
    emu_release(machine, index);
    *where = index;
    if (busy) return false;
  }
  return true;
}

CUresult CUDAAPI cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *arguments) {
  struct emu_process *process;
  unsigned slot, where;
  uint32_t epoch;
  uint64_t look_ns, until_ns = EMU_NEVER;
  CUresult result = find(pid, &process, &slot);
  if (result == CUDA_SUCCESS) result = change(process, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
  if (result != CUDA_SUCCESS) return result;
  if (arguments && arguments->timeoutMs) until_ns = emu_now() + arguments->timeoutMs * 1000000ULL;
  set_gate(process, 1);
  while (!is_drained(slot, &where, &epoch, &look_ns)) {
    if (emu_now() >= until_ns) {
      change(process, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
      set_gate(process, 0);
      return CUDA_ERROR_NOT_READY;
    }
    emu_sleep(emu_driver.machine, where, epoch, look_ns < until_ns ? look_ns : until_ns);
    emu_reap(emu_driver.machine, 10000000);
    if (process->state != EMU_PROCESS_LIVE || process->pid != (uint64_t)pid) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static void sleep_for_bytes(uint64_t bytes) {
  uint64_t took_ns = bytes * 1000 / emu_driver.machine->devices[0].head.host_bytes_per_us;
  struct timespec time = {(time_t)(took_ns / 1000000000), (long)(took_ns % 1000000000)};
  nanosleep(&time, NULL);
}

/* Move the process's memory on one device to the host's account, or back. False if it does not fit. */
static bool move(unsigned index, unsigned slot, bool to_host, uint64_t *moved) {
  struct emu_machine *machine = emu_driver.machine;
  struct emu_device *device = emu_hold(machine, index);
  struct emu_device_head *head = &device->head;
  uint64_t *from = to_host ? &head->process_memory[slot] : &head->process_host[slot];
  uint64_t *to = to_host ? &head->process_host[slot] : &head->process_memory[slot];
  uint64_t bytes = *from;
  bool fits = to_host || bytes <= head->memory_bytes - head->memory_used;
  if (fits) {
    emu_add(device, &head->memory_used, to_host ? -bytes : bytes);
    emu_add(device, &head->host_used, to_host ? bytes : -bytes);
    emu_put(device, to, *to + bytes);
    emu_put(device, from, 0);
    emu_put(device, &head->process_away[slot], to_host);
    emu_commit(device);
    *moved += bytes;
  }
  emu_release(machine, index);
  return fits;
}

CUresult CUDAAPI cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *arguments) {
  struct emu_process *process;
  unsigned slot;
  uint64_t moved = 0;
  if (arguments && arguments->customStorageInfo_out) return emu_not_modelled("checkpoints to custom storage");
  CUresult result = find(pid, &process, &slot);
  if (result == CUDA_SUCCESS) result = change(process, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
  if (result != CUDA_SUCCESS) return result;
  for (unsigned index = 0; index < emu_driver.machine->head.device_count; index++) move(index, slot, true, &moved);
  sleep_for_bytes(moved);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *arguments) {
  struct emu_process *process;
  unsigned slot;
  uint64_t moved = 0, undone = 0;
  if (arguments && (arguments->gpuPairsCount || arguments->customStorageInfo_out))
    return emu_not_modelled("restoring onto other GPUs or from custom storage");
  CUresult result = find(pid, &process, &slot);
  if (result != CUDA_SUCCESS) return result;
  if (process->checkpoint != CU_PROCESS_STATE_CHECKPOINTED) return CUDA_ERROR_ILLEGAL_STATE;
  emu_reap(emu_driver.machine, 0);
  for (unsigned index = 0; index < emu_driver.machine->head.device_count; index++) {
    if (move(index, slot, false, &moved)) continue;
    while (index-- > 0) move(index, slot, true, &undone); /* all or nothing: it stays checkpointed */
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  sleep_for_bytes(moved);
  return change(process, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

CUresult CUDAAPI cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *arguments) {
  (void)arguments;
  struct emu_process *process;
  unsigned slot;
  CUresult result = find(pid, &process, &slot);
  if (result == CUDA_SUCCESS) result = change(process, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
  if (result == CUDA_SUCCESS) set_gate(process, 0);
  return result;
}

CUresult CUDAAPI cuCheckpointProcessGetState(int pid, CUprocessState *state) {
  struct emu_process *process;
  unsigned slot;
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = find(pid, &process, &slot);
  if (result == CUDA_SUCCESS) *state = (CUprocessState)__atomic_load_n(&process->checkpoint, __ATOMIC_ACQUIRE);
  return result;
}

/* The thread that initialised the driver: there is no thread for restoring, as the target does nothing for it. */
CUresult CUDAAPI cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
  struct emu_process *process;
  unsigned slot;
  if (!thread) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = find(pid, &process, &slot);
  if (result == CUDA_SUCCESS) *thread = (int)process->thread;
  return result;
}
