/* Every way to ask for a driver call: the loader's functions, and the driver's own cuGetProcAddress.
 *
 * dlsym, dlvsym and dlopen look at who calls them. So their replacements are a few instructions that ask C whether there is
 * something to do, and otherwise jump to the real one, which then sees the caller's own return address.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "loaded.h"
#include "gate.h"

#define NOT_THERE ((void *)(uintptr_t)-1) /* answer NULL; dlerror knows why */

#define LOCAL __attribute__((visibility("hidden"), used))

LOCAL void *(*gate_next_dlsym)(void *, const char *);
LOCAL void *(*gate_next_dlvsym)(void *, const char *, const char *);
LOCAL void *(*gate_next_dlopen)(const char *, int);

extern void *gate_entry_dlsym(void *, const char *) __asm__("dlsym");
extern void *gate_entry_dlvsym(void *, const char *, const char *) __asm__("dlvsym");
extern void *gate_entry_dlopen(const char *, int) __asm__("dlopen");

_Atomic uint64_t gate_unknown_lookups;

static void *no_dlvsym(void *handle, const char *name, const char *version) {
  (void)version;
  return gate_next_dlsym(handle, name); /* a C library without versions */
}

static void find_loader(void) {
  gate_next_dlopen = (void *(*)(const char *, int))(uintptr_t)loaded_find("dlopen");
  gate_next_dlvsym = (void *(*)(void *, const char *, const char *))(uintptr_t)loaded_find("dlvsym");
  gate_next_dlsym = (void *(*)(void *, const char *))(uintptr_t)loaded_find("dlsym");
  if (!gate_next_dlvsym) gate_next_dlvsym = no_dlvsym;
  if (!gate_next_dlsym || !gate_next_dlopen) abort(); /* no C library that could have loaded this one */
}

/* Not pthread_once: this runs before everything else, even before a sanitizer's runtime. Twice does no harm. */
static void know_loader(void) {
  static _Atomic bool known;
  if (known) return;
  find_loader();
  known = true;
}

void *gate_real_dlsym(void *handle, const char *name) {
  know_loader();
  return gate_next_dlsym(handle, name);
}

void *gate_real_dlopen(const char *name, int flags) {
  know_loader();
  return gate_next_dlopen(name, flags);
}

/* What this library has in place of a loader function's real address. */
static void *loader_entry(const void *real) {
  if (real == (void *)(uintptr_t)gate_next_dlsym) return (void *)(uintptr_t)gate_entry_dlsym;
  if (real == (void *)(uintptr_t)gate_next_dlvsym) return (void *)(uintptr_t)gate_entry_dlvsym;
  if (real == (void *)(uintptr_t)gate_next_dlopen) return (void *)(uintptr_t)gate_entry_dlopen;
  return NULL;
}

static void *loader_entry_by_name(const char *name) {
  if (loaded_compare(name, "dlsym") == 0) return (void *)(uintptr_t)gate_entry_dlsym;
  if (loaded_compare(name, "dlvsym") == 0) return (void *)(uintptr_t)gate_entry_dlvsym;
  return loaded_compare(name, "dlopen") == 0 ? (void *)(uintptr_t)gate_entry_dlopen : NULL;
}

static bool is_driver(const void *address) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname) return false;
  const char *slash = strrchr(info.dli_fname, '/'), *file = slash ? slash + 1 : info.dli_fname;
  return loaded_begins(file, "libcuda.so") || loaded_begins(file, "libnvidia-ml.so");
}

static bool is_loader_name(const char *name) { return loader_entry_by_name(name) != NULL; }

/* Without a driver in the process its names are not there, although this library has them. */
static void *after_this_library(const char *name) {
  void *found = gate_next_dlsym(RTLD_NEXT, name);
  return found ? found : NOT_THERE;
}

/* What a look-up of one of our names in an ordinary handle gives. */
static void *in_handle(void *handle, const char *name, int index) {
  void *found = gate_next_dlsym(handle, name);
  if (!found) return NOT_THERE;
  if (found == gate_symbols[index].entry) /* through the global scope, in which this library comes first */
    return gate_bind(index) ? found : after_this_library(name);
  gate_bind(index);
  return found == gate_real[index] || is_driver(found) ? gate_symbols[index].entry : found;
}

/* NULL: let the real one answer, as if called by who called us. */
LOCAL void *gate_on_dlsym(void *handle, const char *name, const void *unused, const void *caller) {
  (void)unused;
  know_loader();
  if (!name) return NULL;
  int index = gate_index_of(name);
  if (index >= 0) {
    if (handle != RTLD_DEFAULT && handle != RTLD_NEXT) return in_handle(handle, name, index);
    return gate_bind(index) ? gate_symbols[index].entry : after_this_library(name);
  }
  if (!is_loader_name(name) || handle == RTLD_DEFAULT) return NULL;
  /* Whoever stands before this library gets what comes after them: this one, or something that passes on to it. */
  if (handle == RTLD_NEXT) return loaded_comes_later(caller) ? loader_entry_by_name(name) : NULL;
  void *found = gate_next_dlsym(handle, name);
  if (!found) return NOT_THERE;
  void *entry = loader_entry(found);
  return entry ? entry : found;
}

LOCAL void *gate_on_dlvsym(void *handle, const char *name, const char *version, const void *caller) {
  know_loader();
  if (!name || !version) return NULL;
  if (is_loader_name(name) && handle == RTLD_NEXT) return loaded_comes_later(caller) ? loader_entry_by_name(name) : NULL;
  if (is_loader_name(name)) return handle == RTLD_DEFAULT ? NULL : loader_entry(gate_next_dlvsym(handle, name, version));
  int index = gate_index_of(name);
  if (index < 0 || handle == RTLD_DEFAULT || handle == RTLD_NEXT) return NULL;
  void *found = gate_next_dlvsym(handle, name, version);
  if (!found) return NULL;
  gate_bind(index);
  return found == gate_real[index] || is_driver(found) ? gate_symbols[index].entry : found;
}

/* ---- RTLD_DEEPBIND: such a library finds the driver and the loader before it finds this one ---- */

static _Atomic bool deep_bound;

static void redirect(const char *symbol, ElfW(Addr) *slot, void *data) {
  (void)data;
  int index = gate_index_of(symbol);
  void *entry = index >= 0 ? gate_symbols[index].entry : loader_entry_by_name(symbol);
  if (entry && *slot != (ElfW(Addr))entry) *slot = (ElfW(Addr))entry;
}

static int redirect_object(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  loaded_visit_slots(info, redirect, data);
  return 0;
}

static void redirect_deep_bound(void) {
  if (atomic_exchange(&deep_bound, false)) dl_iterate_phdr(redirect_object, NULL);
}

LOCAL void *gate_on_dlopen(const char *name, int flags, const void *unused, const void *caller) {
  (void)unused;
  know_loader();
  redirect_deep_bound();
  if (!(flags & RTLD_DEEPBIND)) return NULL;
  deep_bound = true;
  /* What the caller's own search path finds, only the caller can load: that is redirected at the next look-up. */
  if (!name || (!strchr(name, '/') && loaded_has_search_path(caller))) return NULL;
  void *handle = gate_next_dlopen(name, flags);
  redirect_deep_bound();
  return handle;
}

/* ---- cuGetProcAddress ---- */

static const struct gate_name *newest(const char *name, int version, bool per_thread, bool *known) {
  const struct gate_name *best = NULL;
  for (const struct gate_name *row = gate_names; row->name; row++) {
    if (row->per_thread != per_thread || loaded_compare(row->name, name) != 0) continue;
    *known = true;
    if (row->version <= version) best = row; /* rows are in order of version */
  }
  return best;
}

/* Is what the driver has for a version newer than our headers the same function as for theirs? */
static bool is_same_function(const char *name, const void *found, cuuint64_t flags) {
  CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
      (CUresult(*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))
          gate_real[GATE_cuGetProcAddress_v2];
  void *known = NULL;
  return ask && ask(name, &known, CUDA_VERSION, flags, NULL) == CUDA_SUCCESS && known == found;
}

void *gate_substitute(const char *name, void *found, int version, cuuint64_t flags) {
  redirect_deep_bound();
  if (!name || !found) return found;
  for (int k = 0; k < GATE_SYMBOLS; k++)
    if (gate_real[k] == found || gate_symbols[k].entry == found) return gate_symbols[k].entry;
  bool known = false, per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  int asked = version < CUDA_VERSION ? version : CUDA_VERSION;
  const struct gate_name *row = per_thread ? newest(name, asked, true, &known) : NULL;
  if (!row) row = newest(name, asked, false, &known);
  if (!row) {
    gate_unknown_lookups += known;
    return found;
  }
  if (version > CUDA_VERSION && !is_same_function(name, found, flags)) {
    gate_unknown_lookups++;
    return found;
  }
  if (!gate_real[row->index]) gate_real[row->index] = found;
  return gate_symbols[row->index].entry;
}

#if defined(__x86_64__)
/* Entered with rsp 8 off 16. Three pushes keep the arguments and align it. The fourth argument is who called. */
#define REPLACEMENT(name)                                    \
  __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" \
          "  endbr64\n"                                      \
          "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n"       \
          "  movq 24(%rsp), %rcx\n"                         \
          "  call gate_on_" #name "\n"                       \
          "  popq %rdx\n  popq %rsi\n  popq %rdi\n"          \
          "  testq %rax, %rax\n  jz 1f\n"                    \
          "  cmpq $-1, %rax\n  jne 2f\n  xorl %eax, %eax\n"  \
          "2: ret\n"                                        \
          "1: jmp *gate_next_" #name "(%rip)\n"              \
          ".size " #name ", .-" #name "\n")
#elif defined(__aarch64__)
#define REPLACEMENT(name)                                    \
  __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n" \
          "  hint #34\n"                                     \
          "  stp x29, x30, [sp, #-48]!\n  mov x29, sp\n"     \
          "  stp x0, x1, [sp, #16]\n  str x2, [sp, #32]\n"   \
          "  mov x3, x30\n"                                 \
          "  bl gate_on_" #name "\n"                         \
          "  mov x16, x0\n"                                  \
          "  ldp x0, x1, [sp, #16]\n  ldr x2, [sp, #32]\n"   \
          "  ldp x29, x30, [sp], #48\n"                      \
          "  cbz x16, 1f\n"                                 \
          "  cmn x16, #1\n  csel x0, xzr, x16, eq\n  ret\n"  \
          "1: adrp x16, gate_next_" #name "\n"               \
          "  ldr x16, [x16, #:lo12:gate_next_" #name "]\n"   \
          "  br x16\n"                                       \
          ".size " #name ", .-" #name "\n")
#endif

REPLACEMENT(dlsym);
REPLACEMENT(dlvsym);
REPLACEMENT(dlopen);
