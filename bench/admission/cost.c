/* What a call of admit_decide costs. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <time.h>

#include "world.h"

static const struct admit_unit unit = {.id = 7, .nodes = 1};

/* The clock stands still, so that every call takes the same way. */
static double per_call_ns(struct admit *admit, uint64_t calls, uint64_t now_ns, enum admit_reason expected) {
  struct timespec began, ended;
  uint64_t astray = 0;
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (uint64_t call = 0; call < calls; call++) astray += admit_decide(admit, now_ns, &unit).reason != (uint32_t)expected;
  clock_gettime(CLOCK_MONOTONIC, &ended);
  if (astray) abort();
  return ((double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec)) / (double)calls;
}

void world_cost(uint64_t calls, double costs_ns[WORLD_COSTS]) {
  struct admit *admit = malloc(admit_size());
  const struct admit_terms terms = {10000, 1000000, 10000000, 300000000, 50000, 2000000};
  uint64_t now_ns = 1;
  admit_init(admit, now_ns);
  admit_set_terms(admit, now_ns, &terms);
  admit_set_lease(admit, now_ns, ADMIT_RUN);
  costs_ns[0] = per_call_ns(admit, calls, now_ns, ADMIT_NO_HIGH);
  admit_high_present(admit, now_ns, 0, true);
  for (uint64_t burst = 0; burst < 2 * ADMIT_PAUSES; burst++) {
    admit_high_busy(admit, now_ns, 0, now_ns);
    now_ns += 5000000;
    admit_high_idle(admit, now_ns, 0, now_ns);
    uint64_t ticket = admit_submitted(admit, now_ns, &unit);
    admit_completed(admit, now_ns + 100000, 0, ticket, now_ns + 100000, 100000);
    now_ns += 10000000 + burst * 10000;
  }
  admit_high_busy(admit, now_ns, 0, now_ns);
  now_ns += 5000000;
  costs_ns[4] = per_call_ns(admit, calls, now_ns, ADMIT_BUSY);
  admit_high_idle(admit, now_ns, 0, now_ns);
  costs_ns[3] = per_call_ns(admit, calls, now_ns, ADMIT_FITS);
  for (int k = 0; k < 4; k++) admit_submitted(admit, now_ns, &unit);
  costs_ns[1] = per_call_ns(admit, calls, now_ns, ADMIT_FED);
  admit_completed(admit, now_ns + 240000, 0, 3 + 2 * ADMIT_PAUSES, now_ns + 200000, 0);
  costs_ns[2] = per_call_ns(admit, calls, now_ns + 240000, ADMIT_FITS);
  free(admit);
}
