/* What nodes do: the calls that add one of each kind, and that read or change its parameters. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static CUresult context_or_current(CUcontext *context) { return emu_resolve_context(context); }

/* Turn the general description of a node into a task. */
CUresult emu_fill_task(CUgraphNodeParams *parameters, struct emu_task *task) {
  struct emu_kernel *kernel;
  CUresult result = CUDA_SUCCESS;
  *task = (struct emu_task){.type = parameters->type};
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      memcpy(&task->kernel, &parameters->kernel, sizeof task->kernel);
      if (!task->kernel.func) task->kernel.func = (CUfunction)task->kernel.kern;
      task->kernel.kern = NULL;
      task->context = task->kernel.ctx;
      result = emu_kernel_of(task->kernel.func, &kernel);
      if (result != CUDA_SUCCESS) return result;
      if (!task->kernel.gridDimX || !task->kernel.gridDimY || !task->kernel.gridDimZ || !task->kernel.blockDimX ||
          !task->kernel.blockDimY || !task->kernel.blockDimZ)
        return CUDA_ERROR_INVALID_VALUE;
      return context_or_current(&task->context);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      task->copy = parameters->memcpy.copyParams;
      task->context = parameters->memcpy.copyCtx;
      result = context_or_current(&task->context);
      return result == CUDA_SUCCESS ? emu_plan_copy(&task->copy, &task->move) : result;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      memcpy(&task->set, &parameters->memset, sizeof task->set);
      task->context = parameters->memset.ctx;
      result = context_or_current(&task->context);
      if (result != CUDA_SUCCESS) return result;
      return emu_plan_set(task->set.dst, task->set.pitch, task->set.value, task->set.elementSize, task->set.width,
                          task->set.height, &task->move);
    case CU_GRAPH_NODE_TYPE_HOST:
      task->host = (CUDA_HOST_NODE_PARAMS){parameters->host.fn, parameters->host.userData};
      return task->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      if (!EMU_IS(parameters->graph.graph, EMU_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
      if (parameters->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
        task->child = parameters->graph.graph;
      else
        result = emu_clone_graph(parameters->graph.graph, &task->child);
      if (result == CUDA_SUCCESS) task->child->is_child = true;
      parameters->graph.graph = task->child;
      return result;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      emu_lock();
      result = emu_make_graph_memory(&parameters->alloc.poolProps, parameters->alloc.bytesize, &task->memory);
      if (result == CUDA_SUCCESS) parameters->alloc.dptr = emu_graph_memory_address(task->memory);
      emu_unlock();
      return result;
    case CU_GRAPH_NODE_TYPE_MEM_FREE: task->address = parameters->free.dptr; return emu_check_graph_address(task->address);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: task->event = parameters->eventWait.event; break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: task->event = parameters->eventRecord.event; break;
    default: return emu_not_modelled("a graph node of this type");
  }
  return EMU_IS(task->event, EMU_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *data,
                                size_t count, CUgraphNodeParams *parameters) {
  EMU_ENTER();
  if (!node || !EMU_IS(graph, EMU_GRAPH) || (count && !before) || !parameters) return CUDA_ERROR_INVALID_VALUE;
  for (size_t index = 0; data && index < count; index++)
    if (data[index].from_port || data[index].to_port || data[index].type)
      return emu_not_modelled("cuGraphAddNode with edge data");
  struct emu_task task;
  CUresult result = emu_fill_task(parameters, &task);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  result = emu_add_task(graph, before, count, &task, node);
  emu_unlock();
  return result;
}

#define EMU_ADD(...) cuGraphAddNode(node, graph, before, NULL, count, &(CUgraphNodeParams){__VA_ARGS__})

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS *kernel) {
  if (!kernel) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  memcpy(&parameters.kernel, kernel, sizeof *kernel); /* v2 and v3 are laid out alike */
  return cuGraphAddNode(node, graph, before, NULL, count, &parameters);
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                      const CUDA_MEMCPY3D *copy, CUcontext context) {
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  return EMU_ADD(.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyCtx = context, .copyParams = *copy});
}

static CUgraphNodeParams describe_set(const CUDA_MEMSET_NODE_PARAMS *set, CUcontext context) {
  return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                             .memset = {.dst = set->dst, .pitch = set->pitch, .value = set->value,
                                        .elementSize = set->elementSize, .width = set->width, .height = set->height,
                                        .ctx = context}};
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS *set, CUcontext context) {
  if (!set) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = describe_set(set, context);
  return cuGraphAddNode(node, graph, before, NULL, count, &parameters);
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                    const CUDA_HOST_NODE_PARAMS *host) {
  if (!host) return CUDA_ERROR_INVALID_VALUE;
  return EMU_ADD(.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = host->fn, .userData = host->userData});
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count) {
  return EMU_ADD(.type = CU_GRAPH_NODE_TYPE_EMPTY);
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                          CUgraph child) {
  return EMU_ADD(.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child});
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                           CUevent event) {
  return EMU_ADD(.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event});
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                         CUevent event) {
  return EMU_ADD(.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event});
}

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *alloc) {
  if (!alloc) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                  .alloc = {.poolProps = alloc->poolProps, .bytesize = alloc->bytesize}};
  CUresult result = cuGraphAddNode(node, graph, before, NULL, count, &parameters);
  alloc->dptr = parameters.alloc.dptr;
  return result;
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                       CUdeviceptr at) {
  return EMU_ADD(.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {.dptr = at});
}

#define EMU_WITH_NODE_OF(handle, kind, argument)                                                       \
  EMU_ENTER();                                                                                         \
  if (!(argument) || !EMU_IS(handle, EMU_NODE) || (handle)->task.type != (kind)) return CUDA_ERROR_INVALID_VALUE

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *kernel) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_KERNEL, kernel);
  *kernel = node->task.kernel;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *copy) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_MEMCPY, copy);
  *copy = node->task.copy;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *set) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_MEMSET, set);
  *set = node->task.set;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *host) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_HOST, host);
  *host = node->task.host;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_GRAPH, child);
  *child = node->task.child;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *at) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_MEM_FREE, at);
  *at = node->task.address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  *event = node->task.event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event) {
  EMU_WITH_NODE_OF(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  *event = node->task.event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *parameters) {
  EMU_ENTER();
  struct emu_task task;
  if (!parameters || !EMU_IS(node, EMU_NODE) || node->task.type != parameters->type) return CUDA_ERROR_INVALID_VALUE;
  if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH || parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return emu_not_modelled("cuGraphNodeSetParams on a child graph or an allocation");
  CUresult result = emu_fill_task(parameters, &task);
  if (result == CUDA_SUCCESS) node->task = task;
  return result;
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *kernel) {
  if (!kernel) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  memcpy(&parameters.kernel, kernel, sizeof *kernel);
  return cuGraphNodeSetParams(node, &parameters);
}

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *copy) {
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyParams = *copy}};
  return cuGraphNodeSetParams(node, &parameters);
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set) {
  if (!set) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = describe_set(set, NULL);
  return cuGraphNodeSetParams(node, &parameters);
}

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host) {
  if (!host) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = host->fn, .userData = host->userData}};
  return cuGraphNodeSetParams(node, &parameters);
}
