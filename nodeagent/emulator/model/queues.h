/* Inside the model: the queues' side of it, for model.c. */
#ifndef EMU_QUEUES_H
#define EMU_QUEUES_H

#include "model.h"

static inline struct emu_queues *emu_queues_of(struct emu_device *device, const struct emu_context *context) {
  return &device->queues[context - device->contexts];
}

static inline bool emu_has_bit(const uint64_t *bits, unsigned bit) { return bits[bit / 64] >> (bit % 64) & 1; }

/* Take up whatever needs no device time at the heads of all streams that wait. */
void emu_settle_all(struct emu_device *device);

/* The kernel that the context runs is done: the next one of its piece, or the next piece, takes its place. */
void emu_finish_kernel(struct emu_device *device, unsigned context);

/* Note what was asked of the model, in the step that carries it out. `context` is a context's id. */
void emu_note_input(struct emu_device *device, uint64_t what, uint64_t context, uint64_t stream, uint64_t a, uint64_t b,
                    uint64_t c, uint64_t seq);

/* Find the device something to do if what it does is over. (model.c) */
void emu_dispatch(struct emu_device *device);

#endif
