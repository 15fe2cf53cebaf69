/* Memory that graphs allocate.
 *
 * An allocating node has its address from the start. Its device memory is taken by the first launch and kept, also after a
 * node or a call has freed it, until the device's graph memory is trimmed or the last graph with the node is gone.
 */
#include <stdlib.h>

#include "graph.h"

struct emu_graph_memory {
  struct emu_graph_memory *next;
  unsigned references;
  int ordinal;
  size_t bytes, charged;
  CUdeviceptr at;
};

static struct emu_graph_memory *all;
static cuuint64_t most[EMU_MAX_DEVICES];

CUresult emu_make_graph_memory(const CUmemPoolProps *properties, size_t bytes, struct emu_graph_memory **made) {
  if (!bytes || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return emu_not_modelled("memory of graphs that is not a device's own");
  CUresult result = emu_check_device(properties->location.id);
  if (result != CUDA_SUCCESS) return result;
  struct emu_graph_memory *memory = calloc(1, sizeof *memory);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = (struct emu_graph_memory){.next = all, .references = 1, .ordinal = properties->location.id, .bytes = bytes};
  memory->at = (CUdeviceptr)(uintptr_t)emu_reserve_bytes(bytes, 4096);
  struct emu_range range = {.base = memory->at, .bytes = bytes, .kind = EMU_GRAPH_MEMORY, .ordinal = memory->ordinal,
                            .device = emu_driver.devices[memory->ordinal]};
  if (!memory->at || !emu_add_range(&range)) {
    if (memory->at) emu_forget_bytes((void *)memory->at, bytes);
    free(memory);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  all = memory;
  *made = memory;
  return CUDA_SUCCESS;
}

CUdeviceptr emu_graph_memory_address(const struct emu_graph_memory *memory) { return memory->at; }

CUresult emu_check_graph_address(CUdeviceptr at) {
  emu_lock();
  struct emu_range *range = emu_find_range(at, 1);
  bool known = range && range->base == at && range->kind == EMU_GRAPH_MEMORY;
  emu_unlock();
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Inside emu_lock. */
static cuuint64_t reserved(int ordinal) {
  cuuint64_t bytes = 0;
  for (struct emu_graph_memory *memory = all; memory; memory = memory->next)
    if (memory->ordinal == ordinal) bytes += memory->charged;
  if (bytes > most[ordinal]) most[ordinal] = bytes;
  return bytes;
}

CUresult emu_use_graph_memory(struct emu_graph_memory *memory) {
  emu_lock();
  CUresult result = memory->charged ? CUDA_SUCCESS : emu_charge(emu_driver.devices[memory->ordinal], memory->bytes);
  if (result == CUDA_SUCCESS) memory->charged = memory->bytes;
  reserved(memory->ordinal);
  emu_unlock();
  return result;
}

void emu_keep_graph_memory(struct emu_graph_memory *memory) { __atomic_fetch_add(&memory->references, 1, __ATOMIC_ACQ_REL); }

void emu_drop_graph_memory(struct emu_graph_memory *memory) {
  if (__atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL)) return;
  emu_lock();
  if (memory->charged) emu_discharge(emu_driver.devices[memory->ordinal], memory->charged);
  struct emu_range *range = emu_find_range(memory->at, 1);
  if (range) emu_remove_range(range);
  /* Copies have been carried out when they were submitted, unless they are queued behind host functions. */
  if (!emu_host_pending_on(emu_driver.devices[memory->ordinal])) emu_forget_bytes((void *)memory->at, memory->bytes);
  struct emu_graph_memory **link = &all;
  while (*link != memory) link = &(*link)->next;
  *link = memory->next;
  emu_unlock();
  free(memory);
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  EMU_ENTER();
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  for (struct emu_graph_memory *memory = all; memory; memory = memory->next) {
    if (memory->ordinal != device || !memory->charged) continue;
    emu_discharge(emu_driver.devices[device], memory->charged);
    memory->charged = 0;
  }
  emu_unlock();
  return CUDA_SUCCESS;
}

/* What is reserved counts as used: nobody says here which launch's memory is free again. */
CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value) {
  EMU_ENTER();
  CUresult result = emu_check_device(device);
  if (result != CUDA_SUCCESS) return result;
  if (!value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  cuuint64_t now = reserved(device);
  bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  *(cuuint64_t *)value = high ? most[device] : now;
  emu_unlock();
  return CUDA_SUCCESS;
}
