/* The layout of the shared file as a table, for the Python side to read instead of repeating it. */
#include "model/layout.h"

#include <stddef.h>

struct emu_field {
  const char *table, *name;
  uint64_t offset, count; /* in bytes from the row's beginning; in words */
};
struct emu_table {
  const char *name;
  uint64_t offset, row_bytes, rows; /* from the device's or the machine's beginning */
};

static const struct emu_field fields[] = {
#define WORD_OF(tag, name) {#tag, #name, offsetof(struct tag, name), 1},
#define WORDS_OF(tag, name, count) {#tag, #name, offsetof(struct tag, name), count},
#define W(name) WORD_OF(emu_device_head, name)
#define A(name, count) WORDS_OF(emu_device_head, name, count)
    EMU_DEVICE_FIELDS(W, A)
#undef W
#undef A
#define W(name) WORD_OF(emu_context, name)
#define A(name, count) WORDS_OF(emu_context, name, count)
    EMU_CONTEXT_FIELDS(W, A)
#undef W
#undef A
#define W(name) WORD_OF(emu_span, name)
#define A(name, count) WORDS_OF(emu_span, name, count)
    EMU_SPAN_FIELDS(W, A)
#undef W
#undef A
#define W(name) WORD_OF(emu_input, name)
#define A(name, count) WORDS_OF(emu_input, name, count)
    EMU_INPUT_FIELDS(W, A)
#undef W
#undef A
#define W(name) WORD_OF(emu_stream, name)
#define A(name, count) WORDS_OF(emu_stream, name, count)
    EMU_STREAM_FIELDS(W, A)
#undef W
#undef A
#define W(name) WORD_OF(emu_process, name)
#define A(name, count) WORDS_OF(emu_process, name, count)
    EMU_PROCESS_FIELDS(W, A)
#undef W
#undef A
#define W(name) WORD_OF(emu_machine_head, name)
#define A(name, count) WORDS_OF(emu_machine_head, name, count)
    EMU_MACHINE_FIELDS(W, A)
#undef W
#undef A
    {0},
};

static const struct emu_table tables[] = {
    {"emu_machine_head", offsetof(struct emu_machine, head), sizeof(struct emu_machine_head), 1},
    {"emu_process", offsetof(struct emu_machine, processes), sizeof(struct emu_process), EMU_MAX_PROCESSES},
    {"emu_device", offsetof(struct emu_machine, devices), sizeof(struct emu_device), 0},
    {"emu_device_head", offsetof(struct emu_device, head), sizeof(struct emu_device_head), 1},
    {"emu_undo", offsetof(struct emu_device, undo), sizeof(struct emu_undo), EMU_UNDO},
    {"emu_context", offsetof(struct emu_device, contexts), sizeof(struct emu_context), EMU_MAX_CONTEXTS},
    {"emu_span", offsetof(struct emu_device, history), sizeof(struct emu_span), EMU_HISTORY},
    {"emu_input", offsetof(struct emu_device, journal), sizeof(struct emu_input), EMU_JOURNAL},
    {"emu_stream", offsetof(struct emu_device, queues), sizeof(struct emu_stream), EMU_MAX_STREAMS},
    {0},
};

const uint64_t emu_layout_version = EMU_LAYOUT_VERSION;
const struct emu_field *emu_layout_fields(void) { return fields; }
const struct emu_table *emu_layout_tables(void) { return tables; }
