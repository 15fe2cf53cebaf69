/* A GPU in virtual time, one high step and some low tenants that ask admit_decide before every submission.
 *
 * The device is the design's: contexts with pending work take turns of `slice_ns`, a change of context costs `switch_ns`,
 * work is preempted where a slice ends and goes on in the next. It counts exactly how long the high step had work and did
 * not run. What the tenants see of it is delayed as on a real machine.
 */
#ifndef WORLD_H
#define WORLD_H

#include "../../nodeagent/gate/admit.h"

enum { WORLD_TENANTS = 16, WORLD_SAMPLES = 4096 };
enum world_policy { WORLD_ADMIT = 0, WORLD_ALONE = 1, WORLD_PLAIN = 2 };

struct world_setup {
  uint64_t seed, run_ns, policy, tenants;
  /* The device. */
  uint64_t slice_ns, switch_ns;
  /* The high step: bursts and the pauses after them, in turn; a burst goes out in `pieces`, `gap_ns` apart. It knows by
   * its next burst that it was idle, unless it `overlooks` a pause that is shorter than the delay in noticing. */
  uint64_t turns, pieces, gap_ns, overlooks;
  const uint64_t *bursts_ns, *pauses_ns;
  /* The low tenants: units in turn. While the high step is busy they take `spite_ppm` of that. */
  uint64_t units, spite_ppm;
  const uint64_t *unit_ids, *unit_nodes, *units_ns;
  /* What admission is told. `quantum_ns`: the tenants take turns of that; 0: all may run at once. */
  uint64_t max_slowdown_ppm, max_stall_ns, bucket_ns, told_slice_ns, told_switch_ns, quantum_ns;
  /* Delays, uniform between the two: the high step knows that it is idle; a tenant sees a completion; its stamp is late; a
   * sleeper wakes up. A launch takes `launch_ns` of the tenant's own time. */
  uint64_t notice_ns[2], reap_ns[2], stamp_ns[2], wake_ns[2], launch_ns;
};

struct world_result {
  uint64_t wall_ns, high_ran_ns, high_waited_ns, longest_wait_ns, bursts;
  uint64_t low_ran_ns[WORLD_TENANTS], most_queued_ns[WORLD_TENANTS]; /* work in a tenant's queue, at most */
  uint64_t charged_ns, decisions, reasons[ADMIT_REASONS];
  uint64_t samples, sample_every_ns, waited_ns[WORLD_SAMPLES]; /* high_waited_ns as it grew */
};

size_t world_setup_size(void);
size_t world_result_size(void);
void world_run(const struct world_setup *setup, struct world_result *result);

/* Nanoseconds per call of admit_decide: no high step about; beside an idle one with enough in flight, with the next unit due,
 * with nothing in this pause yet; beside a busy one. */
enum { WORLD_COSTS = 5 };
void world_cost(uint64_t calls, double costs_ns[WORLD_COSTS]);

#endif
