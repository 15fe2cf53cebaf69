/* Graphs: nodes, what they depend on, and user objects. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static unsigned last_graph_id;

bool emu_set_include(struct emu_node_set *set, const CUgraphNode *nodes, size_t count) {
  CUgraphNode *grown = realloc(set->nodes, (set->count + count + 1) * sizeof *grown);
  if (!grown) return false;
  set->nodes = grown;
  for (size_t index = 0; index < count; index++) {
    bool known = false;
    for (size_t other = 0; other < set->count && !known; other++) known = set->nodes[other] == nodes[index];
    if (!known) set->nodes[set->count++] = nodes[index];
  }
  return true;
}

void emu_set_clear(struct emu_node_set *set) {
  free(set->nodes);
  *set = (struct emu_node_set){0};
}

CUresult emu_make_graph(CUgraph *made) {
  CUgraph graph = calloc(1, sizeof *graph);
  if (!graph) return CUDA_ERROR_OUT_OF_MEMORY;
  graph->magic = EMU_GRAPH;
  graph->id = ++last_graph_id;
  *made = graph;
  return CUDA_SUCCESS;
}

static void free_node(CUgraphNode node) {
  if (node->task.child) emu_free_graph(node->task.child);
  if (node->task.memory) emu_drop_graph_memory(node->task.memory);
  emu_set_clear(&node->before);
  node->magic = 0;
  free(node);
}

void emu_free_graph(CUgraph graph) {
  while (graph->nodes) {
    CUgraphNode node = graph->nodes;
    graph->nodes = node->next;
    free_node(node);
  }
  emu_release_objects(&graph->objects);
  graph->magic = 0;
  free(graph);
}

CUresult emu_add_task(CUgraph graph, const CUgraphNode *before, size_t count, const struct emu_task *task, CUgraphNode *made) {
  for (size_t index = 0; index < count; index++)
    if (!EMU_IS(before[index], EMU_NODE) || before[index]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNode node = calloc(1, sizeof *node);
  if (!node || !emu_set_include(&node->before, before, count)) {
    free(node);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  node->magic = EMU_NODE;
  node->graph = graph;
  node->id = ++graph->last_node_id;
  node->task = *task;
  node->task.kernel.kernelParams = node->task.kernel.extra = NULL;
  if (graph->end)
    graph->end->next = node;
  else
    graph->nodes = node;
  graph->end = node;
  graph->node_count++;
  *made = node;
  return CUDA_SUCCESS;
}

static CUgraphNode node_with_id(CUgraph graph, unsigned id) {
  CUgraphNode node = graph->nodes;
  while (node && node->id != id) node = node->next;
  return node;
}

/* Copy the nodes of one graph to another, noting each one's twin by its id. */
static CUresult clone_nodes(CUgraph original, CUgraph copy, CUgraphNode *twins) {
  CUresult result = CUDA_SUCCESS;
  for (CUgraphNode node = original->nodes; node && result == CUDA_SUCCESS; node = node->next) {
    struct emu_task task = node->task;
    CUgraphNode twin;
    if (task.child) result = emu_clone_graph(node->task.child, &task.child);
    if (task.child && result == CUDA_SUCCESS) task.child->is_child = true;
    if (result == CUDA_SUCCESS) result = emu_add_task(copy, NULL, 0, &task, &twin);
    if (result == CUDA_SUCCESS) {
      if (task.memory) emu_keep_graph_memory(task.memory);
      twin->id = node->id;
      twins[node->id] = twin;
    }
  }
  for (CUgraphNode node = original->nodes; node && result == CUDA_SUCCESS; node = node->next) {
    for (size_t index = 0; index < node->before.count; index++) {
      if (!emu_set_include(&twins[node->id]->before, &twins[node->before.nodes[index]->id], 1))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  copy->last_node_id = original->last_node_id;
  return result;
}

CUresult emu_clone_graph(CUgraph original, CUgraph *made) {
  CUgraph copy;
  CUresult result = emu_make_graph(&copy);
  if (result != CUDA_SUCCESS) return result;
  CUgraphNode *twins = calloc(original->last_node_id + 1, sizeof *twins);
  result = twins ? clone_nodes(original, copy, twins) : CUDA_ERROR_OUT_OF_MEMORY;
  free(twins);
  if (result == CUDA_SUCCESS) result = emu_add_objects(original, &copy->objects);
  if (result != CUDA_SUCCESS)
    emu_free_graph(copy);
  else
    *made = copy;
  return result;
}

#define EMU_WITH_GRAPH(handle, argument)                            \
  EMU_ENTER();                                                      \
  if (!(argument)) return CUDA_ERROR_INVALID_VALUE;                 \
  if (!EMU_IS(handle, EMU_GRAPH)) return CUDA_ERROR_INVALID_VALUE
#define EMU_WITH_NODE(handle, argument)                             \
  EMU_ENTER();                                                      \
  if (!(argument)) return CUDA_ERROR_INVALID_VALUE;                 \
  if (!EMU_IS(handle, EMU_NODE)) return CUDA_ERROR_INVALID_VALUE

CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned int flags) {
  EMU_ENTER();
  if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUresult result = emu_make_graph(graph);
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  EMU_WITH_GRAPH(graph, true);
  if (graph->is_child) return CUDA_ERROR_INVALID_VALUE;
  emu_free_graph(graph);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph *copy, CUgraph original) {
  EMU_WITH_GRAPH(original, copy);
  emu_lock();
  CUresult result = emu_clone_graph(original, copy);
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *twin, CUgraphNode node, CUgraph clone) {
  EMU_WITH_NODE(node, twin);
  if (!EMU_IS(clone, EMU_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  *twin = node_with_id(clone, node->id);
  return *twin ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphGetId(CUgraph graph, unsigned int *id) {
  EMU_WITH_GRAPH(graph, id);
  *id = graph->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetLocalId(CUgraphNode node, unsigned int *id) {
  EMU_WITH_NODE(node, id);
  *id = node->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph) {
  EMU_WITH_NODE(node, graph);
  *graph = node->graph;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  EMU_WITH_NODE(node, type);
  *type = node->task.type;
  return CUDA_SUCCESS;
}

/* The CUDA way to return a list: with no place for it only the count; entries beyond the list are NULL. */
struct list {
  CUgraphNode *nodes;
  size_t room, count;
};

static void list_add(struct list *list, CUgraphNode node) {
  if (list->nodes && list->count < list->room) list->nodes[list->count] = node;
  list->count++;
}

static void list_end(struct list *list, size_t *count) {
  if (list->nodes)
    for (size_t index = list->count; index < list->room; index++) list->nodes[index] = NULL;
  *count = list->nodes && list->count > list->room ? list->room : list->count;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  EMU_WITH_GRAPH(graph, count);
  struct list list = {nodes, *count, 0};
  for (CUgraphNode node = graph->nodes; node; node = node->next) list_add(&list, node);
  list_end(&list, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  EMU_WITH_GRAPH(graph, count);
  struct list list = {nodes, *count, 0};
  for (CUgraphNode node = graph->nodes; node; node = node->next)
    if (!node->before.count) list_add(&list, node);
  list_end(&list, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count) {
  EMU_WITH_GRAPH(graph, count && !from == !to);
  struct list sources = {from, *count, 0}, targets = {to, *count, 0};
  if (data) memset(data, 0, *count * sizeof *data);
  for (CUgraphNode node = graph->nodes; node; node = node->next) {
    for (size_t index = 0; index < node->before.count; index++) {
      list_add(&sources, node->before.nodes[index]);
      list_add(&targets, node);
    }
  }
  list_end(&sources, count);
  if (to) {
    size_t same = *count;
    list_end(&targets, &same);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count) {
  EMU_WITH_NODE(node, count);
  struct list list = {nodes, *count, 0};
  if (data) memset(data, 0, *count * sizeof *data);
  for (size_t index = 0; index < node->before.count; index++) list_add(&list, node->before.nodes[index]);
  list_end(&list, count);
  return CUDA_SUCCESS;
}

static bool depends_on(CUgraphNode node, CUgraphNode on) {
  for (size_t index = 0; index < node->before.count; index++)
    if (node->before.nodes[index] == on) return true;
  return false;
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count) {
  EMU_WITH_NODE(node, count);
  struct list list = {nodes, *count, 0};
  if (data) memset(data, 0, *count * sizeof *data);
  for (CUgraphNode other = node->graph->nodes; other; other = other->next)
    if (depends_on(other, node)) list_add(&list, other);
  list_end(&list, count);
  return CUDA_SUCCESS;
}

static bool plain_edges(const CUgraphEdgeData *data, size_t count) {
  for (size_t index = 0; data && index < count; index++)
    if (data[index].from_port || data[index].to_port || data[index].type) return false;
  return true;
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                        const CUgraphEdgeData *data, size_t count) {
  EMU_WITH_GRAPH(graph, !count || (from && to));
  if (!plain_edges(data, count)) return emu_not_modelled("cuGraphAddDependencies with edge data");
  for (size_t index = 0; index < count; index++) {
    if (!EMU_IS(from[index], EMU_NODE) || !EMU_IS(to[index], EMU_NODE)) return CUDA_ERROR_INVALID_VALUE;
    if (from[index]->graph != graph || to[index]->graph != graph || from[index] == to[index]) return CUDA_ERROR_INVALID_VALUE;
    if (depends_on(to[index], from[index])) return CUDA_ERROR_INVALID_VALUE;
    if (!emu_set_include(&to[index]->before, &from[index], 1)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

static void forget_dependency(CUgraphNode node, CUgraphNode on) {
  for (size_t index = 0; index < node->before.count; index++) {
    if (node->before.nodes[index] != on) continue;
    node->before.nodes[index] = node->before.nodes[--node->before.count];
    return;
  }
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           const CUgraphEdgeData *data, size_t count) {
  EMU_WITH_GRAPH(graph, !count || (from && to));
  (void)data;
  for (size_t index = 0; index < count; index++) {
    if (!EMU_IS(from[index], EMU_NODE) || !EMU_IS(to[index], EMU_NODE) || !depends_on(to[index], from[index]))
      return CUDA_ERROR_INVALID_VALUE;
    forget_dependency(to[index], from[index]);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode node) {
  EMU_WITH_NODE(node, true);
  CUgraph graph = node->graph;
  CUgraphNode previous = NULL;
  for (CUgraphNode *link = &graph->nodes; *link; previous = *link, link = &(*link)->next) {
    if (*link != node) continue;
    *link = node->next;
    if (graph->end == node) graph->end = previous;
    break;
  }
  for (CUgraphNode other = graph->nodes; other; other = other->next) forget_dependency(other, node);
  graph->node_count--;
  free_node(node);
  return CUDA_SUCCESS;
}
