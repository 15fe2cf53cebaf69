/* Stream capture: what is submitted to a capturing stream becomes nodes of a graph. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

struct emu_capture {
  struct emu_capture *next;
  CUgraph graph;
  bool own_graph; /* made for the capture, so dropped when it fails */
  CUstream origin;
  CUstreamCaptureMode mode;
  pthread_t thread;
  uint64_t id;
  bool broken;
};

static struct emu_capture *captures; /* in progress, in this process */
static uint64_t last_id;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult emu_check_capture(void) {
  if (!__atomic_load_n(&captures, __ATOMIC_ACQUIRE) || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  for (struct emu_capture *capture = captures; capture; capture = capture->next) {
    bool mine = pthread_equal(capture->thread, pthread_self());
    if (mine ? capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED
             : capture->mode != CU_STREAM_CAPTURE_MODE_GLOBAL || thread_mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
      continue;
    capture->broken = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  emu_unlock();
  return result;
}

static struct emu_capture *capture_of_event(CUevent event) {
  if (!event->capture) return NULL;
  for (struct emu_capture *capture = captures; capture; capture = capture->next)
    if (capture == event->capture && capture->id == event->capture_id) return capture;
  return NULL;
}

bool emu_event_is_captured(CUevent event) {
  emu_lock();
  bool captured = capture_of_event(event) != NULL;
  emu_unlock();
  return captured;
}

/* Work on the legacy stream would have to wait for a capturing stream, which cannot be. */
static CUresult check_legacy(CUstream stream) {
  CUresult result = CUDA_SUCCESS;
  if (stream != stream->context->legacy || !captures) return result;
  for (CUstream other = stream->context->streams; other; other = other->next) {
    if (!other->capture || other->flags & CU_STREAM_NON_BLOCKING) continue;
    if (other->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    other->capture->broken = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

/* Inside emu_lock: the stream's capture if it has one, checked. */
static CUresult open_capture(CUstream stream, struct emu_capture **capture) {
  *capture = stream->capture;
  if (!*capture) return check_legacy(stream);
  return (*capture)->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

static CUresult append(CUstream stream, const struct emu_task *task) {
  CUgraphNode node;
  CUresult result = emu_add_task(stream->capture->graph, stream->tail.nodes, stream->tail.count, task, &node);
  if (result != CUDA_SUCCESS) {
    stream->capture->broken = true;
    return result;
  }
  emu_set_clear(&stream->tail);
  return emu_set_include(&stream->tail, &node, 1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult emu_capture_task(CUstream stream, const struct emu_task *task, bool *captured) {
  *captured = false;
  if (!__atomic_load_n(&captures, __ATOMIC_ACQUIRE)) return CUDA_SUCCESS;
  struct emu_capture *capture;
  emu_lock();
  CUresult result = open_capture(stream, &capture);
  *captured = capture != NULL;
  if (capture && result == CUDA_SUCCESS) result = append(stream, task);
  emu_unlock();
  return result;
}

CUresult emu_capture_record(CUstream stream, CUevent event, bool *captured) {
  *captured = false;
  if (!__atomic_load_n(&captures, __ATOMIC_ACQUIRE)) return CUDA_SUCCESS;
  struct emu_capture *capture;
  emu_lock();
  CUresult result = open_capture(stream, &capture);
  *captured = capture != NULL;
  if (capture && result == CUDA_SUCCESS) {
    event->capture = capture;
    event->capture_id = capture->id;
    emu_set_clear(&event->tail);
    if (!emu_set_include(&event->tail, stream->tail.nodes, stream->tail.count)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  emu_unlock();
  return result;
}

CUresult emu_capture_wait(CUstream stream, CUevent event, bool *captured) {
  *captured = false;
  if (!__atomic_load_n(&captures, __ATOMIC_ACQUIRE)) return CUDA_SUCCESS;
  struct emu_capture *capture, *theirs = capture_of_event(event);
  emu_lock();
  CUresult result = open_capture(stream, &capture);
  *captured = capture || theirs;
  if (result != CUDA_SUCCESS) {
    *captured = true;
  } else if (capture && !theirs) {
    capture->broken = true;
    result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  } else if (capture && theirs != capture) {
    capture->broken = theirs->broken = true;
    result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
  } else if (theirs) {
    stream->capture = theirs; /* a stream that waits for captured work joins the capture */
    if (!emu_set_include(&stream->tail, event->tail.nodes, event->tail.count)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  emu_unlock();
  return result;
}

static CUresult begin(CUstream stream, CUgraph graph, const CUgraphNode *before, size_t count, CUstreamCaptureMode mode) {
  EMU_ENTER();
  if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  struct emu_capture *capture = calloc(1, sizeof *capture);
  if (!capture) return CUDA_ERROR_OUT_OF_MEMORY;
  emu_lock();
  capture->own_graph = !graph;
  result = graph ? CUDA_SUCCESS : emu_make_graph(&graph);
  if (result == CUDA_SUCCESS && !emu_set_include(&stream->tail, before, count)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    free(capture);
  } else {
    capture->graph = graph;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->id = ++last_id;
    capture->next = captures;
    stream->capture = capture;
    __atomic_store_n(&captures, capture, __ATOMIC_RELEASE);
  }
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) { return begin(stream, NULL, NULL, 0, mode); }

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *before,
                                             const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode) {
  if (!EMU_IS(graph, EMU_GRAPH) || (count && !before)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t index = 0; data && index < count; index++)
    if (data[index].type) return emu_not_modelled("cuStreamBeginCaptureToGraph with edge data");
  return begin(stream, graph, before, count, mode);
}

/* Mark a node and all that it depends on. */
static void mark(CUgraphNode node, unsigned with) {
  if (node->mark == with) return;
  node->mark = with;
  for (size_t index = 0; index < node->before.count; index++) mark(node->before.nodes[index], with);
}

/* Mark, from the streams of a list but one, what flows into the ends of their captures; with what. */
static unsigned mark_tails(struct emu_capture *capture, CUstream list, CUstream except) {
  static unsigned last_mark;
  unsigned with = ++last_mark;
  for (CUstream stream = list; stream; stream = stream->next) {
    if (stream->capture != capture || stream == except) continue;
    for (size_t index = 0; index < stream->tail.count; index++) mark(stream->tail.nodes[index], with);
  }
  return with;
}

/* True if everything that other streams captured flows back into the origin. */
static bool is_joined(struct emu_capture *capture) {
  CUstream origin = capture->origin;
  unsigned with = mark_tails(capture, NULL, NULL);
  for (size_t index = 0; index < origin->tail.count; index++) mark(origin->tail.nodes[index], with);
  for (CUstream stream = origin->context->streams; stream; stream = stream->next) {
    if (stream->capture != capture) continue;
    for (size_t index = 0; index < stream->tail.count; index++)
      if (stream->tail.nodes[index]->mark != with) return false;
  }
  return true;
}

static void end(struct emu_capture *capture, CUcontext context) {
  for (CUstream stream = context->streams; stream; stream = stream->next) {
    if (stream->capture != capture) continue;
    stream->capture = NULL;
    emu_set_clear(&stream->tail);
  }
  struct emu_capture **link = &captures;
  while (*link != capture) link = &(*link)->next;
  __atomic_store_n(link, capture->next, __ATOMIC_RELEASE); /* others ask without the lock if there is any */
  free(capture);
}

/* A stream that goes may leave a capture only if others carry on from all that it captured; its origin ends it. */
void emu_capture_forget_stream(CUstream stream) {
  struct emu_capture *capture = stream->capture;
  if (!capture) return;
  unsigned with = mark_tails(capture, stream->context->streams, stream);
  for (size_t index = 0; index < stream->tail.count && !capture->broken; index++)
    capture->broken = stream->tail.nodes[index]->mark != with;
  emu_set_clear(&stream->tail);
  if (capture->origin != stream) return;
  if (capture->own_graph) emu_free_graph(capture->graph);
  end(capture, stream->context);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  EMU_ENTER();
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *graph = NULL;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  struct emu_capture *capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  emu_lock();
  if (capture->broken)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!is_joined(capture))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (result == CUDA_SUCCESS)
    *graph = capture->graph;
  else if (capture->own_graph)
    emu_free_graph(capture->graph);
  end(capture, stream->context);
  emu_unlock();
  return result;
}

static CUstreamCaptureStatus status_of(CUstream stream) {
  if (!stream->capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  EMU_ENTER();
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  result = check_legacy(stream);
  *status = status_of(stream);
  emu_unlock();
  return result;
}

/* All versions of cuStreamGetCaptureInfo (older.c) come here. */
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **nodes, const CUgraphEdgeData **data, size_t *count) {
  EMU_ENTER();
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  emu_lock();
  result = check_legacy(stream);
  *status = status_of(stream);
  if (result == CUDA_SUCCESS && *status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    if (id) *id = stream->capture->id;
    if (graph) *graph = stream->capture->graph;
    if (nodes) *nodes = stream->tail.nodes;
    if (data) *data = NULL; /* all edges are plain ones */
    if (count) *count = stream->tail.count;
  }
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *data,
                                                   size_t count, unsigned int flags) {
  EMU_ENTER();
  if ((count && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  (void)data;
  CUresult result = emu_resolve_stream(&stream);
  if (result != CUDA_SUCCESS) return result;
  if (status_of(stream) != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_ILLEGAL_STATE;
  emu_lock();
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) emu_set_clear(&stream->tail);
  if (!emu_set_include(&stream->tail, nodes, count)) result = CUDA_ERROR_OUT_OF_MEMORY;
  emu_unlock();
  return result;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  EMU_ENTER();
  if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  CUstreamCaptureMode before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}
