/* The real driver calls behind the entry points. Nothing here loads a driver: if the program has not, there is none. */
#include <dlfcn.h>

#include "gate.h"
#include "loaded.h"

#define DRIVER "libcuda.so.1"
#define MANAGEMENT "libnvidia-ml.so.1"

void *gate_real[GATE_SYMBOLS];
struct gate_own gate_own;

static pthread_mutex_t bind_lock = PTHREAD_MUTEX_INITIALIZER;
static void *_Atomic driver, *_Atomic management;

static bool is_management(int index) { return index >= GATE_nvmlDeviceGetMemoryInfo; }

void *gate_library_of(int index) {
  void *_Atomic *library = is_management(index) ? &management : &driver;
  if (!*library) *library = gate_real_dlopen(is_management(index) ? MANAGEMENT : DRIVER, RTLD_NOLOAD | RTLD_LAZY);
  return *library;
}

static void find_own(void *from) {
  struct {
    void **place;
    const char *names[2];
  } const wanted[] = {
      {(void **)&gate_own.is_capturing, {"cuStreamIsCapturing"}},
      {(void **)&gate_own.exchange_mode, {"cuThreadExchangeStreamCaptureMode"}},
      {(void **)&gate_own.event_create, {"cuEventCreate"}},
      {(void **)&gate_own.event_destroy, {"cuEventDestroy_v2", "cuEventDestroy"}},
      {(void **)&gate_own.event_record, {"cuEventRecord"}},
      {(void **)&gate_own.event_query, {"cuEventQuery"}},
      {(void **)&gate_own.event_elapsed, {"cuEventElapsedTime"}},
      {(void **)&gate_own.context_get, {"cuCtxGetCurrent"}},
      {(void **)&gate_own.context_set, {"cuCtxSetCurrent"}},
      {(void **)&gate_own.context_synchronize, {"cuCtxSynchronize"}},
      {(void **)&gate_own.stream_query, {"cuStreamQuery"}},
      {(void **)&gate_own.graph_nodes, {"cuGraphGetNodes"}},
      {(void **)&gate_own.primary_state, {"cuDevicePrimaryCtxGetState"}},
      {(void **)&gate_own.mem_free, {"cuMemFree_v2", "cuMemFree"}},
  };
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
    *wanted[k].place = gate_real_dlsym(from, wanted[k].names[0]);
    if (!*wanted[k].place && wanted[k].names[1]) *wanted[k].place = gate_real_dlsym(from, wanted[k].names[1]);
  }
}

bool gate_bind(int index) {
  static _Atomic bool bound[2];
  int which = is_management(index);
  if (!bound[which]) {
    pthread_mutex_lock(&bind_lock);
    void *from = bound[which] ? NULL : gate_library_of(index);
    if (from) {
      for (int k = 0; k < GATE_SYMBOLS; k++)
        if (is_management(k) == which) gate_real[k] = gate_real_dlsym(from, gate_symbols[k].name);
      if (!which) find_own(from);
      bound[which] = true;
    }
    pthread_mutex_unlock(&bind_lock);
  }
  return gate_real[index] != NULL;
}

int gate_index_of(const char *name) {
  if (!loaded_begins(name, "cu") && !loaded_begins(name, "nvml")) return -1;
  int from = name[0] == 'n' ? GATE_nvmlDeviceGetMemoryInfo : 0;
  int to = name[0] == 'n' ? GATE_SYMBOLS : GATE_nvmlDeviceGetMemoryInfo;
  while (from < to) { /* each part is sorted by name */
    int middle = from + (to - from) / 2, order = loaded_compare(name, gate_symbols[middle].name);
    if (order == 0) return middle;
    if (order < 0) to = middle;
    else from = middle + 1;
  }
  return -1;
}
