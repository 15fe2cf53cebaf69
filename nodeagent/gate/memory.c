/* The tenant's memory quota: what this process holds, in a table to give it back by, and in its slot of the ledger.
 *
 * Bytes are taken before the driver is asked and given back when it refuses, so that two threads or processes cannot both
 * take the last ones. Sizes are as asked for; what a driver adds by rounding is not counted.
 */
#include <stdlib.h>
#include <string.h>

#include "gate.h"

static const uint64_t largest = (uint64_t)1 << 48; /* no card has more: the driver will refuse it */
enum { FEWEST_PLACES = 256, PRIMARY_CONTEXTS = 64 };

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gate_block *blocks; /* open addressing; key 0: free */
static size_t places, used;
static CUcontext primary[PRIMARY_CONTEXTS];

static struct pillion_ledger alone;
static struct pillion_ledger *_Atomic ledger = &alone;
static _Atomic unsigned own_slot;
static _Atomic uint64_t own_bytes;

static void add(uint64_t bytes) {
  atomic_fetch_add(&own_bytes, bytes);
  gate_note(&atomic_load(&ledger)->bytes[own_slot], own_bytes);
}
static void take_away(uint64_t bytes) { add(0 - bytes); }

uint64_t gate_memory_bytes(void) { return own_bytes; }

static uint64_t tenant_bytes(void) {
  struct pillion_ledger *shared = ledger;
  uint64_t sum = 0, slots = atomic_load_explicit((_Atomic uint64_t *)&shared->slots, memory_order_relaxed);
  if (slots > PILLION_LEDGER_SLOTS) slots = PILLION_LEDGER_SLOTS;
  for (unsigned k = 0; k < slots; k++)
    if (k != own_slot) sum += atomic_load_explicit((_Atomic uint64_t *)&shared->bytes[k], memory_order_relaxed);
  return sum + own_bytes;
}

static uint64_t quota(void) {
  return atomic_load_explicit((_Atomic uint64_t *)&gate_lease.lease.memory_quota_bytes, memory_order_relaxed);
}

void gate_ledger_joined(struct pillion_ledger *shared, unsigned slot) {
  pthread_mutex_lock(&memory_lock);
  own_slot = slot;
  ledger = shared;
  add(0);
  pthread_mutex_unlock(&memory_lock);
}

void gate_memory_after_fork(void) {
  pthread_mutex_init(&memory_lock, NULL);
  if (blocks) memset(blocks, 0, places * sizeof *blocks); /* the parent's */
  used = 0;
  own_bytes = 0;
  own_slot = 0;
  ledger = &alone;
  memset(primary, 0, sizeof primary);
}

/* Take bytes from the quota. Under memory_lock, so that this process's threads do not refuse each other by turns. */
static bool take(uint64_t bytes) {
  uint64_t limit = quota();
  if (bytes > largest) return !limit;
  add(bytes);
  if (!limit || tenant_bytes() <= limit) return true;
  take_away(bytes);
  struct pillion_client *client = gate_client;
  gate_count(&client->denied_allocations, 1);
  gate_note(&client->denied_bytes, bytes);
  return false;
}

bool gate_reserve(struct gate_room *room, uint64_t bytes) {
  *room = (struct gate_room){.bytes = bytes > largest ? 0 : bytes, .ours = !gate_inside};
  if (!room->ours) return true;
  pthread_mutex_lock(&memory_lock);
  bool granted = take(bytes);
  pthread_mutex_unlock(&memory_lock);
  if (granted) gate_inside++;
  return granted;
}

bool gate_extend(struct gate_room *room, uint64_t bytes) {
  if (!room->ours || bytes <= room->bytes) return true;
  pthread_mutex_lock(&memory_lock);
  bool granted = take(bytes - room->bytes);
  pthread_mutex_unlock(&memory_lock);
  if (granted) room->bytes = bytes;
  return granted;
}

/* ---- the table ---- */

static size_t place_of(enum gate_kind kind, uint64_t key) { return gate_mix(key * 8 + kind) & (places - 1); }

static struct gate_block *find(enum gate_kind kind, uint64_t key) {
  if (!places || !key) return NULL;
  for (size_t k = place_of(kind, key); blocks[k].key; k = (k + 1) & (places - 1))
    if (blocks[k].key == key && blocks[k].kind == kind) return &blocks[k];
  return NULL;
}

static bool insert(const struct gate_block *block);

static bool grow(void) {
  size_t before = places;
  struct gate_block *old = blocks, *fresh = calloc(before ? 2 * before : FEWEST_PLACES, sizeof *fresh);
  if (!fresh) return false;
  blocks = fresh;
  places = before ? 2 * before : FEWEST_PLACES;
  used = 0;
  for (size_t k = 0; k < before; k++)
    if (old[k].key) insert(&old[k]);
  free(old);
  return true;
}

static bool insert(const struct gate_block *block) {
  if (used * 2 >= places && !grow()) return false;
  size_t k = place_of(block->kind, block->key);
  while (blocks[k].key) k = (k + 1) & (places - 1);
  blocks[k] = *block;
  used++;
  return true;
}

static void erase(struct gate_block *block) {
  size_t hole = (size_t)(block - blocks);
  for (size_t k = (hole + 1) & (places - 1); blocks[k].key; k = (k + 1) & (places - 1)) {
    size_t home = place_of(blocks[k].kind, blocks[k].key);
    if (((k - home) & (places - 1)) < ((k - hole) & (places - 1))) continue; /* it is where it can be found */
    blocks[hole] = blocks[k];
    hole = k;
  }
  blocks[hole] = (struct gate_block){0};
  used--;
}

void gate_settle(struct gate_room *room, enum gate_kind kind, uint64_t key) {
  if (!room->ours) return;
  gate_inside--;
  if (!key) {
    take_away(room->bytes);
    return;
  }
  struct gate_block block = {.key = key, .bytes = room->bytes, .kind = kind, .handles = 1};
  if (gate_own.context_get) gate_own.context_get(&block.context);
  pthread_mutex_lock(&memory_lock);
  struct gate_block *stale = find(kind, key);
  if (stale) { /* given back behind our back */
    take_away(stale->bytes);
    erase(stale);
  }
  if (room->bytes && !insert(&block)) take_away(room->bytes); /* no host memory to remember it by */
  pthread_mutex_unlock(&memory_lock);
}

struct gate_block gate_forget(enum gate_kind kind, uint64_t key) {
  struct gate_block block = {0};
  if (gate_inside) return block;
  pthread_mutex_lock(&memory_lock);
  struct gate_block *found = find(kind, key);
  if (found) {
    block = *found;
    take_away(block.bytes);
    erase(found);
  }
  pthread_mutex_unlock(&memory_lock);
  return block;
}

void gate_remember(const struct gate_block *block) {
  if (!block->key) return;
  pthread_mutex_lock(&memory_lock);
  if (insert(block)) add(block->bytes);
  pthread_mutex_unlock(&memory_lock);
}

static void forget_where(bool (*wanted)(const struct gate_block *, uint64_t), uint64_t of) {
  pthread_mutex_lock(&memory_lock);
  for (size_t k = 0; k < places;) {
    if (!blocks[k].key || !wanted(&blocks[k], of)) {
      k++;
      continue;
    }
    take_away(blocks[k].bytes);
    erase(&blocks[k]); /* which may move another one here */
  }
  pthread_mutex_unlock(&memory_lock);
}

/* ---- physical memory by handle: it lives while a handle or a mapping does ---- */

static void drop_if_unused(struct gate_block *block) {
  if (block->handles || block->mappings) return;
  take_away(block->bytes);
  erase(block);
}

void gate_handle_released(uint64_t handle) {
  pthread_mutex_lock(&memory_lock);
  struct gate_block *block = find(GATE_HANDLE, handle);
  if (block && block->handles) {
    block->handles--;
    drop_if_unused(block);
  }
  pthread_mutex_unlock(&memory_lock);
}

void gate_handle_retained(uint64_t handle) {
  pthread_mutex_lock(&memory_lock);
  struct gate_block *block = find(GATE_HANDLE, handle);
  if (block) block->handles++;
  pthread_mutex_unlock(&memory_lock);
}

void gate_handle_mapped(uint64_t handle, CUdeviceptr at, size_t bytes) {
  (void)bytes;
  pthread_mutex_lock(&memory_lock);
  struct gate_block *block = find(GATE_HANDLE, handle);
  struct gate_block mapping = {.key = at, .kind = GATE_MAPPING, .of = handle};
  if (block) {
    block->mappings++;
    insert(&mapping);
  }
  pthread_mutex_unlock(&memory_lock);
}


void gate_handle_unmapped(CUdeviceptr at, size_t bytes) {
  pthread_mutex_lock(&memory_lock);
  for (size_t k = 0; k < places;) {
    struct gate_block mapping = blocks[k];
    if (mapping.kind != GATE_MAPPING || !mapping.key || mapping.key - at >= bytes) {
      k++;
      continue;
    }
    erase(&blocks[k]);
    struct gate_block *block = find(GATE_HANDLE, mapping.of);
    if (block && block->mappings) {
      block->mappings--;
      drop_if_unused(block);
    }
    k = 0; /* erasing moves entries about */
  }
  pthread_mutex_unlock(&memory_lock);
}

/* ---- sizes ---- */

uint64_t gate_created_bytes(uint64_t bytes, const CUmemAllocationProp *properties) {
  return properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? bytes : 0;
}

static uint64_t bits_of(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 8;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 16;
    default: return 32; /* as wide as a plain channel gets */
  }
}

uint64_t gate_array_bytes_of(size_t width, size_t height, size_t depth, CUarray_format format, unsigned channels,
                             unsigned flags, unsigned levels) {
  if (flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) return 0; /* no memory of its own */
  uint64_t texel = bits_of(format) / 8 * (channels ? channels : 1), sum = 0;
  for (unsigned level = 0; level < levels && level < 32; level++) {
    uint64_t bytes = gate_times3(width ? width : 1, height ? height : 1, gate_times(depth ? depth : 1, texel));
    if (bytes > largest || sum > largest) return UINT64_MAX;
    sum += bytes;
    width /= 2, height /= 2;
    if (!(flags & CUDA_ARRAY3D_LAYERED)) depth /= 2;
  }
  return sum;
}

void gate_tell_memory(size_t *left, size_t *all) {
  uint64_t limit = quota();
  if (!limit) return;
  uint64_t taken = tenant_bytes(), rest = taken < limit ? limit - taken : 0;
  if (*all > limit) *all = limit;
  if (*left > rest) *left = rest;
}

/* ---- what takes memory with it ---- */

static bool is_in_context(const struct gate_block *block, uint64_t context) {
  return (block->kind == GATE_POINTER || block->kind == GATE_ARRAY) && (uintptr_t)block->context == context;
}

static bool is_of_graph(const struct gate_block *block, uint64_t graph) {
  return block->kind == GATE_POINTER && block->of == graph;
}

void gate_context_going(CUcontext context) {
  gate_activity_context_going(context);
  pthread_mutex_lock(&gate_lock);
  gate_flight_context_gone(context);
  pthread_mutex_unlock(&gate_lock);
}

void gate_context_gone(CUcontext context) {
  if (context) forget_where(is_in_context, (uintptr_t)context);
}

void gate_primary_context(CUdevice device, CUcontext context) {
  pthread_mutex_lock(&memory_lock);
  if (device >= 0 && device < PRIMARY_CONTEXTS) primary[device] = context;
  pthread_mutex_unlock(&memory_lock);
}

void gate_primary_released(CUdevice device, bool reset) {
  unsigned flags;
  int active = 1;
  if (device < 0 || device >= PRIMARY_CONTEXTS || !gate_own.primary_state) return;
  if (!reset && (gate_own.primary_state(device, &flags, &active) != CUDA_SUCCESS || active)) return;
  pthread_mutex_lock(&memory_lock);
  CUcontext context = primary[device];
  primary[device] = NULL;
  pthread_mutex_unlock(&memory_lock);
  if (!context) return;
  pthread_mutex_lock(&gate_lock);
  gate_flight_context_gone(context);
  pthread_mutex_unlock(&gate_lock);
  gate_context_gone(context);
}

void gate_owned_by_graph(uint64_t key, CUgraph graph) {
  pthread_mutex_lock(&memory_lock);
  struct gate_block *block = find(GATE_POINTER, key);
  if (block) block->of = (uintptr_t)graph;
  pthread_mutex_unlock(&memory_lock);
}

void gate_graph_gone(CUgraph graph) {
  if (graph) forget_where(is_of_graph, (uintptr_t)graph);
}
