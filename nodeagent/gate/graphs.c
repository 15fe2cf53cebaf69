/* How much work a graph is, until its duration is known: the number of its nodes. */
#include "gate.h"

enum { GRAPHS = 512, PROBES = 8 };
static struct {
  CUgraphExec exec;
  uint32_t nodes;
} graphs[GRAPHS];
static pthread_mutex_t graphs_lock = PTHREAD_MUTEX_INITIALIZER;

static int find(CUgraphExec exec, bool or_free) {
  uint64_t first = gate_mix((uintptr_t)exec);
  for (unsigned probe = 0; probe < PROBES; probe++) {
    int k = (int)((first + probe) % GRAPHS);
    if (graphs[k].exec == exec) return k;
  }
  for (unsigned probe = 0; or_free && probe < PROBES; probe++) {
    int k = (int)((first + probe) % GRAPHS);
    if (!graphs[k].exec) return k;
  }
  return or_free ? (int)(first % GRAPHS) : -1; /* the one that is pushed out counts as one node from then on */
}

void gate_graph_made(CUgraphExec exec, CUgraph graph) {
  size_t nodes = 0;
  if (!gate_own.graph_nodes || gate_own.graph_nodes(graph, NULL, &nodes) != CUDA_SUCCESS) return;
  pthread_mutex_lock(&graphs_lock);
  int k = find(exec, true);
  graphs[k].exec = exec;
  graphs[k].nodes = nodes < UINT32_MAX ? (uint32_t)nodes : UINT32_MAX;
  pthread_mutex_unlock(&graphs_lock);
}

void gate_graph_exec_gone(CUgraphExec exec) {
  pthread_mutex_lock(&graphs_lock);
  int k = find(exec, false);
  if (k >= 0) graphs[k].exec = NULL;
  pthread_mutex_unlock(&graphs_lock);
}

uint32_t gate_graph_nodes(CUgraphExec exec) {
  pthread_mutex_lock(&graphs_lock);
  int k = find(exec, false);
  uint32_t nodes = k >= 0 && graphs[k].nodes ? graphs[k].nodes : 1;
  pthread_mutex_unlock(&graphs_lock);
  return nodes;
}
