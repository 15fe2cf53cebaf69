/* Looking a symbol up in the loaded C library without asking the loader, whose lookup functions this library replaces. */
#ifndef LOADED_H
#define LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Look-ups happen before other preloaded libraries, such as sanitizers, have made their versions of strcmp usable. */
static inline bool loaded_begins(const char *text, const char *beginning) {
  while (*beginning && *text == *beginning) text++, beginning++;
  return !*beginning;
}
static inline int loaded_compare(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return (unsigned char)*a - (unsigned char)*b;
}

/* The address of `name` in the C library, NULL when it has none. */
void *loaded_find(const char *name);

/* Whether libraries that the code at `address` loads are searched for along a path of its own object's or the program's. */
bool loaded_has_search_path(const void *address);

/* Whether the code at `address` is in an object that is searched after this library. */
bool loaded_comes_later(const void *address);

/* One relocation of an object that is filled with the address of a symbol which it does not define itself. */
typedef void (*loaded_slot_visitor)(const char *symbol, ElfW(Addr) *slot, void *data);

/* Visit all such relocations of an object, made writable for the while. */
void loaded_visit_slots(const struct dl_phdr_info *info, loaded_slot_visitor visit, void *data);

#endif
