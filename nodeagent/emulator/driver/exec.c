/* Executable graphs: a graph put in order once, launched as one submission.
 *
 * The nodes of a launch run one after another in an order that respects their dependencies, as pieces of the stream that it
 * is launched in: the device runs one kernel at a time anyway, so branches would not be faster side by side.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

enum { MOST_PIECES = EMU_MAX_OPS - 2 * EMU_MAX_STREAMS }; /* leaves room for what the launch itself waits for */

struct CUgraphExec_st {
  enum emu_magic magic;
  CUgraph graph; /* a copy of its own */
  CUgraphNode *order; /* with child graphs unfolded */
  bool *enabled;
  size_t count, room;
  cuuint64_t flags;
};

static bool append(CUgraphExec exec, CUgraphNode node) {
  if (exec->count == exec->room) {
    size_t room = exec->room ? exec->room * 2 : 16;
    CUgraphNode *order = realloc(exec->order, room * sizeof *order);
    if (order) exec->order = order;
    bool *enabled = realloc(exec->enabled, room * sizeof *enabled);
    if (enabled) exec->enabled = enabled;
    if (!order || !enabled) return false;
    exec->room = room;
  }
  exec->enabled[exec->count] = true;
  exec->order[exec->count++] = node;
  return true;
}

/* Append the graph's nodes, each after those it depends on. `mark` counts up: 1 visited, 2 done. */
static CUresult put_in_order(CUgraphExec exec, CUgraph graph) {
  size_t left = graph->node_count;
  for (CUgraphNode node = graph->nodes; node; node = node->next) node->mark = 0;
  while (left) {
    size_t before = left;
    for (CUgraphNode node = graph->nodes; node; node = node->next) {
      bool ready = node->mark == 0;
      for (size_t index = 0; index < node->before.count && ready; index++) ready = node->before.nodes[index]->mark == 2;
      if (!ready) continue;
      CUresult result = CUDA_SUCCESS;
      if (node->task.child)
        result = put_in_order(exec, node->task.child);
      else if (!append(exec, node))
        result = CUDA_ERROR_OUT_OF_MEMORY;
      if (result != CUDA_SUCCESS) return result;
      node->mark = 2;
      left--;
    }
    if (left == before) return CUDA_ERROR_INVALID_VALUE; /* a cycle */
  }
  return CUDA_SUCCESS;
}

static uint64_t kernel_ns(CUgraphNode node) { return ((struct emu_kernel *)node->task.kernel.func)->duration_ns; }

/* How many kernels from `first` on can be one piece. */
static size_t run_length(CUgraphExec exec, size_t first) {
  size_t length = 0;
  for (size_t index = first; index < exec->count; index++, length++) {
    if (!exec->enabled[index]) continue;
    CUgraphNode node = exec->order[index];
    if (node->task.type != CU_GRAPH_NODE_TYPE_KERNEL || kernel_ns(node) != kernel_ns(exec->order[first])) break;
  }
  return length;
}

/* How many pieces a launch queues at most: a copy may need a host function before it. */
static size_t count_pieces(CUgraphExec exec) {
  size_t pieces = 0;
  for (size_t index = 0; index < exec->count; index++) {
    CUgraphNodeType type = exec->order[index]->task.type;
    pieces += type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET ? 2 : 1;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL && exec->enabled[index]) index += run_length(exec, index) - 1;
  }
  return pieces;
}

static void free_exec(CUgraphExec exec) {
  if (exec->graph) emu_free_graph(exec->graph);
  free(exec->order);
  free(exec->enabled);
  exec->magic = 0;
  free(exec);
}

static CUresult instantiate(CUgraphExec *made, CUgraph graph, cuuint64_t flags) {
  EMU_ENTER();
  if (!made || !EMU_IS(graph, EMU_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) return emu_not_modelled("device launch of graphs");
  CUgraphExec exec = calloc(1, sizeof *exec);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->magic = EMU_EXEC;
  exec->flags = flags;
  emu_lock();
  CUresult result = emu_clone_graph(graph, &exec->graph);
  if (result == CUDA_SUCCESS) result = put_in_order(exec, exec->graph);
  emu_unlock();
  if (result == CUDA_SUCCESS && count_pieces(exec) > MOST_PIECES) result = emu_not_modelled("a graph of that many pieces");
  if (result != CUDA_SUCCESS)
    free_exec(exec);
  else
    *made = exec;
  return result;
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  return instantiate(exec, graph, flags);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = instantiate(exec, graph, parameters->flags);
  parameters->hErrNode_out = NULL;
  parameters->result_out = result == CUDA_SUCCESS         ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                           : result == CUDA_ERROR_INVALID_VALUE ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                          : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

#define EMU_WITH_EXEC(handle, argument) \
  EMU_ENTER();                          \
  if (!(argument) || !EMU_IS(handle, EMU_EXEC)) return CUDA_ERROR_INVALID_VALUE

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  EMU_WITH_EXEC(exec, true);
  free_exec(exec);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags) {
  EMU_WITH_EXEC(exec, flags);
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecGetId(CUgraphExec exec, unsigned int *id) {
  EMU_WITH_EXEC(exec, id);
  *id = exec->graph->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream stream) {
  EMU_WITH_EXEC(exec, true);
  return emu_resolve_stream(&stream); /* there is nothing to move to the device ahead of a launch */
}

/* Queue everything that is not a kernel. */
static CUresult submit_other(CUstream stream, struct emu_device *device, struct emu_task *task, unsigned launches) {
  CUcontext context = stream->context;
  CUevent event = task->event;
  switch (task->type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return task->move.width ? emu_append_move(stream, device, &task->move, launches) : CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST: return emu_append_host(stream, device, task->host.fn, task->host.userData);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      emu_append_record(stream, device, event);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      if (event->context->device != context->device) return emu_not_modelled("a graph that waits for another device");
      if (event->recorded && !emu_is_done(device, event->context->slot, event->stream, event->seq))
        emu_submit_wait(device, context->slot, stream->slot, event->context->slot, event->stream, event->seq);
      return CUDA_SUCCESS;
    default: return CUDA_SUCCESS; /* nothing to do in the stream */
  }
}

static CUresult submit_nodes(CUgraphExec exec, CUstream stream, struct emu_device *device) {
  unsigned launches = 1; /* one for the whole graph; it is in the queue until its first device work is done */
  CUresult result = CUDA_SUCCESS;
  for (size_t index = 0; index < exec->count && result == CUDA_SUCCESS; index++) {
    CUgraphNode node = exec->order[index];
    if (!exec->enabled[index]) continue;
    if (node->task.type != CU_GRAPH_NODE_TYPE_KERNEL) {
      result = submit_other(stream, device, &node->task, launches);
      if (node->task.move.width) launches = 0;
      continue;
    }
    size_t length = run_length(exec, index), units = 0;
    for (size_t at = index; at < index + length; at++) units += exec->enabled[at];
    emu_append_work(stream, device, kernel_ns(node), units, launches, EMU_TALLY_NONE);
    launches = 0;
    index += length - 1;
  }
  emu_tally_graph(device, stream->context->slot);
  return result;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  EMU_WITH_EXEC(exec, true);
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->capture) {
    struct emu_task task = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    bool captured;
    result = emu_clone_graph(exec->graph, &task.child);
    if (result != CUDA_SUCCESS) return result;
    task.child->is_child = true;
    return emu_capture_task(stream, &task, &captured);
  }
  for (size_t index = 0; index < exec->count; index++) {
    struct emu_graph_memory *memory = exec->order[index]->task.memory;
    if (memory && (result = emu_use_graph_memory(memory)) != CUDA_SUCCESS) return result;
  }
  size_t pieces = count_pieces(exec); /* again: its kernels may have been changed */
  if (pieces > MOST_PIECES) return emu_not_modelled("a graph of that many pieces");
  struct emu_device *device;
  result = emu_begin(stream, (unsigned)pieces, 1, &device);
  if (result != CUDA_SUCCESS) return result;
  result = submit_nodes(exec, stream, device);
  emu_end(stream, device);
  return result;
}

/* ---- changing one that exists ---- */

static CUgraphNode twin_of(CUgraphExec exec, CUgraphNode node) {
  if (!EMU_IS(node, EMU_NODE)) return NULL;
  for (CUgraphNode twin = exec->graph->nodes; twin; twin = twin->next)
    if (twin->id == node->id && twin->task.type == node->task.type) return twin;
  return NULL;
}

static CUresult set_task(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *parameters) {
  EMU_WITH_EXEC(exec, parameters);
  CUgraphNode twin = twin_of(exec, node);
  if (!twin || twin->task.type != parameters->type) return CUDA_ERROR_INVALID_VALUE;
  if (twin->task.child || twin->task.memory) return emu_not_modelled("changing a child or an allocation of an executable graph");
  struct emu_task task;
  CUresult result = emu_fill_task(parameters, &task);
  if (result == CUDA_SUCCESS) twin->task = task;
  return result;
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *parameters) {
  return set_task(exec, node, parameters);
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *kernel) {
  if (!kernel) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  memcpy(&parameters.kernel, kernel, sizeof *kernel);
  return set_task(exec, node, &parameters);
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                                                CUcontext context) {
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyCtx = context, .copyParams = *copy}};
  return set_task(exec, node, &parameters);
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set,
                                                CUcontext context) {
  if (!set) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                  .memset = {.dst = set->dst, .pitch = set->pitch, .value = set->value,
                                             .elementSize = set->elementSize, .width = set->width,
                                             .height = set->height, .ctx = context}};
  return set_task(exec, node, &parameters);
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host) {
  if (!host) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = host->fn, .userData = host->userData}};
  return set_task(exec, node, &parameters);
}

static size_t place_of(CUgraphExec exec, CUgraphNode node) {
  CUgraphNode twin = twin_of(exec, node);
  size_t place = 0;
  while (place < exec->count && exec->order[place] != twin) place++;
  return place;
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  EMU_WITH_EXEC(exec, true);
  size_t place = place_of(exec, node);
  if (place == exec->count) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeType type = exec->order[place]->task.type;
  if (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMCPY && type != CU_GRAPH_NODE_TYPE_MEMSET)
    return CUDA_ERROR_INVALID_VALUE;
  exec->enabled[place] = enabled != 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled) {
  EMU_WITH_EXEC(exec, enabled);
  size_t place = place_of(exec, node);
  if (place == exec->count) return CUDA_ERROR_INVALID_VALUE;
  *enabled = exec->enabled[place];
  return CUDA_SUCCESS;
}

/* The first difference in shape between two graphs, or success. */
static CUgraphExecUpdateResult compare(CUgraph old, CUgraph new, CUgraphNode *where) {
  *where = NULL;
  if (old->node_count != new->node_count) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  CUgraphNode twin = old->nodes;
  for (CUgraphNode node = new->nodes; node; node = node->next, twin = twin->next) {
    *where = node;
    if (node->task.type != twin->task.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (node->before.count != twin->before.count) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (node->task.type != CU_GRAPH_NODE_TYPE_GRAPH) continue;
    CUgraphExecUpdateResult result = compare(twin->task.child, node->task.child, where);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
  }
  *where = NULL;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  EMU_WITH_EXEC(exec, EMU_IS(graph, EMU_GRAPH));
  CUgraphExecUpdateResultInfo own;
  if (!info) info = &own;
  info->errorFromNode = NULL;
  info->result = compare(exec->graph, graph, &info->errorNode);
  if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  struct CUgraphExec_st fresh = *exec;
  fresh.graph = NULL;
  fresh.order = NULL;
  fresh.enabled = NULL;
  fresh.count = fresh.room = 0;
  emu_lock();
  CUresult result = emu_clone_graph(graph, &fresh.graph);
  if (result == CUDA_SUCCESS) result = put_in_order(&fresh, fresh.graph);
  emu_unlock();
  struct CUgraphExec_st *unused = result == CUDA_SUCCESS ? exec : &fresh;
  if (unused->graph) emu_free_graph(unused->graph);
  free(unused->order);
  free(unused->enabled);
  if (result == CUDA_SUCCESS) *exec = fresh;
  return result;
}
