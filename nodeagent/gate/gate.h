/* The gate inside one process: what its parts offer each other and the generated entry points (surface.c).
 *
 *   surface.c  an entry point per driver call (generated)     lookup.c   hands them out wherever somebody asks for a symbol
 *   driver.c   the real calls behind them                      client.c   the socket, joining, the keeper thread, fork
 *   lease.c    what the agent allows, and waiting for it       submit.c   one submission, from the gate to its completion
 *   flight.c   what is on the GPU, and for how long            activity.c a high process's marks, and reading others'
 *   memory.c   the quota                                       graphs.c   what graphs hold
 *
 * Locks: gate_lock guards lease, submissions and flights; memory.c has one of its own. Neither is taken inside the other.
 */
#ifndef GATE_H
#define GATE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admit.h"
#include "pages.h"
#include "surface.h"

#define GATE_ENTRY __attribute__((visibility("default")))
#if defined(__x86_64__)
#define GATE_PAGE 4096
#else
#define GATE_PAGE 65536 /* the largest page an aarch64 kernel may use */
#endif

/* The lease, at a fixed place in this library so that the open gate needs no pointer: the agent's page is mapped over it. */
union gate_lease_page {
  struct pillion_lease lease;
  char room[GATE_PAGE];
};
extern union gate_lease_page gate_lease;

static inline bool gate_is_open(void) {
  return atomic_load_explicit((const _Atomic uint32_t *)&gate_lease.lease.open, memory_order_relaxed) != 0;
}

extern pthread_mutex_t gate_lock;

/* True while this thread is inside a driver call that passed the gate, or one of the gate's own: a driver that calls its
 * own entry points through the loader comes by here again. */
extern _Thread_local int gate_inside __attribute__((tls_model("initial-exec")));

uint64_t gate_now(void);

extern _Atomic uint32_t gate_tier; /* client.c */

/* A high process never waits: all that the gate does there is to note that it submits. */
static inline bool gate_only_marks(void) {
  return atomic_load_explicit(&gate_tier, memory_order_relaxed) == PILLION_HIGH && !gate_inside;
}

static inline void gate_count(uint64_t *counter, uint64_t by) {
  atomic_fetch_add_explicit((_Atomic uint64_t *)counter, by, memory_order_relaxed);
}
static inline void gate_note(uint64_t *word, uint64_t value) {
  atomic_store_explicit((_Atomic uint64_t *)word, value, memory_order_relaxed);
}
static inline void gate_note32(uint32_t *word, uint32_t value) {
  atomic_store_explicit((_Atomic uint32_t *)word, value, memory_order_seq_cst);
}

/* ---- driver.c ---- */
struct gate_symbol {
  const char *name;
  void *entry;
};
struct gate_name {
  const char *name;
  int version;
  bool per_thread;
  int index;
};
extern const struct gate_symbol gate_symbols[GATE_SYMBOLS];
extern const struct gate_name gate_names[];
extern void *gate_real[GATE_SYMBOLS];



/* Find the real calls. False: `index` is not among them. */
bool gate_bind(int index);
/* The index of a symbol by its name, or -1. */
int gate_index_of(const char *name);
/* The loaded driver library that a symbol belongs to, or NULL. Loads nothing. */
void *gate_library_of(int index);
/* Calls that the gate makes for itself. */
struct gate_own {
  CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus *);
  CUresult (*exchange_mode)(CUstreamCaptureMode *);
  CUresult (*event_create)(CUevent *, unsigned);
  CUresult (*event_destroy)(CUevent);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_query)(CUevent);
  CUresult (*event_elapsed)(float *, CUevent, CUevent);
  CUresult (*context_get)(CUcontext *);
  CUresult (*context_set)(CUcontext);
  CUresult (*context_synchronize)(void);
  CUresult (*stream_query)(CUstream);
  CUresult (*graph_nodes)(CUgraph, CUgraphNode *, size_t *);
  CUresult (*primary_state)(CUdevice, unsigned *, int *);
  CUresult (*mem_free)(CUdeviceptr);
};
extern struct gate_own gate_own;

/* ---- lookup.c ---- */
/* What to hand out instead of `found`, which the driver gave for a name, version and flags. */
void *gate_substitute(const char *name, void *found, int version, cuuint64_t flags);
/* The loader's own functions. */
void *gate_real_dlsym(void *handle, const char *name);
void *gate_real_dlopen(const char *name, int flags);
extern _Atomic uint64_t gate_unknown_lookups;

/* ---- client.c ---- */
/* Join the agent, if there is one. Once per process; a forked child does it again. */
void gate_join(void);
extern struct pillion_client *_Atomic gate_client; /* the client page, or a private one. Never unmapped */
/* Held by the keeper while it calls the driver, and by whoever takes away what it could be calling about. */
void gate_keeper_pause(void);
void gate_keeper_resume(void);
/* Wake the keeper thread early: somebody submits again. */
void gate_wake_keeper(void);
extern _Atomic bool gate_keeper_dozes;

/* ---- lease.c: all under gate_lock ---- */
struct gate_permit {
  bool may_submit;
  uint32_t cap;      /* 0: none */
  uint64_t until_ns; /* when to look again at the latest */
};
/* Read the lease again if it changed, and tell admission. */
struct gate_permit gate_look_at_lease(uint64_t now_ns);
extern bool gate_agent_lost; /* its socket hung up */
extern struct admit gate_admit;
bool gate_lease_is_whole(const struct pillion_lease *page);
void gate_lease_joined(void); /* another lease page was mapped */
extern bool gate_untracked;   /* the gate was open: what was submitted meanwhile is not known */
void gate_drained(uint64_t now_ns); /* nothing is in flight */
void gate_lease_after_fork(void);
/* Wait until `until_ns` or for news. Lets go of gate_lock meanwhile. */
void gate_wait(uint64_t until_ns, uint64_t now_ns);
void gate_pass_freely(void); /* no agent: open the private lease */

/* ---- submit.c ---- */
enum gate_mode { GATE_PASSES, GATE_HELD, GATE_WAITS };
struct gate_turn {
  struct admit_unit unit;
  CUstream stream;
  enum gate_mode mode;
  bool waits; /* the call returns when the work is done */
  bool nested;
  uint64_t ticket, began_ns;
};
static inline CUstream gate_stream(CUstream stream, bool per_thread) {
  if (stream) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}
struct gate_turn gate_unit_kernel(uintptr_t function, uint64_t grid, CUstream stream);
struct gate_turn gate_unit_graph(CUgraphExec exec, CUstream stream);
struct gate_turn gate_unit_copy(unsigned kind, uint64_t bytes, CUstream stream, bool waits);
bool gate_enter(struct gate_turn *turn, int index);
CUresult gate_leave(struct gate_turn *turn, CUresult result);
void gate_capture_begins(void);
void gate_capture_ended(void);
bool gate_is_capturing(CUstream stream);
extern _Atomic int gate_captures;
uint64_t gate_mix(uint64_t value);
/* Tells streams apart; a per-thread default stream is the thread's. */
uint32_t gate_stream_key(CUstream stream);
void gate_submit_after_fork(void);
void gate_tend(uint64_t now_ns); /* the keeper's part: reap, acknowledge */

static inline uint64_t gate_times(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
static inline uint64_t gate_times3(uint64_t a, uint64_t b, uint64_t c) { return gate_times(gate_times(a, b), c); }
static inline uint64_t gate_grid(unsigned x, unsigned y, unsigned z) {
  return gate_times3(x, y, z);
}
uint64_t gate_sum(const size_t *sizes, size_t count);
uint64_t gate_batch_bytes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count);
uint64_t gate_decompressed_bytes(const CUmemDecompressParams *parts, size_t count);
uint64_t gate_fabric_bytes(const CUDA_FABRIC_COPY_BATCH_OP *ops, size_t count);

/* ---- flight.c: under gate_lock ---- */
enum { GATE_FLIGHTS = ADMIT_IN_FLIGHT };
unsigned gate_flights(void);
/* Before a submission: a mark to measure from. After it: note it. */
void gate_flight_prepare(CUstream stream, uint32_t key);
void gate_flight_add(const struct gate_turn *turn, uint64_t submitted_ns);
/* Note what is complete; when the oldest that is not is expected to be. */
void gate_flight_reap(uint64_t now_ns);
uint64_t gate_flight_due(uint64_t now_ns);
void gate_flight_context_gone(CUcontext context);
void gate_flight_forget_all(void);

/* ---- activity.c ---- */
struct gate_seen {
  uint64_t upto[64];
  int line, lines; /* one line, or -1: the first `lines`, or -2: none */
};
struct gate_mark {
  int line; /* -1: nothing was noted */
  uint64_t upto;
};
struct gate_mark gate_activity_submit(CUstream stream);
CUresult gate_activity_done(struct gate_mark mark, CUresult result); /* of a call that returns when its work is done */
void gate_seen_all(struct gate_seen *seen);
void gate_seen_stream(struct gate_seen *seen, CUstream stream);
void gate_seen_event(struct gate_seen *seen, CUevent event);
void gate_seen_recorded(CUevent event, CUstream stream);
void gate_seen_done(const struct gate_seen *seen);
void gate_stream_going(CUstream stream);
void gate_activity_context_going(CUcontext context);
/* For programs that do not synchronise: true when it had to look. */
bool gate_activity_watch(uint64_t now_ns);
void gate_activity_page(struct pillion_activity *page);
void gate_activity_reset(void);
/* The activity pages of high steps that this process keeps out of the way of; under gate_lock. */
void gate_others_attach(unsigned which, const struct pillion_activity *page, uint64_t now_ns);
void gate_others_detach_all(uint64_t now_ns);
void gate_others_look(uint64_t now_ns);
void gate_others_forget_all(void);

/* ---- memory.c ---- */
enum gate_kind { GATE_POINTER = 1, GATE_ARRAY = 2, GATE_HANDLE = 3, GATE_MAPPING = 4 };
struct gate_room {
  uint64_t bytes;
  bool ours; /* false: inside another allocation */
};
struct gate_block {
  uint64_t key, bytes, of; /* `of`: the handle of a mapping, the graph of a node's memory */
  CUcontext context;
  enum gate_kind kind;
  uint32_t handles, mappings;
};
bool gate_reserve(struct gate_room *room, uint64_t bytes);
bool gate_extend(struct gate_room *room, uint64_t bytes);
void gate_settle(struct gate_room *room, enum gate_kind kind, uint64_t key);
struct gate_block gate_forget(enum gate_kind kind, uint64_t key);
void gate_remember(const struct gate_block *block);
void gate_handle_released(uint64_t handle);
void gate_handle_retained(uint64_t handle);
void gate_handle_mapped(uint64_t handle, CUdeviceptr at, size_t bytes);
void gate_handle_unmapped(CUdeviceptr at, size_t bytes);
uint64_t gate_created_bytes(uint64_t bytes, const CUmemAllocationProp *properties);
uint64_t gate_array_bytes_of(size_t width, size_t height, size_t depth, CUarray_format format, unsigned channels,
                             unsigned flags, unsigned levels);
#define gate_array_bytes(d) \
  ((d) ? gate_array_bytes_of((d)->Width, (d)->Height, 1, (d)->Format, (d)->NumChannels, 0, 1) : 0)
#define gate_array3d_bytes(d, levels) \
  ((d) ? gate_array_bytes_of((d)->Width, (d)->Height, (d)->Depth, (d)->Format, (d)->NumChannels, (d)->Flags, levels) : 0)
void gate_tell_memory(size_t *left, size_t *all);
void gate_context_going(CUcontext context);
void gate_context_gone(CUcontext context);
void gate_primary_context(CUdevice device, CUcontext context);
void gate_primary_released(CUdevice device, bool reset);
void gate_ledger_joined(struct pillion_ledger *ledger, unsigned slot);
void gate_memory_after_fork(void);
uint64_t gate_memory_bytes(void);

/* ---- graphs.c ---- */
void gate_graph_made(CUgraphExec exec, CUgraph graph);
void gate_graph_exec_gone(CUgraphExec exec);
void gate_graph_gone(CUgraph graph);
void gate_owned_by_graph(uint64_t key, CUgraph graph);
uint32_t gate_graph_nodes(CUgraphExec exec);

#endif
