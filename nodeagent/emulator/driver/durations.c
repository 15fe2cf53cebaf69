/* How long a kernel takes: what its image says, or a file, or its name, or else the machine's default. See durations.h. */
#include "durations.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"

static char *table; /* the file's text */

static bool unit_of(const char *text, size_t length, double *scale) {
  static const struct {
    const char *name;
    double scale;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (unsigned index = 0; index < sizeof units / sizeof *units; index++) {
    if (strlen(units[index].name) != length || strncmp(units[index].name, text, length) != 0) continue;
    *scale = units[index].scale;
    return true;
  }
  return false;
}

/* A decimal number with its unit that ends at `end` or at the text's end; the length read, or 0. */
static size_t read_duration(const char *text, char end, uint64_t *duration_ns) {
  size_t digits = strspn(text, "0123456789");
  if (!digits) return 0;
  double value = 0, place = 1;
  size_t length = 0;
  for (; length < digits; length++) value = value * 10 + (text[length] - '0');
  if (text[length] == '.') {
    for (length++; isdigit((unsigned char)text[length]); length++) value += (text[length] - '0') * (place /= 10);
  }
  size_t letters = strspn(text + length, "nums");
  double scale;
  if (!unit_of(text + length, letters, &scale)) return 0;
  length += letters;
  if (text[length] && text[length] != end) return 0;
  if (value * scale > 1e15) return 0;
  *duration_ns = (uint64_t)(value * scale + 0.5);
  return length;
}

bool emu_duration_in_name(const char *name, uint64_t *duration_ns) {
  bool found = false;
  for (const char *part = strchr(name, '_'); part; part = strchr(part + 1, '_'))
    if (read_duration(part + 1, '_', duration_ns)) found = true;
  return found;
}

bool emu_duration_in_text(const char *text, const char *name, uint64_t *duration_ns) {
  for (const char *line = text; line && *line; line = strchr(line, '\n')) {
    line += strspn(line, "\n");
    const char *word = line + strspn(line, " \t/");
    if (strncmp(word, "kernel", 6) != 0 || !isspace((unsigned char)word[6])) continue;
    word += 6 + strspn(word + 6, " \t");
    size_t length = strcspn(word, " \t\r\n");
    if (length != strlen(name) || strncmp(word, name, length) != 0) continue;
    word += length + strspn(word + length, " \t");
    char number[40];
    snprintf(number, sizeof number, "%.*s", (int)strcspn(word, " \t\r\n"), word);
    if (read_duration(number, 0, duration_ns)) return true;
  }
  return false;
}

char *emu_read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rbe");
  if (!file) return NULL;
  char *text = NULL;
  size_t length = 0, room = 0;
  for (;;) {
    if (length + 1 >= room) {
      room = room ? room * 2 : 65536;
      char *grown = realloc(text, room);
      if (!grown) break;
      text = grown;
    }
    size_t got = fread(text + length, 1, room - length - 1, file);
    if (!got) break;
    length += got;
  }
  bool whole = feof(file);
  fclose(file);
  if (!whole) {
    free(text);
    return NULL;
  }
  text[length] = 0;
  if (bytes) *bytes = length;
  return text;
}

uint64_t emu_duration_of(const char *image_text, const char *name, uint64_t default_ns) {
  uint64_t duration_ns;
  if (image_text && emu_duration_in_text(image_text, name, &duration_ns)) return duration_ns;
  const char *path = getenv("PILLION_EMULATED_KERNELS");
  if (!table && path && *path) table = emu_read_file(path, NULL);
  if (table && emu_duration_in_text(table, name, &duration_ns)) return duration_ns;
  if (emu_duration_in_name(name, &duration_ns)) return duration_ns;
  return default_ns;
}
