/* Launches kernels as a program that is linked against the driver: linked COUNT. Also with per-thread default streams. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                               \
  do {                                            \
    int result = (int)(call);                     \
    if (result) {                                 \
      fprintf(stderr, "%s: %d\n", #call, result); \
      exit(1);                                    \
    }                                             \
  } while (0)

int main(int argc, char **argv) {
  int count = argc > 2 ? atoi(argv[2]) : 1;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, "kernel k_10us 10us"));
  CHECK(cuModuleGetFunction(&function, module, "k_10us"));
  printf("[\"ready\"]\n");
  fflush(stdout);
  if (getchar() == EOF) return 1;
  for (int k = 0; k < count; k++) {
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    printf("[%d]\n", k + 1);
    fflush(stdout);
  }
  return 0;
}
