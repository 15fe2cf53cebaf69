/* How long the high step's pauses last: the last 128 of them as an empirical distribution. */
#include <string.h>

#include "admit_parts.h"

/* How many of the remembered pauses are at most `length_ns`. */
static uint32_t count_upto(const struct admit_pauses *pauses, int64_t length_ns) {
  uint32_t low = 0, high = pauses->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (pauses->sorted_ns[middle] <= length_ns)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void admit_pauses_add(struct admit_pauses *pauses, int64_t pause_ns) {
  int64_t *sorted = pauses->sorted_ns;
  if (pauses->count == ADMIT_PAUSES) {
    uint32_t oldest = count_upto(pauses, pauses->recent_ns[pauses->next]) - 1;
    memmove(&sorted[oldest], &sorted[oldest + 1], (ADMIT_PAUSES - 1 - oldest) * sizeof *sorted);
    pauses->count--;
  }
  uint32_t at = count_upto(pauses, pause_ns);
  memmove(&sorted[at + 1], &sorted[at], (pauses->count - at) * sizeof *sorted);
  sorted[at] = pause_ns;
  pauses->count++;
  pauses->recent_ns[pauses->next] = pause_ns;
  pauses->next = (pauses->next + 1) % ADMIT_PAUSES;
  for (uint32_t k = 0; k < pauses->count; k++) pauses->sums_ns[k + 1] = pauses->sums_ns[k] + sorted[k];
}

/* With nothing to go by, a pause that has lasted e ends within t with probability t / (e + t): the time that something has
 * lasted is all that is known about its end. This is the expected overrun then, x - e ln(1 + x / e), to within 9 %. */
static int64_t overrun_unknown(int64_t elapsed_ns, int64_t work_ns) {
  int64_t ppm = work_ns * 1000000 / (2 * elapsed_ns + work_ns + 1);
  return work_ns / 1000 * ppm / 1000;
}

int64_t admit_pauses_overrun(const struct admit_pauses *pauses, int64_t elapsed_ns, int64_t work_ns) {
  uint32_t over = count_upto(pauses, elapsed_ns);
  uint32_t within = count_upto(pauses, elapsed_ns + work_ns);
  int64_t longer = pauses->count - over;
  int64_t overruns = (int64_t)(within - over) * (elapsed_ns + work_ns) - (pauses->sums_ns[within] - pauses->sums_ns[over]);
  return (4 * overruns + overrun_unknown(elapsed_ns, work_ns)) / (4 * longer + 1); /* the unknown has a quarter's weight */
}

int64_t admit_pauses_surely(const struct admit_pauses *pauses, int64_t elapsed_ns) {
  uint32_t over = count_upto(pauses, elapsed_ns);
  uint32_t longer = pauses->count - over;
  int64_t least_ns = longer ? pauses->sorted_ns[over] - elapsed_ns : ADMIT_LONGEST_NS;
  return longer < 8 ? admit_least(least_ns, elapsed_ns / 64) : least_ns;
}

enum { SAMPLES = 16, PLANS = 4 };

/* Rests of pauses to lend to units of one length, each rest shortened by what has to be done first. */
struct lending {
  int64_t rests_ns[SAMPLES + 1];
  uint32_t samples;
  int64_t unit_ns, switch_ns, lead_ns;
};

/* Exchange rate of lending each rest to at most `most` units: device time gained for time stolen. */
static int64_t rate_of_plan(const struct lending *lending, int64_t most) {
  int64_t gained_ns = 0, stolen_ns = 0;
  for (uint32_t k = 0; k < lending->samples; k++) {
    int64_t rest_ns = lending->rests_ns[k];
    int64_t started = (admit_most(rest_ns + lending->lead_ns, 0) + lending->unit_ns - 1) / lending->unit_ns;
    started = admit_least(admit_most(started, 1), most);
    gained_ns += started * lending->unit_ns;
    stolen_ns += lending->switch_ns + admit_most(started * lending->unit_ns - admit_most(rest_ns, 0), 0);
  }
  return gained_ns * ADMIT_ONE / admit_most(stolen_ns, 1);
}

int64_t admit_pauses_worth(const struct admit_pauses *pauses, int64_t elapsed_ns, int64_t queued_ns, int64_t unit_ns,
                           int64_t switch_ns, int64_t lead_ns) {
  struct lending lending = {.unit_ns = unit_ns, .switch_ns = switch_ns, .lead_ns = lead_ns};
  uint32_t over = count_upto(pauses, elapsed_ns);
  uint32_t longer = pauses->count - over;
  lending.samples = longer < SAMPLES ? longer : SAMPLES;
  for (uint32_t k = 0; k < lending.samples; k++)
    lending.rests_ns[k] = pauses->sorted_ns[over + (2 * k + 1) * longer / (2 * lending.samples)] - elapsed_ns - queued_ns;
  if (lending.samples < SAMPLES) lending.rests_ns[lending.samples++] = elapsed_ns / 2 - queued_ns;
  int64_t best = rate_of_plan(&lending, INT32_MAX);
  for (uint32_t plan = 0; plan < PLANS; plan++) {
    int64_t fit = lending.rests_ns[plan * (lending.samples - 1) / (PLANS - 1)] / unit_ns;
    for (int64_t most = admit_most(fit, 1); most <= fit + 1; most++)
      best = admit_most(best, rate_of_plan(&lending, most));
  }
  return best;
}
