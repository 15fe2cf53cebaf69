/* User objects: what a graph keeps alive for its nodes. */
#include <stdlib.h>

#include "graph.h"

struct CUuserObject_st {
  unsigned references;
  CUhostFn destroy;
  void *data;
};

static void release(CUuserObject object, unsigned count) {
  object->references -= count;
  if (object->references) return;
  object->destroy(object->data);
  free(object);
}

CUresult emu_add_objects(CUgraph from, struct emu_held_object **to) {
  for (struct emu_held_object *held = from->objects; held; held = held->next) {
    struct emu_held_object *copy = malloc(sizeof *copy);
    if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = (struct emu_held_object){*to, held->object, 1};
    held->object->references++;
    *to = copy;
  }
  return CUDA_SUCCESS;
}

void emu_release_objects(struct emu_held_object **objects) {
  while (*objects) {
    struct emu_held_object *held = *objects;
    *objects = held->next;
    release(held->object, held->count);
    free(held);
  }
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *made, void *data, CUhostFn destroy, unsigned int references,
                                    unsigned int flags) {
  EMU_ENTER();
  if (!made || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  CUuserObject object = malloc(sizeof *object);
  if (!object) return CUDA_ERROR_OUT_OF_MEMORY;
  *object = (struct CUuserObject_st){references, destroy, data};
  *made = object;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count) {
  EMU_ENTER();
  if (!object || !count) return CUDA_ERROR_INVALID_VALUE;
  object->references += count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  EMU_ENTER();
  if (!object || !count || count > object->references) return CUDA_ERROR_INVALID_VALUE;
  release(object, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
  EMU_ENTER();
  if (!EMU_IS(graph, EMU_GRAPH) || !object || !count || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_held_object *held = malloc(sizeof *held);
  if (!held) return CUDA_ERROR_OUT_OF_MEMORY;
  *held = (struct emu_held_object){graph->objects, object, count};
  graph->objects = held;
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) object->references += count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  EMU_ENTER();
  if (!EMU_IS(graph, EMU_GRAPH) || !object || !count) return CUDA_ERROR_INVALID_VALUE;
  for (struct emu_held_object **link = &graph->objects; *link; link = &(*link)->next) {
    struct emu_held_object *held = *link;
    if (held->object != object || held->count < count) continue;
    held->count -= count;
    if (!held->count) {
      *link = held->next;
      free(held);
    }
    release(object, count);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
