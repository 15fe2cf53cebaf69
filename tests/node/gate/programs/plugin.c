/* A library that uses the driver, for a program that loads it in unusual ways: linked against it, or by dlopen and dlsym. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

#define SHOWN __attribute__((visibility("default")))
typedef CUresult (*launch_function)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    CUstream, void **, void **);

static CUfunction function;

#ifdef BY_LOOKUP
static void *find(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name); }
#define CALL(name, type) ((type)find(name))
#else
#define CALL(name, type) ((type)(name))
#endif

SHOWN int plugin_prepare(void) {
  CUdevice device;
  CUcontext context;
  CUmodule module;
#ifdef BY_LOOKUP
  int result = (int)((CUresult(*)(unsigned))find("cuInit"))(0);
  result |= (int)((CUresult(*)(CUdevice *, int))find("cuDeviceGet"))(&device, 0);
  result |= (int)((CUresult(*)(CUcontext *, CUdevice))find("cuDevicePrimaryCtxRetain"))(&context, device);
  result |= (int)((CUresult(*)(CUcontext))find("cuCtxSetCurrent"))(context);
  result |= (int)((CUresult(*)(CUmodule *, const void *))find("cuModuleLoadData"))(&module, "kernel k_10us 10us");
  result |= (int)((CUresult(*)(CUfunction *, CUmodule, const char *))find("cuModuleGetFunction"))(&function, module, "k_10us");
  return result;
#else
  int result = (int)cuInit(0);
  result |= (int)cuDeviceGet(&device, 0);
  result |= (int)cuDevicePrimaryCtxRetain(&context, device);
  result |= (int)cuCtxSetCurrent(context);
  result |= (int)cuModuleLoadData(&module, "kernel k_10us 10us");
  result |= (int)cuModuleGetFunction(&function, module, "k_10us");
  return result;
#endif
}

SHOWN int plugin_launch(void) {
#ifdef BY_LOOKUP
  launch_function launch = (launch_function)find("cuLaunchKernel");
#else
  launch_function launch = cuLaunchKernel;
#endif
  return (int)launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}
