/* What dlsym says about names that are not the gate's: the same as without it. Prints one line of JSON. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Its own function of a driver's name: it is nobody's but this program's. */
__attribute__((visibility("default"))) int cuDeviceGetCount(int *count) { return *count = 41, 7; }
__attribute__((visibility("default"))) char *getenv(const char *name) { return strcmp(name, "X") ? NULL : (char *)"mine"; }

int main(void) {
  char *(*theirs)(const char *) = (char *(*)(const char *))dlsym(RTLD_NEXT, "getenv");
  char *(*ours)(const char *) = (char *(*)(const char *))dlsym(RTLD_DEFAULT, "getenv");
  int next_is_libc = theirs && theirs != getenv && theirs("HOME") != NULL;
  void *absent = dlsym(RTLD_DEFAULT, "cuInit");
  const char *error = dlerror();
  int says_why = error && strstr(error, "cuInit") != NULL;
  void *absent_in_self = dlsym(dlopen(NULL, RTLD_LAZY), "cuLaunchKernel");
  void *nothing = dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere");
  void *versioned = dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14");
  void *wrong_version = dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_9.9");
  int (*count)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuDeviceGetCount");
  int counted = 0, answered = count ? count(&counted) : 0;
  void *bad = dlopen("/no/such/library.so", RTLD_LAZY);
  const char *loading = dlerror();
  printf("[%d, %d, %d, %d, %d, %d, %d, %d, %d, %d]\n", next_is_libc, ours == getenv, absent == NULL && says_why,
         absent_in_self == NULL, nothing == NULL, versioned != NULL, wrong_version == NULL, counted == 41 && answered == 7,
         bad == NULL, loading && strstr(loading, "/no/such/library.so") != NULL);
  return 0;
}
