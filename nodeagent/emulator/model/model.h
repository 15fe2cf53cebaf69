/* The device model: what a time-sliced GPU does with the work in its queues, as a function of its state and a time.
 *
 * Pure: no clock, no system call, no allocation, no global. The caller holds the device's lock, says what time it is, and
 * finds in the state what happened until then. Each function leaves the state whole; one that is cut short (its process
 * was killed) is undone by emu_rollback.
 */
#ifndef EMU_MODEL_H
#define EMU_MODEL_H

#include <stdbool.h>

#include "layout.h"

#define EMU_NEVER UINT64_MAX

/* Bring the device's clock to `now_ns`. Times before the clock change nothing. */
void emu_advance(struct emu_device *device, uint64_t now_ns);

/* Undo the step that a killed process left half done; harmless when there is none. */
void emu_rollback(struct emu_device *device);

/* A context of the process in slot `process`; its slot, or -1 when the device has no slot left. */
int emu_context_open(struct emu_device *device, unsigned process, uint64_t pid);

/* End a context: queued work is dropped, work that is running stops, its numbers stay. */
void emu_context_close(struct emu_device *device, unsigned context);

/* A stream; a lower `priority` goes first among the context's streams. Its slot, or -1 when there is none left. */
int emu_stream_open(struct emu_device *device, unsigned context, int priority);

/* Close a stream: what is queued still runs, then the slot is free. */
void emu_stream_close(struct emu_device *device, unsigned context, unsigned stream);

int emu_event_open(struct emu_device *device, unsigned context);
void emu_event_close(struct emu_device *device, unsigned context, unsigned event);

/* True if `launches` more launches and `ops` more pieces fit into the context's queues. */
bool emu_has_room(const struct emu_device *device, unsigned context, unsigned ops, unsigned launches);

/* Queue one piece; the caller has asked emu_has_room. Each returns the piece's sequence number in its stream. */
uint64_t emu_submit_work(struct emu_device *device, unsigned context, unsigned stream, uint64_t unit_ns, uint64_t units,
                         unsigned launches, unsigned tally);
uint64_t emu_submit_mark(struct emu_device *device, unsigned context, unsigned stream, unsigned event);
uint64_t emu_submit_wait(struct emu_device *device, unsigned context, unsigned stream, unsigned on_context,
                         unsigned on_stream, uint64_t on_seq);
uint64_t emu_submit_host(struct emu_device *device, unsigned context, unsigned stream);

/* Count the launch of a graph, whose pieces have been queued one by one. */
void emu_tally_graph(struct emu_device *device, unsigned context);

/* True if the host function with this number is at the head of its stream: the process may run it. */
bool emu_host_ready(const struct emu_device *device, unsigned context, unsigned stream, uint64_t seq);
void emu_host_done(struct emu_device *device, unsigned context, unsigned stream, uint64_t seq);

bool emu_is_done(const struct emu_device *device, unsigned context, unsigned stream, uint64_t seq);

/* The earliest time at which the piece that ends at `until_ns` of its stream's own work can be done, whatever is submitted
 * from now on. 0 when that is for a host function to tell. (eta.c) */
uint64_t emu_earliest(const struct emu_device *device, unsigned context, unsigned stream, uint64_t until_ns);

/* The earliest time at which the context can have less queued than now, or the clock as above. (eta.c) */
uint64_t emu_earliest_progress(const struct emu_device *device, unsigned context);

/* First set bit after `after` in cyclic order, itself last; -1 when no bit is set. */
int emu_next_bit(const uint64_t *bits, unsigned count, unsigned after);

#endif
