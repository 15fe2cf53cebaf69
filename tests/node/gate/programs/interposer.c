/* Another preloaded library: counts what passes its dlopen, and passes it on to whoever comes next. */
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((visibility("default"))) void *dlopen(const char *name, int flags) {
  void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
  if (!next || next == dlopen) abort();
  setenv("INTERPOSED", "yes", 1);
  return next(name, flags);
}
