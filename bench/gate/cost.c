/* Times launches through the gate and past it, by turns in one process: cost REPETITIONS LAUNCHES PER_SYNC.
 * Prints pairs of nanoseconds per launch: past the gate, through it. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef CUresult (*launch_function)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    CUstream, void **, void **);

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double time_launches(launch_function volatile launch, CUresult (*synchronise)(void), long count, long per_sync) {
  double before = now_ns();
  for (long k = 0; k < count; k++) {
    launch((CUfunction)1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (per_sync && k % per_sync == per_sync - 1) synchronise();
  }
  return (now_ns() - before) / (double)count;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  long repetitions = atol(argv[1]), count = atol(argv[2]), per_sync = atol(argv[3]);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return fprintf(stderr, "%s\n", dlerror()), 1;
  launch_function plain = (launch_function)dlsym(driver, "plain_launch");
  launch_function gated = (launch_function)dlsym(driver, "cuLaunchKernel");
  CUresult (*synchronise)(void) = (CUresult(*)(void))dlsym(driver, "cuCtxSynchronize");
  ((CUresult(*)(unsigned))dlsym(driver, "cuInit"))(0);
  puts("ready");
  fflush(stdout);
  if (getchar() == EOF) return 1;
  for (long k = -1; k < repetitions; k++) { /* the first one warms up */
    double past = time_launches(plain, synchronise, count, per_sync);
    double through = time_launches(gated, synchronise, count, per_sync);
    if (k >= 0) printf("%.3f %.3f\n", past, through);
  }
  return 0;
}
