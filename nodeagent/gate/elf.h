/* Looking a symbol up in the loaded C library without asking the loader, whose lookup functions this library replaces. */
#ifndef ELF_H
#define ELF_H

#include <link.h>
#include <stdbool.h>

/* The address of `name` in the first loaded object that defines it, this library left out; NULL when none does. */
void *elf_find(const char *name);

/* One relocation of an object that is filled with a symbol's address. */
typedef void (*elf_slot_visitor)(const char *symbol, ElfW(Addr) *slot, void *data);

/* Visit all such relocations of an object, made writable for the while. */
void elf_visit_slots(const struct dl_phdr_info *info, elf_slot_visitor visit, void *data);

#endif
