/* Symbol tables and relocations of loaded objects. See loaded.h. */
#include "loaded.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

struct tables {
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *gnu_hash, *sysv_hash;
  const ElfW(Rela) * rela, *plt_rela;
  size_t rela_bytes, plt_bytes;
  bool has_own_path, has_path_for_others;
  ElfW(Xword) name; /* in `strings` */
};

/* glibc and musl differ in whether they relocate the addresses in PT_DYNAMIC; the vdso's are never relocated. */
static const void *place(ElfW(Addr) base, ElfW(Addr) address) {
  return (const void *)(address < base ? base + address : address);
}

static bool read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * entry, struct tables *tables) {
  *tables = (struct tables){0};
  if (!entry) return false;
  for (; entry->d_tag != DT_NULL; entry++) {
    switch (entry->d_tag) {
      case DT_SYMTAB: tables->symbols = place(base, entry->d_un.d_ptr); break;
      case DT_STRTAB: tables->strings = place(base, entry->d_un.d_ptr); break;
      case DT_GNU_HASH: tables->gnu_hash = place(base, entry->d_un.d_ptr); break;
      case DT_HASH: tables->sysv_hash = place(base, entry->d_un.d_ptr); break;
      case DT_RELA: tables->rela = place(base, entry->d_un.d_ptr); break;
      case DT_RELASZ: tables->rela_bytes = entry->d_un.d_val; break;
      case DT_JMPREL: tables->plt_rela = place(base, entry->d_un.d_ptr); break;
      case DT_PLTRELSZ: tables->plt_bytes = entry->d_un.d_val; break;
      case DT_SONAME: tables->name = entry->d_un.d_val; break;
      case DT_RPATH: tables->has_own_path = tables->has_path_for_others = true; break;
      case DT_RUNPATH: tables->has_own_path = true; break;
      default: break;
    }
  }
  return tables->symbols && tables->strings;
}

static bool read_tables(const struct dl_phdr_info *info, struct tables *tables) {
  const ElfW(Dyn) *dynamic = NULL;
  for (int k = 0; k < info->dlpi_phnum; k++)
    if (info->dlpi_phdr[k].p_type == PT_DYNAMIC)
      dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[k].p_vaddr);
  return read_dynamic(info->dlpi_addr, dynamic, tables);
}

static bool defines(const struct tables *tables, uint32_t index, const char *name) {
  const ElfW(Sym) *symbol = &tables->symbols[index];
  return symbol->st_shndx != SHN_UNDEF && symbol->st_value && loaded_compare(tables->strings + symbol->st_name, name) == 0;
}

static const ElfW(Sym) * find_by_gnu_hash(const struct tables *tables, const char *name) {
  uint32_t hash = 5381;
  for (const char *letter = name; *letter; letter++) hash = hash * 33 + (unsigned char)*letter;
  const uint32_t *head = tables->gnu_hash;
  uint32_t bucket_count = head[0], first = head[1], bloom_words = head[2];
  const uint32_t *buckets = (const uint32_t *)((const ElfW(Addr) *)(head + 4) + bloom_words);
  const uint32_t *chain = buckets + bucket_count;
  if (!bucket_count) return NULL;
  for (uint32_t index = buckets[hash % bucket_count]; index >= first; index++) {
    uint32_t entry = chain[index - first];
    if ((entry | 1) == (hash | 1) && defines(tables, index, name)) return &tables->symbols[index];
    if (entry & 1) break;
  }
  return NULL;
}

static const ElfW(Sym) * find_by_walking(const struct tables *tables, const char *name) {
  for (uint32_t index = 0; index < tables->sysv_hash[1]; index++)
    if (defines(tables, index, name)) return &tables->symbols[index];
  return NULL;
}

static bool holds(const struct dl_phdr_info *info, const void *address) {
  ElfW(Addr) here = (ElfW(Addr))address;
  for (int k = 0; k < info->dlpi_phnum; k++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[k];
    ElfW(Addr) from = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && here >= from && here < from + part->p_memsz) return true;
  }
  return false;
}

static bool is_this_library(const struct dl_phdr_info *info) { return holds(info, (const void *)(uintptr_t)&loaded_find); }

struct path_search {
  const void *caller;
  bool found;
};

static int search_path(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct path_search *search = data;
  struct tables tables;
  bool program = !info->dlpi_name || !info->dlpi_name[0], calls = holds(info, search->caller);
  if ((program || calls) && read_tables(info, &tables))
    search->found |= calls ? tables.has_own_path : tables.has_path_for_others;
  return 0;
}

bool loaded_has_search_path(const void *address) {
  struct path_search search = {.caller = address};
  dl_iterate_phdr(search_path, &search);
  return search.found;
}

static void *find_in(const struct tables *tables, ElfW(Addr) base, const char *name) {
  const ElfW(Sym) *symbol = NULL;
  if (tables->gnu_hash) symbol = find_by_gnu_hash(tables, name);
  else if (tables->sysv_hash) symbol = find_by_walking(tables, name);
  return symbol ? (void *)(base + symbol->st_value) : NULL;
}

/* Not any other library that stands before it: that one may well pass on to us what we would pass on to it. */
static bool is_c_library(const struct tables *tables) {
  const char *name = tables->strings + tables->name;
  return loaded_begins(name, "libc.") || loaded_begins(name, "libdl.") || loaded_begins(name, "ld-musl");
}

struct search {
  const char *name;
  void *found;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct search *search = data;
  struct tables tables;
  if (!is_this_library(info) && read_tables(info, &tables) && is_c_library(&tables)) search->found = find_in(&tables, info->dlpi_addr, search->name);
  return search->found != NULL;
}

/* glibc's list of what is loaded. Sanitizers replace dl_iterate_phdr with a version that does not work yet when they
 * themselves look symbols up; nobody replaces this. */
extern struct r_debug _r_debug __attribute__((weak));

void *loaded_find(const char *name) {
  if (!&_r_debug) {
    struct search search = {.name = name};
    dl_iterate_phdr(search_object, &search);
    return search.found;
  }
  for (const struct link_map *object = _r_debug.r_map; object; object = object->l_next) {
    struct tables tables;
    if (object->l_ld == _DYNAMIC || !read_dynamic(object->l_addr, object->l_ld, &tables) || !is_c_library(&tables))
      continue;
    void *found = find_in(&tables, object->l_addr, name);
    if (found) return found;
  }
  return NULL;
}

bool loaded_comes_later(const void *address) {
  Dl_info info;
  if (!&_r_debug || !dladdr(address, &info)) return false;
  for (const struct link_map *object = _r_debug.r_map; object && object->l_ld != _DYNAMIC; object = object->l_next)
    if (object->l_addr == (ElfW(Addr))info.dli_fbase) return false;
  return true;
}

#if defined(__x86_64__)
enum { FILLED = R_X86_64_GLOB_DAT, CALLED = R_X86_64_JUMP_SLOT, STORED = R_X86_64_64 };
#elif defined(__aarch64__)
enum { FILLED = R_AARCH64_GLOB_DAT, CALLED = R_AARCH64_JUMP_SLOT, STORED = R_AARCH64_ABS64 };
#endif

static void visit_table(const struct dl_phdr_info *info, const struct tables *tables, const ElfW(Rela) * table,
                        size_t bytes, loaded_slot_visitor visit, void *data) {
  for (size_t k = 0; k < bytes / sizeof *table; k++) {
    uint64_t type = ELF64_R_TYPE(table[k].r_info);
    if ((type != FILLED && type != CALLED && type != STORED) || table[k].r_addend) continue;
    const ElfW(Sym) *symbol = &tables->symbols[ELF64_R_SYM(table[k].r_info)];
    if (symbol->st_shndx != SHN_UNDEF) continue;
    visit(tables->strings + symbol->st_name, (ElfW(Addr) *)(info->dlpi_addr + table[k].r_offset), data);
  }
}

void loaded_visit_slots(const struct dl_phdr_info *info, loaded_slot_visitor visit, void *data) {
  struct tables tables;
  if (is_this_library(info) || !read_tables(info, &tables)) return;
  ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE), from = 0, to = 0;
  for (int k = 0; k < info->dlpi_phnum; k++) {
    if (info->dlpi_phdr[k].p_type != PT_GNU_RELRO) continue;
    from = (info->dlpi_addr + info->dlpi_phdr[k].p_vaddr) & ~(page - 1);
    to = (info->dlpi_addr + info->dlpi_phdr[k].p_vaddr + info->dlpi_phdr[k].p_memsz) & ~(page - 1);
  }
  if (to > from && mprotect((void *)from, to - from, PROT_READ | PROT_WRITE)) return;
  visit_table(info, &tables, tables.rela, tables.rela_bytes, visit, data);
  visit_table(info, &tables, tables.plt_rela, tables.plt_bytes, visit, data);
  if (to > from) mprotect((void *)from, to - from, PROT_READ);
}
