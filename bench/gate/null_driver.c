/* A libcuda.so.1 whose calls cost nothing, so that what remains is the gate. `plain_launch` is cuLaunchKernel, ungated. */
#include <cuda.h>

#define SHOWN __attribute__((visibility("default"), noinline))
static volatile unsigned long launches;

SHOWN CUresult plain_launch(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                            CUstream s, void **p, void **x) {
  (void)f, (void)a, (void)b, (void)c, (void)d, (void)e, (void)g, (void)h, (void)s, (void)p, (void)x;
  launches++;
  return CUDA_SUCCESS;
}
SHOWN CUresult cuLaunchKernel(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                              CUstream s, void **p, void **x) {
  (void)f, (void)a, (void)b, (void)c, (void)d, (void)e, (void)g, (void)h, (void)s, (void)p, (void)x;
  launches++;
  return CUDA_SUCCESS;
}
SHOWN CUresult cuInit(unsigned flags) { return (CUresult)(flags * 0); }
SHOWN CUresult cuCtxSynchronize(void) { return CUDA_SUCCESS; }
SHOWN CUresult cuCtxGetCurrent(CUcontext *context) { return *context = (CUcontext)(void *)&launches, CUDA_SUCCESS; }
SHOWN CUresult cuEventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  return *event = (CUevent)(void *)&launches, CUDA_SUCCESS;
}
SHOWN CUresult cuEventRecord(CUevent event, CUstream stream) { return (void)event, (void)stream, CUDA_SUCCESS; }
SHOWN CUresult cuEventQuery(CUevent event) { return (void)event, CUDA_SUCCESS; }
SHOWN CUresult cuEventElapsedTime_v2(float *ms, CUevent a, CUevent b) { return (void)a, (void)b, *ms = 0.01f, CUDA_SUCCESS; }
#undef cuEventElapsedTime
SHOWN CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return (void)a, (void)b, *ms = 0.01f, CUDA_SUCCESS; }
