/* Changes that can be taken back: how the shared state survives kill -9 in the middle of a step.
 *
 * Every word of the model's state is written with emu_put, which first notes the old value. emu_commit forgets the notes
 * once the state is whole. Whoever finds the lock abandoned plays the notes backwards. A killed process's stores are all
 * visible to the next holder of its lock in program order, so only the compiler has to be kept from moving them.
 */
#ifndef EMU_UNDO_H
#define EMU_UNDO_H

#include "layout.h"

static inline void emu_put(struct emu_device *device, uint64_t *word, uint64_t value) {
  uint64_t count = device->head.undo_count;
  if (count >= EMU_UNDO) __builtin_trap(); /* a step that changes more than that is a mistake in the model */
  device->undo[count].offset = (uint64_t)((char *)word - (char *)device);
  device->undo[count].old = *word;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  *(volatile uint64_t *)&device->head.undo_count = count + 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  *(volatile uint64_t *)word = value;
}

static inline void emu_add(struct emu_device *device, uint64_t *word, uint64_t amount) {
  emu_put(device, word, *word + amount);
}

static inline void emu_commit(struct emu_device *device) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  *(volatile uint64_t *)&device->head.undo_count = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#endif
