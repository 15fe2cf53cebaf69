/* What a call of admit_decide costs. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <time.h>

#include "world.h"

static double per_call_ns(struct admit *admit, uint64_t calls, uint64_t now_ns) {
  struct admit_unit unit = {.id = 7, .nodes = 1};
  struct timespec began, ended;
  volatile uint32_t went = 0;
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (uint64_t call = 0; call < calls; call++) went = went + admit_decide(admit, now_ns + call, &unit).go;
  clock_gettime(CLOCK_MONOTONIC, &ended);
  return ((double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec)) / (double)calls;
}

void world_cost(uint64_t calls, double *no_high_ns, double *idle_high_ns, double *busy_high_ns) {
  struct admit *admit = malloc(admit_size());
  const struct admit_terms terms = {10000, 1000000, 10000000, 300000000, 50000, 2000000};
  struct admit_unit unit = {.id = 7, .nodes = 1};
  uint64_t now_ns = 1;
  admit_init(admit, now_ns);
  admit_set_terms(admit, now_ns, &terms);
  admit_set_lease(admit, now_ns, ADMIT_RUN);
  *no_high_ns = per_call_ns(admit, calls, now_ns);
  admit_high_present(admit, now_ns, 0, true);
  for (int burst = 0; burst < 2 * ADMIT_PAUSES; burst++) {
    admit_high_busy(admit, now_ns, 0, now_ns);
    now_ns += 5000000;
    admit_high_idle(admit, now_ns, 0, now_ns);
    uint64_t ticket = admit_submitted(admit, now_ns, &unit);
    admit_completed(admit, now_ns + 100000, 0, ticket, now_ns + 100000, 50000);
    now_ns += 10000000 + (uint64_t)burst * 10000;
  }
  admit_high_busy(admit, now_ns, 0, now_ns);
  now_ns += 5000000;
  *busy_high_ns = per_call_ns(admit, calls, now_ns);
  now_ns += 10000000;
  admit_high_idle(admit, now_ns, 0, now_ns);
  for (int k = 0; k < 4; k++) admit_submitted(admit, now_ns, &unit);
  now_ns += 150000; /* the next is due */
  admit_completed(admit, now_ns, 0, ADMIT_NEVER, now_ns, 0);
  for (int k = 0; k < 4; k++) admit_submitted(admit, now_ns, &(struct admit_unit){.id = 7, .nodes = 1});
  *idle_high_ns = per_call_ns(admit, calls, now_ns);
  free(admit);
}
