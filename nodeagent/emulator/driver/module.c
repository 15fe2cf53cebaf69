/* Modules, libraries and the kernels in them. A module is a library here, and a function is a kernel.
 *
 * An image that is text (PTX, or only lines "kernel NAME DURATION") has the kernels that it declares. What is in a binary
 * image is not known: it has every kernel that is asked for.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "durations.h"
#include "graph.h"

struct CUlib_st {
  enum emu_magic magic;
  char *text; /* of a text image, or NULL */
  bool declares;
  struct emu_kernel *kernels;
};

CUresult emu_kernel_of(CUfunction function, struct emu_kernel **kernel) {
  *kernel = (struct emu_kernel *)function;
  return EMU_IS(*kernel, EMU_KERNEL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult library_of(const void *handle, struct CUlib_st **library) {
  *library = (struct CUlib_st *)(uintptr_t)handle;
  return EMU_IS(*library, EMU_LIBRARY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static struct emu_kernel *add_kernel(struct CUlib_st *library, const char *name, size_t length, unsigned parameters) {
  struct emu_kernel *kernel = calloc(1, sizeof *kernel + length + 1);
  if (!kernel) return NULL;
  memcpy(kernel->name, name, length);
  kernel->magic = EMU_KERNEL;
  kernel->library = library;
  kernel->parameters = parameters;
  kernel->duration_ns =
      emu_duration_of(library->text, kernel->name, emu_driver.machine->devices[0].head.default_kernel_ns);
  struct emu_kernel **end = &library->kernels;
  while (*end) end = &(*end)->next;
  *end = kernel;
  return kernel;
}

static struct emu_kernel *find_kernel(struct CUlib_st *library, const char *name, size_t length) {
  struct emu_kernel *kernel = library->kernels;
  while (kernel && (strlen(kernel->name) != length || strncmp(kernel->name, name, length) != 0)) kernel = kernel->next;
  return kernel;
}

/* The ".entry NAME ( .param ..., .param ... )" and "kernel NAME ..." of a text. */
static bool read_declarations(struct CUlib_st *library) {
  for (const char *at = library->text; (at = strstr(at, ".entry")); at++) {
    const char *name = at + 6 + strspn(at + 6, " \t\r\n");
    size_t length = strcspn(name, " \t\r\n({;");
    const char *rest = name + length + strspn(name + length, " \t\r\n");
    unsigned parameters = 0;
    if (*rest == '(') {
      const char *close = strchr(rest, ')');
      for (const char *found = rest; close && (found = strstr(found, ".param")) && found < close; found++) parameters++;
    }
    if (!length || find_kernel(library, name, length)) continue;
    if (!add_kernel(library, name, length, parameters)) return false;
  }
  for (const char *line = library->text; line && *line; line = strchr(line, '\n')) {
    line += strspn(line, "\n");
    const char *word = line + strspn(line, " \t/");
    if (strncmp(word, "kernel", 6) != 0 || !isspace((unsigned char)word[6])) continue;
    word += 6 + strspn(word + 6, " \t");
    size_t length = strcspn(word, " \t\r\n");
    uint64_t duration_ns;
    char name[256];
    if (!length || length >= sizeof name) continue;
    memcpy(name, word, length);
    name[length] = 0;
    if (!emu_duration_in_text(library->text, name, &duration_ns) || find_kernel(library, word, length)) continue;
    if (!add_kernel(library, word, length, 0)) return false;
  }
  library->declares = library->kernels != NULL;
  return true;
}

static bool is_text(const unsigned char *image) {
  for (int byte = 0; byte < 4 && image[byte]; byte++)
    if (!isprint(image[byte]) && !isspace(image[byte])) return false;
  return image[0] != 0;
}

static CUresult load_image(const void *image, struct CUlib_st **made) {
  if (!image || !made) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = emu_check_capture();
  if (result != CUDA_SUCCESS) return result;
  struct CUlib_st *library = calloc(1, sizeof *library);
  if (!library) return CUDA_ERROR_OUT_OF_MEMORY;
  library->magic = EMU_LIBRARY;
  emu_lock();
  if (is_text(image)) {
    library->text = strdup(image);
    if (!library->text || !read_declarations(library)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  emu_unlock();
  *made = library;
  return result;
}

static CUresult load_file(const char *path, struct CUlib_st **made) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  char *image = emu_read_file(path, NULL);
  if (!image) return CUDA_ERROR_FILE_NOT_FOUND;
  CUresult result = load_image(image, made);
  free(image);
  return result;
}

static void unload(struct CUlib_st *library) {
  emu_lock();
  library->magic = 0;
  while (library->kernels) {
    struct emu_kernel *kernel = library->kernels;
    library->kernels = kernel->next;
    kernel->magic = 0;
    free(kernel);
  }
  emu_unlock();
  free(library->text);
  free(library);
}

static CUresult get_kernel(struct CUlib_st *library, const char *name, struct emu_kernel **found) {
  if (!found || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  *found = find_kernel(library, name, strlen(name));
  if (!*found && !library->declares) *found = add_kernel(library, name, strlen(name), 0);
  emu_unlock();
  return *found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static unsigned count_kernels(struct CUlib_st *library) {
  unsigned count = 0;
  for (struct emu_kernel *kernel = library->kernels; kernel; kernel = kernel->next) count++;
  return count;
}

/* Begin a call about a module of the current context, or about a library. */
#define EMU_WITH_CONTEXT()                 \
  EMU_ENTER();                             \
  CUcontext context;                       \
  CUresult current = emu_current(&context); \
  if (current != CUDA_SUCCESS) return current
#define EMU_WITH_LIBRARY(handle, argument)          \
  EMU_ENTER();                                      \
  struct CUlib_st *library;                         \
  if (!(argument)) return CUDA_ERROR_INVALID_VALUE; \
  CUresult known = library_of((handle), &library);  \
  if (known != CUDA_SUCCESS) return known
#define EMU_WITH_KERNEL(handle, argument)                               \
  EMU_ENTER();                                                          \
  struct emu_kernel *kernel;                                            \
  if (!(argument)) return CUDA_ERROR_INVALID_VALUE;                     \
  CUresult known = emu_kernel_of((CUfunction)(uintptr_t)(handle), &kernel); \
  if (known != CUDA_SUCCESS) return known

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  EMU_WITH_CONTEXT();
  return load_image(image, (struct CUlib_st **)module);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                                    void **values) {
  (void)count, (void)options, (void)values; /* nothing is compiled */
  return cuModuleLoadData(module, image);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *path) {
  EMU_WITH_CONTEXT();
  return load_file(path, (struct CUlib_st **)module);
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  EMU_WITH_LIBRARY(module, true);
  unload(library);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  EMU_ENTER();
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  EMU_WITH_LIBRARY(module, function);
  return get_kernel(library, name, (struct emu_kernel **)function);
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule module) {
  EMU_WITH_LIBRARY(module, count);
  *count = count_kernels(library);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions, unsigned int room, CUmodule module) {
  EMU_WITH_LIBRARY(module, functions);
  struct emu_kernel *kernel = library->kernels;
  for (unsigned index = 0; index < room && kernel; index++, kernel = kernel->next) functions[index] = (CUfunction)kernel;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values,
                                   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count) {
  EMU_ENTER();
  (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  return load_image(code, (struct CUlib_st **)library);
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit_options, void **jit_values,
                                       unsigned int jit_count, CUlibraryOption *options, void **values,
                                       unsigned int count) {
  EMU_ENTER();
  (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  return load_file(path, (struct CUlib_st **)library);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) { return cuModuleUnload((CUmodule)handle); }

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name) {
  EMU_WITH_LIBRARY(handle, kernel);
  return get_kernel(library, name, (struct emu_kernel **)kernel);
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle) {
  return cuModuleGetFunctionCount(count, (CUmodule)handle);
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary handle) {
  return cuModuleEnumerateFunctions((CUfunction *)kernels, room, (CUmodule)handle);
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary handle) {
  EMU_WITH_LIBRARY(handle, module);
  *module = (CUmodule)library;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel handle) {
  EMU_WITH_KERNEL(handle, function);
  *function = (CUfunction)kernel;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *library, CUkernel handle) {
  EMU_WITH_KERNEL(handle, library);
  *library = (CUlibrary)kernel->library;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *module, CUfunction handle) {
  return cuKernelGetLibrary((CUlibrary *)module, (CUkernel)handle);
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel handle) {
  EMU_WITH_KERNEL(handle, name);
  *name = kernel->name;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction handle) { return cuKernelGetName(name, (CUkernel)handle); }

/* Parameters are taken to be eight bytes each: a text image says how many, not what they mean to anyone here. */
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size) {
  EMU_WITH_KERNEL(handle, offset);
  if (index >= kernel->parameters) return CUDA_ERROR_INVALID_VALUE;
  *offset = index * 8;
  if (size) *size = 8;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size) {
  return cuKernelGetParamInfo((CUkernel)handle, index, offset, size);
}

CUresult CUDAAPI cuKernelGetParamCount(CUkernel handle, size_t *count) {
  EMU_WITH_KERNEL(handle, count);
  *count = kernel->parameters;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamCount(CUfunction handle, size_t *count) { return cuKernelGetParamCount((CUkernel)handle, count); }

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle) {
  EMU_WITH_KERNEL(handle, value);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 80; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = 49152; break;
    default: *value = 0;
  }
  return (unsigned)attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel handle, CUdevice device) {
  CUresult result = cuFuncGetAttribute(value, attribute, (CUfunction)handle);
  return result == CUDA_SUCCESS ? emu_check_device(device) : result;
}

/* Shared memory, carve-outs and cache preferences change nothing about how long a kernel takes here. */
CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  EMU_WITH_KERNEL(handle, (unsigned)attribute < CU_FUNC_ATTRIBUTE_MAX);
  (void)value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice device) {
  CUresult result = cuFuncSetAttribute((CUfunction)handle, attribute, value);
  return result == CUDA_SUCCESS ? emu_check_device(device) : result;
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  EMU_WITH_KERNEL(handle, (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device) {
  CUresult result = cuFuncSetCacheConfig((CUfunction)handle, config);
  return result == CUDA_SUCCESS ? emu_check_device(device) : result;
}

CUresult CUDAAPI cuFuncLoad(CUfunction handle) {
  EMU_WITH_KERNEL(handle, true);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle) {
  EMU_WITH_KERNEL(handle, state);
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
