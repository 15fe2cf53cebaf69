/* Arrays: plain rows of elements; nothing samples them. */
#ifndef EMU_ARRAY_H
#define EMU_ARRAY_H

#include "driver.h"

/* Where (x in bytes, y, z) of an array is, if the copy's box fits there. */
CUresult emu_array_end(CUarray array, size_t x, size_t y, size_t z, const CUDA_MEMCPY3D *copy, char **at, size_t *pitch,
                       size_t *slice);

#endif
