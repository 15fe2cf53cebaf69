/* Loads plugin.c's library with RTLD_DEEPBIND, by the name it is given: loader NAME. Says "ready", then "went". */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*prepare)(void) = (int (*)(void))dlsym(plugin, "plugin_prepare");
  int (*launch)(void) = (int (*)(void))dlsym(plugin, "plugin_launch");
  if (!prepare || !launch || prepare()) return 1;
  printf("[\"ready\"]\n");
  fflush(stdout);
  if (getchar() == EOF || launch()) return 1;
  printf("[\"went\"]\n");
  return 0;
}
