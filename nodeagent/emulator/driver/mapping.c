/* Memory and addresses apart: handles of physical memory, ranges of addresses, and mappings of one at the other.
 *
 * A handle's memory counts against its device from cuMemCreate until the last of its handle and mappings goes. What is
 * mapped can be read and written at once: access rights are noted, not enforced.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "graph.h"

enum { GRANULARITY = 2 << 20 };

struct physical {
  struct physical *next;
  CUmemAllocationProp properties;
  size_t bytes;
  int file, references;
};

struct mapping {
  struct mapping *next;
  uintptr_t at;
  size_t bytes;
  struct physical *of;
};

struct reservation {
  struct reservation *next;
  uintptr_t at;
  size_t bytes;
};

static struct physical *all_physical;
static struct mapping *mappings;
static struct reservation *reservations;

static CUresult check_properties(const CUmemAllocationProp *properties) {
  if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return emu_not_modelled("physical memory that other processes share");
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return emu_not_modelled("physical memory on the host");
  return emu_check_device(properties->location.id);
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                               CUmemAllocationGranularity_flags option) {
  EMU_ENTER();
  if (!granularity || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) return CUDA_ERROR_INVALID_VALUE;
  *granularity = GRANULARITY;
  return check_properties(properties);
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                             unsigned long long flags) {
  EMU_ENTER();
  if (!handle || !bytes || bytes % GRANULARITY || flags) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_properties(properties);
  if (result != CUDA_SUCCESS) return result;
  struct physical *made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *made = (struct physical){.properties = *properties, .bytes = bytes, .references = 1};
  made->file = (int)syscall(SYS_memfd_create, "pillion-emulated-memory", 1 /* close on exec */);
  bool backed = made->file >= 0 && ftruncate(made->file, (off_t)bytes) == 0;
  emu_lock();
  result = backed ? emu_charge(emu_driver.devices[properties->location.id], bytes) : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) {
    made->next = all_physical;
    all_physical = made;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)made;
  }
  emu_unlock();
  if (result != CUDA_SUCCESS) {
    if (made->file >= 0) close(made->file);
    free(made);
  }
  return result;
}

/* Inside emu_lock. */
static struct physical *find_physical(CUmemGenericAllocationHandle handle) {
  struct physical *physical = all_physical;
  while (physical && (uintptr_t)physical != (uintptr_t)handle) physical = physical->next;
  return physical;
}

/* Inside emu_lock. */
static void drop_reference(struct physical *physical) {
  if (--physical->references) return;
  struct physical **link = &all_physical;
  while (*link != physical) link = &(*link)->next;
  *link = physical->next;
  emu_discharge(emu_driver.devices[physical->properties.location.id], physical->bytes);
  close(physical->file);
  free(physical);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  EMU_ENTER();
  emu_lock();
  struct physical *physical = find_physical(handle);
  if (physical) drop_reference(physical);
  emu_unlock();
  return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle) {
  EMU_ENTER();
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  struct physical *physical = find_physical(handle);
  if (physical) *properties = physical->properties;
  emu_unlock();
  return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                     unsigned long long flags) {
  EMU_ENTER();
  (void)wanted; /* a hint */
  if (!at || !bytes || bytes % 4096 || alignment & (alignment - 1) || flags) return CUDA_ERROR_INVALID_VALUE;
  struct reservation *made = malloc(sizeof *made);
  void *memory = emu_reserve_bytes(bytes, alignment > GRANULARITY ? alignment : GRANULARITY);
  if (!made || !memory || mprotect(memory, bytes, PROT_NONE)) {
    if (memory) emu_forget_bytes(memory, bytes);
    free(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  emu_lock();
  *made = (struct reservation){reservations, (uintptr_t)memory, bytes};
  reservations = made;
  emu_unlock();
  *at = (CUdeviceptr)(uintptr_t)memory;
  return CUDA_SUCCESS;
}

static bool is_mapped(uintptr_t at, size_t bytes) {
  for (struct mapping *mapping = mappings; mapping; mapping = mapping->next)
    if (mapping->at < at + bytes && at < mapping->at + mapping->bytes) return true;
  return false;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  EMU_ENTER();
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  for (struct reservation **link = &reservations; *link; link = &(*link)->next) {
    struct reservation *reservation = *link;
    if (reservation->at != at || reservation->bytes != bytes || is_mapped(at, bytes)) continue;
    *link = reservation->next;
    emu_forget_bytes((void *)at, bytes);
    free(reservation);
    result = CUDA_SUCCESS;
    break;
  }
  emu_unlock();
  return result;
}

static bool is_reserved(uintptr_t at, size_t bytes) {
  for (struct reservation *reservation = reservations; reservation; reservation = reservation->next)
    if (at >= reservation->at && at + bytes <= reservation->at + reservation->bytes) return true;
  return false;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  EMU_ENTER();
  if (flags || offset || !bytes || bytes % GRANULARITY) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  struct mapping *made = malloc(sizeof *made);
  emu_lock();
  struct physical *physical = find_physical(handle);
  if (made && physical && bytes <= physical->bytes && is_reserved(at, bytes) && !is_mapped(at, bytes)) {
    int ordinal = physical->properties.location.id;
    struct emu_range range = {.base = at, .bytes = bytes, .kind = EMU_MAPPED_MEMORY, .ordinal = ordinal,
                              .device = emu_driver.devices[ordinal]};
    void *where = mmap((void *)at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->file, 0);
    madvise((void *)at, bytes, MADV_DONTFORK);
    result = where != MAP_FAILED && emu_add_range(&range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    *made = (struct mapping){mappings, at, bytes, physical};
    mappings = made;
    physical->references++;
  }
  emu_unlock();
  if (result != CUDA_SUCCESS) free(made);
  return result;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr at, size_t bytes) {
  EMU_ENTER();
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  for (struct mapping **link = &mappings; *link;) { /* one call may take several mappings, but whole ones */
    struct mapping *mapping = *link;
    if (mapping->at < at || mapping->at + mapping->bytes > at + bytes) {
      link = &mapping->next;
      continue;
    }
    *link = mapping->next;
    void *hole = mmap((void *)mapping->at, mapping->bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    struct emu_range *range = emu_find_range(mapping->at, 1);
    if (range) emu_remove_range(range);
    drop_reference(mapping->of);
    free(mapping);
    result = hole == MAP_FAILED ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
  }
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *wanted, size_t count) {
  EMU_ENTER();
  if (!wanted || !count) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  bool mapped = is_mapped(at, bytes);
  emu_unlock();
  return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *at) {
  EMU_ENTER();
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  for (struct mapping *mapping = mappings; mapping; mapping = mapping->next) {
    if ((uintptr_t)at < mapping->at || (uintptr_t)at >= mapping->at + mapping->bytes) continue;
    mapping->of->references++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)mapping->of;
    result = CUDA_SUCCESS;
  }
  emu_unlock();
  return result;
}
