/* The emulated machine as a process sees it: the shared file, its locks, who takes part, and sleeping for its clock. */
#ifndef EMU_MACHINE_H
#define EMU_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "model/model.h"

#define EMU_PATH_VARIABLE "PILLION_EMULATED_GPU"
#define EMU_DEFAULT_PATH "/dev/shm/pillion-emulated-gpu"

/* What `create` decides for every device of a machine. */
struct emu_options {
  uint64_t devices, memory_bytes, context_bytes, slice_ns, switch_ns, queue_depth, host_bytes_per_us, device_bytes_per_us,
      default_kernel_ns;
  const char *name, *driver_name;
};

/* Make a machine's file, whole or not at all. 0, or an errno. */
int emu_machine_create(const char *path, const struct emu_options *options);

/* Map the machine at `path` (NULL: the variable, or else the default path). NULL with errno set when there is none, or one
 * of another layout version (EPROTO). */
struct emu_machine *emu_machine_open(const char *path);
void emu_machine_close(struct emu_machine *machine);

uint64_t emu_now(void);

/* Hold a device: its model is whole and its clock is at the present. */
struct emu_device *emu_hold(struct emu_machine *machine, unsigned device);
void emu_release(struct emu_machine *machine, unsigned device);

/* Sleep until `deadline_ns`, or until emu_wake after `epoch` was read. Ends with a few microseconds of spinning, since a
 * sleeping thread wakes late. */
uint32_t emu_epoch(struct emu_machine *machine, unsigned device);
void emu_sleep(struct emu_machine *machine, unsigned device, uint32_t epoch, uint64_t deadline_ns);
/* Something is done earlier than anyone could know: look again. */
void emu_wake(struct emu_machine *machine, unsigned device);

/* Enter this process; its slot, or -1. */
int emu_process_enter(struct emu_machine *machine);
/* Leave: contexts end, memory returns. */
void emu_process_leave(struct emu_machine *machine, unsigned process);
/* The live process with this id; -1 if none. */
int emu_process_find(struct emu_machine *machine, uint64_t pid);
/* Take back what dead processes have left. With an interval, at most one process of the machine looks in that time, and
 * zombies are seen within 0.1 s; with 0, look now and thoroughly. */
void emu_reap(struct emu_machine *machine, uint64_t interval_ns);

#endif
