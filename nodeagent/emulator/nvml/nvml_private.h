/* What the files of the NVML library share. */
#ifndef EMU_NVML_PRIVATE_H
#define EMU_NVML_PRIVATE_H

#pragma GCC visibility push(default) /* what the header declares is what the library shows */
#include <nvml.h>
#pragma GCC visibility pop

#include "machine/machine.h"

/* The machine while NVML is initialised, or NULL. */
struct emu_machine *emu_nvml_machine(void);
/* The device behind a handle and its place on the machine, or NULL. */
struct emu_device *emu_nvml_device(nvmlDevice_t handle, unsigned *index);

#endif
