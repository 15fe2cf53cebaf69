/* How long a kernel takes.
 *
 * In a name: the last "_<number><unit>" that ends at "_" or at the end, unit ns, us, ms or s: spin_500us, layer_1.5ms_f16.
 * In an image's text and in the file that PILLION_EMULATED_KERNELS names: lines "kernel NAME 500us", "//" may stand before.
 */
#ifndef EMU_DURATIONS_H
#define EMU_DURATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool emu_duration_in_name(const char *name, uint64_t *duration_ns);
bool emu_duration_in_text(const char *text, const char *name, uint64_t *duration_ns);
/* Inside emu_lock. `image_text` may be NULL. */
uint64_t emu_duration_of(const char *image_text, const char *name, uint64_t default_ns);
/* A whole file, with a NUL behind it, or NULL. */
char *emu_read_file(const char *path, size_t *bytes);

#endif
