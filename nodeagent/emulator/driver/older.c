/* Earlier versions of calls, in terms of the present ones. */
#define __CUDA_API_VERSION_INTERNAL
#include "driver.h"

#undef cuCtxCreate
#undef cuEventElapsedTime
#undef cuGetProcAddress
#undef cuStreamGetCaptureInfo
#undef cuGraphAddNode
#undef cuGraphInstantiate
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v4(context, NULL, flags, device);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags,
                                CUdevice device) {
  if (count < 0 || (count && !affinity)) return CUDA_ERROR_INVALID_VALUE;
  CUctxCreateParams parameters = {.execAffinityParams = affinity, .numExecAffinityParams = count};
  return cuCtxCreate_v4(context, count ? &parameters : NULL, flags, device);
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **nodes, size_t *count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, count);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t room) {
  return cuGraphInstantiate_v2(exec, graph, error_node, log, room);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t room) {
  if (error_node) *error_node = NULL;
  if (log && room) *log = 0;
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                CUgraphNodeParams *parameters) {
  return cuGraphAddNode_v2(node, graph, before, NULL, count, parameters);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  return cuGraphNodeGetDependencies_v2(node, nodes, NULL, count);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}
