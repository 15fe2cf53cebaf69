/* A step on the GPU: workload KERNEL LAUNCHES PAUSE_NS SECONDS [GRAPH_NODES]
 * Bursts of LAUNCHES kernels, each burst waited for, then a pause without work; PAUSE_NS 0: no pauses, always one burst
 * ahead. KERNEL is like k_500us. With GRAPH_NODES a launch is a graph of that many kernels. Says how many launches it made. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define CHECK(call)                               \
  do {                                            \
    int result = (int)(call);                     \
    if (result) {                                 \
      fprintf(stderr, "%s: %d\n", #call, result); \
      exit(1);                                    \
    }                                             \
  } while (0)

static long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  const char *name = argv[1];
  long launches = atol(argv[2]), pause_ns = atol(argv[3]), nodes = argc > 5 ? atol(argv[5]) : 0, made = 0;
  char image[128];
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUstream stream;
  CUgraphExec exec = NULL;
  snprintf(image, sizeof image, "kernel %s %s", name, strchr(name, '_') + 1);
  prctl(PR_SET_TIMERSLACK, 1000);
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, image));
  CHECK(cuModuleGetFunction(&function, module, name));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (nodes) {
    CUgraph graph;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (long k = 0; k < nodes; k++) CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  }
  puts("ready");
  fflush(stdout);
  if (getchar() == EOF) return 1;
  long end_ns = now_ns() + (long)(atof(argv[4]) * 1e9);
  while (now_ns() < end_ns) {
    for (long k = 0; k < launches; k++, made++) {
      if (exec) CHECK(cuGraphLaunch(exec, stream));
      else CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    }
    CHECK(cuStreamSynchronize(stream));
    long until_ns = now_ns() + pause_ns;
    struct timespec rest = {.tv_nsec = pause_ns > 100000 ? pause_ns - 100000 : 0};
    if (pause_ns) nanosleep(&rest, NULL);
    while (pause_ns && now_ns() < until_ns) continue;
  }
  printf("%ld\n", made);
  return 0;
}
