/* The shared file and its locks. See machine.h. */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 20000 }; /* how much of a sleep is spun at its end */

static size_t machine_bytes(uint64_t devices) { return sizeof(struct emu_machine) + devices * sizeof(struct emu_device); }

static int prepare_lock(struct emu_lock *lock) {
  pthread_mutexattr_t attributes;
  int error = pthread_mutexattr_init(&attributes);
  if (!error) error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (!error) error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (!error) error = pthread_mutex_init(&lock->mutex, &attributes);
  return error;
}

static void write_text(uint64_t *words, const char *text) {
  char *bytes = (char *)words;
  snprintf(bytes, EMU_TEXT_WORDS * sizeof(uint64_t), "%s", text);
}

static int fill_machine(struct emu_machine *machine, const struct emu_options *options) {
  int error = prepare_lock(&machine->process_lock);
  for (unsigned index = 0; index < options->devices && !error; index++) {
    struct emu_device_head *head = &machine->devices[index].head;
    head->slice_ns = options->slice_ns;
    head->switch_ns = options->switch_ns;
    head->queue_depth = options->queue_depth;
    head->memory_bytes = options->memory_bytes;
    head->context_bytes = options->context_bytes;
    head->host_bytes_per_us = options->host_bytes_per_us;
    head->device_bytes_per_us = options->device_bytes_per_us;
    head->default_kernel_ns = options->default_kernel_ns;
    write_text(head->name, options->name);
    if (syscall(SYS_getrandom, head->uuid, sizeof head->uuid, 0) != sizeof head->uuid) return errno;
    head->started_ns = head->clock_ns = emu_now();
    error = prepare_lock(&machine->device_locks[index]);
  }
  machine->head.version = EMU_LAYOUT_VERSION;
  machine->head.file_bytes = machine_bytes(options->devices);
  machine->head.device_count = options->devices;
  machine->head.driver_version = EMU_CUDA_VERSION;
  machine->head.created_ns = emu_now();
  write_text(machine->head.driver_name, options->driver_name);
  machine->head.magic = EMU_MAGIC;
  return error;
}

int emu_machine_create(const char *path, const struct emu_options *options) {
  if (!options->devices || options->devices > EMU_MAX_DEVICES || !options->slice_ns || !options->queue_depth ||
      options->queue_depth > EMU_MAX_OPS / 4 || !options->host_bytes_per_us || !options->device_bytes_per_us)
    return EINVAL;
  char temporary[4096];
  if (snprintf(temporary, sizeof temporary, "%s.%d.new", path, (int)getpid()) >= (int)sizeof temporary) return ENAMETOOLONG;
  int file = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  size_t bytes = machine_bytes(options->devices);
  int error = ftruncate(file, (off_t)bytes) ? errno : 0;
  if (!error) {
    struct emu_machine *machine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    error = machine == MAP_FAILED ? errno : fill_machine(machine, options);
    if (machine != MAP_FAILED) munmap(machine, bytes);
  }
  close(file);
  if (!error && link(temporary, path)) error = errno; /* link, not rename: an existing machine is in someone's use */
  unlink(temporary);
  return error;
}

struct emu_machine *emu_machine_open(const char *path) {
  if (!path) path = getenv(EMU_PATH_VARIABLE);
  if (!path || !*path) path = EMU_DEFAULT_PATH;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  struct stat status;
  struct emu_machine_head head;
  struct emu_machine *machine = NULL;
  if (fstat(file, &status) == 0 && pread(file, &head, sizeof head, 0) == (ssize_t)sizeof head &&
      head.magic == EMU_MAGIC && head.version == EMU_LAYOUT_VERSION && head.device_count <= EMU_MAX_DEVICES &&
      head.file_bytes == machine_bytes(head.device_count) && (uint64_t)status.st_size == head.file_bytes) {
    machine = mmap(NULL, head.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (machine == MAP_FAILED) machine = NULL;
  } else {
    errno = EPROTO;
  }
  int error = errno;
  close(file);
  errno = error;
  return machine;
}

void emu_machine_close(struct emu_machine *machine) { munmap(machine, machine->head.file_bytes); }

uint64_t emu_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

struct emu_device *emu_hold(struct emu_machine *machine, unsigned index) {
  struct emu_device *device = &machine->devices[index];
  pthread_mutex_t *mutex = &machine->device_locks[index].mutex;
  if (pthread_mutex_lock(mutex) == EOWNERDEAD) {
    emu_rollback(device);
    pthread_mutex_consistent(mutex);
  }
  emu_advance(device, emu_now());
  return device;
}

void emu_release(struct emu_machine *machine, unsigned index) { pthread_mutex_unlock(&machine->device_locks[index].mutex); }

uint32_t emu_epoch(struct emu_machine *machine, unsigned index) {
  return __atomic_load_n(&machine->device_locks[index].epoch, __ATOMIC_ACQUIRE);
}

void emu_wake(struct emu_machine *machine, unsigned index) {
  uint32_t *epoch = &machine->device_locks[index].epoch;
  __atomic_fetch_add(epoch, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, epoch, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void emu_sleep(struct emu_machine *machine, unsigned index, uint32_t epoch, uint64_t deadline_ns) {
  uint64_t now_ns = emu_now();
  if (deadline_ns > now_ns + SPIN_NS) {
    uint64_t until_ns = deadline_ns - SPIN_NS;
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    int slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0); /* the kernel may add its slack, 50 us by default, to any sleep */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    syscall(SYS_futex, &machine->device_locks[index].epoch, FUTEX_WAIT_BITSET, epoch, &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
    if (slack_ns > 0) prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0);
    now_ns = emu_now();
    if (now_ns < until_ns) return; /* woken */
  }
  while (now_ns < deadline_ns && emu_epoch(machine, index) == epoch) {
    __asm__ __volatile__("" ::: "memory");
    now_ns = emu_now();
  }
}
