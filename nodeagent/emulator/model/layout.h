/* The memory that all processes on an emulated machine share: one file, laid out once, here.
 *
 * Every field is a 64-bit word or an array of them, listed in an X-macro, so that the structures below and the table that
 * Python reads (layout.c) come from the same lines. Indices into tables are stored plus one: zero means none, and a file
 * full of zeros is an empty machine.
 */
#ifndef EMU_LAYOUT_H
#define EMU_LAYOUT_H

#include <pthread.h>
#include <stdint.h>

#define EMU_LAYOUT_VERSION 1
#define EMU_CUDA_VERSION 13050 /* what the driver says it is: that of the headers it is built with */
#define EMU_MAGIC 0x554d456e6f696c50ULL /* "PlionEMU" */

enum {
  EMU_MAX_DEVICES = 16,
  EMU_MAX_PROCESSES = 1024,
  EMU_MAX_CONTEXTS = 128,
  EMU_MAX_STREAMS = 512,
  EMU_MAX_OPS = 8192,
  EMU_MAX_EVENTS = 32768,
  EMU_HISTORY = 16384,
  EMU_JOURNAL = 65536,
  EMU_UNDO = 2048,
  EMU_TEXT_WORDS = 12,
};

#define EMU_WORD(name) uint64_t name;
#define EMU_WORDS(name, count) uint64_t name[count];
#define EMU_STRUCT(tag, FIELDS) \
  struct tag {                  \
    FIELDS(EMU_WORD, EMU_WORDS) \
  }

/* A queued piece of a stream. `units` equal kernels of `unit_ns` each run one after another; `launches` is what the piece
 * counts against the launch-queue depth while it is queued; `until_ns` is the stream's own work up to its end. A mark's
 * `target` is its event (+1). A wait's is (context + 1) << 32 | (stream + 1), its `unit_ns` the work there up to the piece
 * waited for. */
#define EMU_OP_FIELDS(W, A) W(kind) W(next) W(seq) W(until_ns) W(unit_ns) W(units) W(target) W(target_seq) W(launches)
enum { EMU_OP_WORK = 1, EMU_OP_MARK = 2, EMU_OP_WAIT = 3, EMU_OP_HOST = 4 };

/* A FIFO of pieces. Sequence numbers never restart when a slot is reused, so that "completed_seq >= n" stays true. */
#define EMU_STREAM_FIELDS(W, A)                                                                          \
  W(state) W(priority) W(head) W(tail) W(submitted_seq) W(completed_seq) W(submitted_ns) W(executed_ns) \
  W(progress_ns)
enum { EMU_STREAM_FREE = 0, EMU_STREAM_OPEN = 1, EMU_STREAM_CLOSING = 2 };

#define EMU_EVENT_FIELDS(W, A) W(in_use) W(stamp_ns)

/* One context of one process: its queues, and what it got. The numbers stay readable after it ended, until its slot is
 * needed again. `wait_on[k]` is the part of `wait_ns` that the context in slot k caused; what contexts that are gone
 * caused has been added up in `wait_on_gone_ns`. */
#define EMU_CONTEXT_FIELDS(W, A)                                                                                  \
  W(state) W(id) W(process) W(pid) W(created_ns) W(ended_ns) W(current) W(last_stream) W(pending_launches)       \
  W(blocking_ops) W(pending_ns) W(free_op) W(fresh_ops) W(ops_in_use) W(fresh_events) W(most_events) W(launches)                 \
  W(graph_launches) W(units_done) W(copies) W(host_functions) W(busy_ns) W(wait_ns) W(wait_in_switch_ns)             \
  W(wait_on_gone_ns) W(slices) W(preemptions) W(last_submit_ns) A(runnable, EMU_MAX_STREAMS / 64)                 \
  A(blocked, EMU_MAX_STREAMS / 64) A(wait_on, EMU_MAX_CONTEXTS)
enum { EMU_TALLY_NONE = 0, EMU_TALLY_LAUNCH = 1, EMU_TALLY_COPY = 2 };
enum { EMU_CONTEXT_FREE = 0, EMU_CONTEXT_LIVE = 1, EMU_CONTEXT_ENDED = 2 };

/* Who held the device from start to end: context id, or 0 with kind EMU_SWITCHING for a switch towards `id`. */
#define EMU_SPAN_FIELDS(W, A) W(start_ns) W(end_ns) W(kind) W(id)

/* Everything that was ever asked of the model, in order: enough to compute its answers again by other means. */
#define EMU_INPUT_FIELDS(W, A) W(at_ns) W(what) W(context) W(stream) W(a) W(b) W(c) W(seq)
enum {
  EMU_IN_CONTEXT_OPEN = 1,
  EMU_IN_CONTEXT_CLOSE = 2,
  EMU_IN_STREAM_OPEN = 3,
  EMU_IN_STREAM_CLOSE = 4,
  EMU_IN_WORK = 5,
  EMU_IN_MARK = 6,
  EMU_IN_WAIT = 7,
  EMU_IN_HOST = 8,
  EMU_IN_HOST_DONE = 9,
};

enum { EMU_IDLE = 0, EMU_RUNNING = 1, EMU_SWITCHING = 2 };
#define EMU_RESIDENT_GONE (EMU_MAX_CONTEXTS + 1)

#define EMU_UNDO_FIELDS(W, A) W(offset) W(old)

/* The device: configuration, the clock of the model, what it does now, and totals (busy + switching + idle = clock -
 * started). `process_away` says that a process's memory is on the host's account, moved there by a checkpoint. `resident` is the context whose state is loaded (+1), 0 on a fresh device, EMU_RESIDENT_GONE when it ended. */
#define EMU_DEVICE_FIELDS(W, A)                                                                                     \
  W(slice_ns) W(switch_ns) W(queue_depth) W(memory_bytes) W(context_bytes) W(host_bytes_per_us)                     \
  W(device_bytes_per_us) W(default_kernel_ns) A(uuid, 2) A(name, EMU_TEXT_WORDS) W(started_ns) W(clock_ns)          \
  W(activity) W(resident) W(switch_to) W(switch_from) W(switch_end_ns) W(slice_end_ns) W(next_id) W(busy_ns)        \
  W(switching_ns) W(idle_ns) W(switches) W(memory_used) W(host_used) W(history_count) W(input_count)                \
  A(runnable, EMU_MAX_CONTEXTS / 64) A(blocked, EMU_MAX_CONTEXTS / 64) A(process_memory, EMU_MAX_PROCESSES)         \
  A(process_host, EMU_MAX_PROCESSES) A(process_away, EMU_MAX_PROCESSES) W(undo_count)

EMU_STRUCT(emu_op, EMU_OP_FIELDS);
EMU_STRUCT(emu_stream, EMU_STREAM_FIELDS);
EMU_STRUCT(emu_event, EMU_EVENT_FIELDS);
EMU_STRUCT(emu_context, EMU_CONTEXT_FIELDS);
EMU_STRUCT(emu_span, EMU_SPAN_FIELDS);
EMU_STRUCT(emu_input, EMU_INPUT_FIELDS);
EMU_STRUCT(emu_undo, EMU_UNDO_FIELDS);
EMU_STRUCT(emu_device_head, EMU_DEVICE_FIELDS);

/* The queues of one context. Sparse: a page that no one has used takes no memory. */
struct emu_queues {
  struct emu_stream streams[EMU_MAX_STREAMS];
  struct emu_op ops[EMU_MAX_OPS];
  struct emu_event events[EMU_MAX_EVENTS];
};

struct emu_device {
  struct emu_device_head head;
  struct emu_undo undo[EMU_UNDO];
  struct emu_context contexts[EMU_MAX_CONTEXTS];
  struct emu_span history[EMU_HISTORY];
  struct emu_input journal[EMU_JOURNAL];
  struct emu_queues queues[EMU_MAX_CONTEXTS];
};

/* A process that has initialised the driver. `checkpoint` is a CUprocessState; the low half of `gate` is a futex word that
 * is not zero while the process's calls have to wait. */
#define EMU_PROCESS_FIELDS(W, A) W(state) W(pid) W(started) W(checkpoint) W(gate) W(thread)
enum { EMU_PROCESS_FREE = 0, EMU_PROCESS_LIVE = 1 };

#define EMU_MACHINE_FIELDS(W, A) \
  W(magic) W(version) W(file_bytes) W(device_count) W(driver_version) W(created_ns) A(driver_name, EMU_TEXT_WORDS)

EMU_STRUCT(emu_process, EMU_PROCESS_FIELDS);
EMU_STRUCT(emu_machine_head, EMU_MACHINE_FIELDS);

/* Locks and wake-up words stand outside the tables: they are not undone. One cache line each. */
struct emu_lock {
  _Alignas(64) pthread_mutex_t mutex;
  _Alignas(64) uint32_t epoch;
};

/* When someone last looked whether all processes are alive, by their ids alone and by all that is known of them. */
struct emu_watch {
  _Alignas(64) uint64_t looked_ns;
  uint64_t examined_ns;
};

struct emu_machine {
  struct emu_machine_head head;
  struct emu_lock process_lock;
  struct emu_watch watch;
  struct emu_lock device_locks[EMU_MAX_DEVICES];
  struct emu_process processes[EMU_MAX_PROCESSES];
  _Alignas(4096) struct emu_device devices[]; /* head.device_count of them */
};

#endif
