/* Launches kernels through one way of finding the driver's functions: routes ROUTE COUNT. Says "ready", then each launch. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef cuGetProcAddress
#undef cuLaunchKernel

#define CHECK(call)                                            \
  do {                                                         \
    int result = (int)(call);                                  \
    if (result) {                                              \
      fprintf(stderr, "%s: %d\n", #call, result);              \
      exit(1);                                                 \
    }                                                          \
  } while (0)

typedef CUresult (*launch_function)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    CUstream, void **, void **);
typedef CUresult (*lookup_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*lookup_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

#ifdef OLD_DLSYM
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
#endif

static void *driver;
static lookup_v2 ask;
static const char *route;

/* Everything comes by the route, as far as it can. */
static void *find(const char *name, const char *symbol, int version) {
  void *found = NULL;
  if (strcmp(route, "dlsym") == 0) found = dlsym(driver, symbol);
  else if (strcmp(route, "default") == 0) found = dlsym(RTLD_DEFAULT, symbol);
  else if (strcmp(route, "self") == 0) found = dlsym(dlopen(NULL, RTLD_LAZY), symbol);
  else if (strcmp(route, "dlsym-of-libc") == 0) {
    void *(*other)(void *, const char *) = (void *(*)(void *, const char *))dlsym(dlopen("libc.so.6", RTLD_LAZY), "dlsym");
    found = other(driver, symbol);
  } else if (strcmp(route, "v1") == 0) {
    CHECK(((lookup_v1)dlsym(driver, "cuGetProcAddress"))(name, &found, version, 0));
  } else {
    int flags = strstr(route, "ptsz") ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUdriverProcAddressQueryResult status;
    CHECK(ask(name, &found, version, flags, &status));
  }
  if (!found) {
    fprintf(stderr, "no %s\n", symbol);
    exit(1);
  }
  return found;
}

int main(int argc, char **argv) {
  route = argc > 1 ? argv[1] : "v2";
  int count = argc > 2 ? atoi(argv[2]) : 1;
  driver = dlopen("libcuda.so.1", RTLD_LAZY | (strcmp(route, "default") && strcmp(route, "self") ? RTLD_LOCAL : RTLD_GLOBAL));
  if (!driver) return fprintf(stderr, "%s\n", dlerror()), 1;
  ask = (lookup_v2)dlsym(driver, "cuGetProcAddress_v2");
  if (strcmp(route, "v2-by-v2") == 0) CHECK(ask("cuGetProcAddress", (void **)&ask, 12000, 0, NULL));

  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CHECK(((CUresult(*)(unsigned))find("cuInit", "cuInit", 2000))(0));
  CHECK(((CUresult(*)(CUdevice *, int))find("cuDeviceGet", "cuDeviceGet", 2000))(&device, 0));
  CHECK(((CUresult(*)(CUcontext *, CUdevice))find("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000))(&context, device));
  CHECK(((CUresult(*)(CUcontext))find("cuCtxSetCurrent", "cuCtxSetCurrent", 4000))(context));
  CHECK(((CUresult(*)(CUmodule *, const void *))find("cuModuleLoadData", "cuModuleLoadData", 2000))(&module, "kernel k_10us 10us"));
  CHECK(((CUresult(*)(CUfunction *, CUmodule, const char *))find("cuModuleGetFunction", "cuModuleGetFunction", 2000))(&function, module, "k_10us"));
  launch_function launch = (launch_function)find("cuLaunchKernel", "cuLaunchKernel", strstr(route, "ptsz") ? 7000 : 4000);
  printf("[\"ready\"]\n");
  fflush(stdout);
  if (getchar() == EOF) return 1;
  for (int k = 0; k < count; k++) {
    CHECK(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    printf("[%d]\n", k + 1);
    fflush(stdout);
  }
  return 0;
}
