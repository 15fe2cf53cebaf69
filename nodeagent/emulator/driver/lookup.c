/* cuGetProcAddress, and errors in words. The tables come from NVIDIA's headers at build time (native_symbols.py). */
#include <string.h>

#include "driver.h"

struct emu_symbol {
  const char *name; /* as asked for: without a version */
  int version;      /* the CUDA version that brought it */
  bool per_thread;  /* for the per-thread default stream */
  void (*address)(void);
};
extern const struct emu_symbol emu_symbols[];
extern const unsigned emu_symbol_count;

struct emu_error {
  CUresult code;
  const char *name;
};
extern const struct emu_error emu_errors[];
extern const unsigned emu_error_count;

/* The newest of a name up to a version; `exists` says if there is any. Sorted by name, then version. */
static const struct emu_symbol *find(const char *name, int version, bool per_thread, bool *exists) {
  const struct emu_symbol *best = NULL;
  for (unsigned index = 0; index < emu_symbol_count; index++) {
    const struct emu_symbol *symbol = &emu_symbols[index];
    if (symbol->per_thread != per_thread || strcmp(symbol->name, name) != 0) continue;
    *exists = true;
    if (symbol->version <= version) best = symbol;
  }
  return best;
}

/* All versions of cuGetProcAddress (older.c) come here. Needs no initialised driver, like the real one. */
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status) {
  const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!symbol || !function || flags & ~known || flags == known) return CUDA_ERROR_INVALID_VALUE;
  bool exists = false;
  const struct emu_symbol *found = NULL;
  if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) found = find(symbol, version, true, &exists);
  if (!found) found = find(symbol, version, false, &exists);
  *function = found ? (void *)(uintptr_t)found->address : NULL;
  if (status)
    *status = found    ? CU_GET_PROC_ADDRESS_SUCCESS
              : exists ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  /* With a place for the reason, the call itself succeeds. */
  return found || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* The private tables of the real driver cannot be offered honestly. */
CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *id) {
  (void)id;
  if (!table) return CUDA_ERROR_INVALID_VALUE;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}

static const char *name_of(CUresult code) {
  for (unsigned index = 0; index < emu_error_count; index++)
    if (emu_errors[index].code == code) return emu_errors[index].name;
  return NULL;
}

CUresult CUDAAPI cuGetErrorName(CUresult code, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = name_of(code);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const struct emu_error explanations[] = {
    {CUDA_SUCCESS, "no error"},
    {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "no emulated GPU here: create one with python -m pillion_node.emulator create"},
    {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "device not ready"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"},
    {CUDA_ERROR_NOT_SUPPORTED, "not modelled by the emulated GPU"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the emulated machine was made by another version of this library"},
};

CUresult CUDAAPI cuGetErrorString(CUresult code, const char **text) {
  CUresult result = cuGetErrorName(code, text);
  if (result != CUDA_SUCCESS) return result;
  for (unsigned index = 0; index < sizeof explanations / sizeof *explanations; index++)
    if (explanations[index].code == code) *text = explanations[index].name;
  return CUDA_SUCCESS;
}
