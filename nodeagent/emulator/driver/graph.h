/* Graphs and stream capture: what graph.c, capture.c, exec.c and the submitting calls share. */
#ifndef EMU_GRAPH_H
#define EMU_GRAPH_H

#include "driver.h"

/* What a node does when its turn comes. */
struct emu_task {
  CUgraphNodeType type;
  CUcontext context;             /* kernels, copies and sets */
  CUDA_KERNEL_NODE_PARAMS kernel; /* parameters of the kernel are not kept: nothing computes with them */
  CUDA_MEMCPY3D copy;
  CUDA_MEMSET_NODE_PARAMS set;
  struct emu_move move; /* of a copy or set */
  CUDA_HOST_NODE_PARAMS host;
  CUevent event;
  CUgraph child; /* owned */
  struct emu_graph_memory *memory; /* of a node that allocates; a reference of its own */
  CUdeviceptr address;             /* of a node that frees */
};

struct CUgraphNode_st {
  enum emu_magic magic;
  CUgraph graph;
  CUgraphNode next; /* in the order of creation */
  unsigned id;
  struct emu_task task;
  struct emu_node_set before;
  unsigned mark; /* of whoever walks the graph */
};

struct CUgraph_st {
  enum emu_magic magic;
  unsigned id, node_count, last_node_id;
  CUgraphNode nodes, end;
  bool is_child;
  struct emu_held_object {
    struct emu_held_object *next;
    CUuserObject object;
    unsigned count;
  } * objects;
};

/* ---- graph.c ---- */
CUresult emu_make_graph(CUgraph *graph);
void emu_free_graph(CUgraph graph);
CUresult emu_clone_graph(CUgraph original, CUgraph *copy);
CUresult emu_add_task(CUgraph graph, const CUgraphNode *before, size_t count, const struct emu_task *task, CUgraphNode *node);
CUresult emu_fill_task(CUgraphNodeParams *parameters, struct emu_task *task);
bool emu_set_include(struct emu_node_set *set, const CUgraphNode *nodes, size_t count);
void emu_set_clear(struct emu_node_set *set);
CUresult emu_add_objects(CUgraph from, struct emu_held_object **to);
void emu_release_objects(struct emu_held_object **objects);

/* ---- graph_memory.c ---- */
/* Memory for a node that allocates: an address at once, device memory from the first launch on. Inside emu_lock. */
CUresult emu_make_graph_memory(const CUmemPoolProps *properties, size_t bytes, struct emu_graph_memory **memory);
CUresult emu_check_graph_address(CUdeviceptr at);
CUdeviceptr emu_graph_memory_address(const struct emu_graph_memory *memory);
CUresult emu_use_graph_memory(struct emu_graph_memory *memory);
void emu_keep_graph_memory(struct emu_graph_memory *memory);
void emu_drop_graph_memory(struct emu_graph_memory *memory);

/* ---- capture.c ---- */
/* CUDA_SUCCESS, or the error (and a broken capture) if a capture in progress forbids calls that are not stream-ordered. */
CUresult emu_check_capture(void);
/* The stream's part in a capture: CUDA_SUCCESS and `captured` says if the task became a node instead of running. */
CUresult emu_capture_task(CUstream stream, const struct emu_task *task, bool *captured);
CUresult emu_capture_record(CUstream stream, CUevent event, bool *captured);
CUresult emu_capture_wait(CUstream stream, CUevent event, bool *captured);
bool emu_event_is_captured(CUevent event);
void emu_capture_forget_stream(CUstream stream);

#endif
