/* The emulated driver inside one process: handles, and the helpers that its calls share.
 *
 * Locking: `emu_driver.mutex` guards everything in this process; a device's lock is taken inside it, never the other way
 * round, and nobody sleeps holding either. It is recursive, because freeing a graph may happen inside it or not.
 */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "machine/machine.h"

enum emu_state { EMU_UNINITIALISED, EMU_READY, EMU_FORKED, EMU_EXITING };

struct emu_driver {
  _Atomic int state;
  pthread_mutex_t mutex;
  struct emu_machine *machine;
  unsigned process;
  int device_count; /* those that CUDA_VISIBLE_DEVICES lets this process see ... */
  unsigned devices[EMU_MAX_DEVICES]; /* ... and their places on the machine */
  CUcontext primary[EMU_MAX_DEVICES];
  unsigned primary_flags[EMU_MAX_DEVICES];
};
extern struct emu_driver emu_driver;

enum emu_magic {
  EMU_CONTEXT = 0x58544345,
  EMU_STREAM = 0x4d525453,
  EMU_EVENT = 0x544e5645,
  EMU_LIBRARY = 0x5242494c,
  EMU_KERNEL = 0x4e52454b,
  EMU_GRAPH = 0x48505247,
  EMU_NODE = 0x45444f4e,
  EMU_EXEC = 0x43455845,
  EMU_POOL = 0x4c4f4f50,
  EMU_ARRAY = 0x59415241,
};
#define EMU_IS(handle, kind) ((handle) && (handle)->magic == (kind))

struct CUctx_st {
  enum emu_magic magic;
  CUcontext next;   /* all contexts of this process */
  int ordinal;      /* the device as this process counts */
  unsigned device;  /* the device on the machine */
  unsigned slot;    /* the context on the device */
  bool primary;
  unsigned retained, flags;
  unsigned long long id;
  size_t limits[CU_LIMIT_MAX];
  CUfunc_cache cache;
  CUstream legacy, streams; /* `streams`: every stream, the legacy one too */
};

struct emu_capture;

struct CUstream_st {
  enum emu_magic magic;
  CUstream next;
  CUcontext context;
  unsigned slot, flags;
  int priority;
  pid_t thread; /* whose per-thread default stream it is, or 0 */
  uint64_t last_seq, last_until_ns; /* the end of what was submitted */
  uint64_t legacy_seq;              /* up to where it already waits for the legacy stream */
  struct emu_capture *capture;
  struct emu_node_set {
    CUgraphNode *nodes;
    size_t count;
  } tail; /* while capturing: what the next node depends on */
};

struct CUevent_st {
  enum emu_magic magic;
  CUcontext context;
  unsigned flags;
  int slot;      /* of its time stamp, -1 without timing */
  bool recorded;
  unsigned stream; /* slot of the stream, and the piece that completes it */
  uint64_t seq, until_ns;
  struct emu_capture *capture; /* recorded while this capture went on, after these nodes */
  uint64_t capture_id;
  struct emu_node_set tail;
};

/* A kernel and a function are one thing here, as the launch calls take either. */
struct emu_kernel {
  enum emu_magic magic;
  struct emu_kernel *next;
  struct CUlib_st *library;
  uint64_t duration_ns;
  unsigned parameters;
  char name[];
};

/* ---- state.c ---- */
/* Every call that needs an initialised driver begins with this. Waits while the process is locked for a checkpoint. */
CUresult emu_enter(void);
#define EMU_ENTER()                    \
  do {                                 \
    CUresult entered = emu_enter();    \
    if (entered != CUDA_SUCCESS) return entered; \
  } while (0)
void emu_lock(void);
void emu_unlock(void);
CUresult emu_check_device(CUdevice device);
void emu_await_gate(void);
int emu_not_modelled(const char *name);

/* ---- context.c ---- */
CUresult emu_current(CUcontext *context);
CUresult emu_check_context(CUcontext context); /* NULL stands for the current one: see emu_resolve_context */
CUresult emu_resolve_context(CUcontext *context);
/* Wait for what every stream of a context had queued at this moment. */
CUresult emu_synchronise(CUcontext context);

/* ---- stream.c ---- */
extern _Thread_local bool emu_default_is_per_thread; /* set by the _ptsz and _ptds entry points */
/* What a handle names: 0 is the default stream that the entry point says. */
CUresult emu_resolve_stream(CUstream *stream);
CUresult emu_make_stream(CUcontext context, unsigned flags, int priority, CUstream *stream);
void emu_drop_streams(CUcontext context);

/* ---- submit.c ---- */
/* Begin a submission to a stream: on success this process's and the device's locks are held, the queues have room for `ops`
 * pieces and `launches` launches, and the stream waits for what its default-stream rules say. */
CUresult emu_begin(CUstream stream, unsigned ops, unsigned launches, struct emu_device **device);
void emu_append_work(CUstream stream, struct emu_device *device, uint64_t unit_ns, uint64_t units, unsigned launches,
                     unsigned tally);
/* End it: note the stream's new end, let go of the locks. */
void emu_end(CUstream stream, struct emu_device *device);
/* Wait until piece `seq` of a stream, whose own work ends at `until_ns`, is done. */
CUresult emu_wait(CUcontext context, unsigned stream, uint64_t seq, uint64_t until_ns);
bool emu_done(CUcontext context, unsigned stream, uint64_t seq);
CUresult emu_wait_stream(CUstream stream);

/* ---- event.c ---- */
/* Record an event behind what a stream has queued. Inside emu_begin and emu_end. */
void emu_append_record(CUstream stream, struct emu_device *device, CUevent event);

/* ---- host.c ---- */
/* Run `function` in stream order, on this process's callback thread. `owned`: freed with free() afterwards. */
typedef void (*emu_host_function)(void *data);
CUresult emu_submit_host_function(CUstream stream, emu_host_function function, void *data);
/* Inside emu_begin and emu_end. */
CUresult emu_append_host(CUstream stream, struct emu_device *device, emu_host_function function, void *data);
/* True if host functions are queued in this context, so that what follows them cannot be done ahead of its time. */
bool emu_host_pending(CUcontext context);
bool emu_host_pending_on(unsigned device);
void emu_drop_host_functions(CUcontext context);
bool emu_on_callback_thread(void);

/* ---- module.c ---- */
CUresult emu_kernel_of(CUfunction function, struct emu_kernel **kernel);

/* ---- memory.c ---- */
enum emu_kind { EMU_DEVICE_MEMORY, EMU_MANAGED_MEMORY, EMU_HOST_MEMORY, EMU_REGISTERED_MEMORY, EMU_MAPPED_MEMORY, EMU_GRAPH_MEMORY };
struct emu_range {
  uintptr_t base;
  size_t bytes;
  enum emu_kind kind;
  CUcontext context;
  unsigned device; /* on the machine */
  int ordinal;
  uint64_t charged, id;
  unsigned flags;
  CUmemoryPool pool;
};
/* The range that holds all of [at, at + bytes), or NULL. Inside emu_lock. */
struct emu_range *emu_find_range(uintptr_t at, size_t bytes);
bool emu_add_range(const struct emu_range *range);
void emu_remove_range(struct emu_range *range);
/* Take memory from a device, or CUDA_ERROR_OUT_OF_MEMORY. Inside emu_lock. */
CUresult emu_charge(unsigned device, uint64_t bytes);
void emu_discharge(unsigned device, uint64_t bytes);
/* Address space that takes host memory only where it is touched; NULL when there is none. */
void *emu_reserve_bytes(size_t bytes, size_t alignment);
void emu_forget_bytes(void *at, size_t bytes);
CUresult emu_allocate(CUcontext context, int ordinal, size_t bytes, enum emu_kind kind, unsigned flags, CUmemoryPool pool,
                      CUdeviceptr *at);
/* Free what was allocated at `at`, with no waiting. Inside emu_lock. */
CUresult emu_free(CUdeviceptr at);
void emu_pool_returned(CUmemoryPool pool, size_t bytes); /* (pool.c) */
void emu_drop_ranges(CUcontext context);

/* ---- copy.c ---- */
/* One move of bytes: rows of a box, or a pattern when `source` is NULL. */
struct emu_move {
  char *target;
  const char *source;
  size_t width, height, depth, target_pitch, source_pitch, target_slice, source_slice;
  uint32_t pattern;
  unsigned pattern_bytes;
  uint64_t duration_ns;
};
void emu_carry_out(const struct emu_move *move);
CUresult emu_append_move(CUstream stream, struct emu_device *device, const struct emu_move *move, unsigned launches);
CUresult emu_copy_box(const CUDA_MEMCPY3D *copy, CUstream stream, bool wait);
CUresult emu_copy_line(CUmemorytype to, CUdeviceptr target, CUmemorytype from, CUdeviceptr source, size_t bytes,
                       CUstream stream, bool wait);
CUresult emu_plan_copy(const CUDA_MEMCPY3D *copy, struct emu_move *move);
CUresult emu_plan_set(CUdeviceptr at, size_t pitch, uint32_t value, unsigned bytes, size_t width, size_t height,
                      struct emu_move *move);

#endif
