/* Kernel launches in all their forms. */
#include "driver.h"
#include "graph.h"

enum { MOST_THREADS = 1024 };

static CUresult launch(const CUDA_KERNEL_NODE_PARAMS *parameters, CUstream stream) {
  EMU_ENTER();
  struct emu_kernel *kernel;
  CUresult result = emu_kernel_of(parameters->func, &kernel);
  if (result != CUDA_SUCCESS) return result;
  if (!parameters->gridDimX || !parameters->gridDimY || !parameters->gridDimZ || !parameters->blockDimX ||
      !parameters->blockDimY || !parameters->blockDimZ ||
      (uint64_t)parameters->blockDimX * parameters->blockDimY * parameters->blockDimZ > MOST_THREADS)
    return CUDA_ERROR_INVALID_VALUE;
  result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->capture) {
    struct emu_task task = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .context = stream->context, .kernel = *parameters};
    bool captured;
    return emu_capture_task(stream, &task, &captured);
  }
  struct emu_device *device;
  result = emu_begin(stream, 1, 1, &device);
  if (result != CUDA_SUCCESS) return result;
  emu_append_work(stream, device, kernel->duration_ns, 1, 1, EMU_TALLY_LAUNCH);
  emu_end(stream, device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                unsigned int shared_bytes, CUstream stream, void **arguments, void **extra) {
  (void)arguments, (void)extra;
  return launch(&(CUDA_KERNEL_NODE_PARAMS){.func = function,
                                           .gridDimX = grid_x,
                                           .gridDimY = grid_y,
                                           .gridDimZ = grid_z,
                                           .blockDimX = block_x,
                                           .blockDimY = block_y,
                                           .blockDimZ = block_z,
                                           .sharedMemBytes = shared_bytes},
                stream);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned index = 0; index < config->numAttrs; index++) {
    /* These two would release or hold other work in the middle of a kernel. */
    if (config->attrs[index].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
        config->attrs[index].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
      return emu_not_modelled("cuLaunchKernelEx with an event attribute");
  }
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, arguments, extra);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                           unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                           void **arguments) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, NULL);
}
