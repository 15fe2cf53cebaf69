/* The parts of admission that admit.c puts together. Durations are signed and at most ADMIT_LONGEST_NS. */
#ifndef ADMIT_PARTS_H
#define ADMIT_PARTS_H

#include "admit.h"

#define ADMIT_ONE 1024 /* exchange rates are in 1/1024: device time gained for device time stolen */

static inline int64_t admit_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t admit_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* How long from `from_ns` to `to_ns`, within what a duration may be; 0 when they are the wrong way round. */
static inline int64_t admit_span_ns(uint64_t from_ns, uint64_t to_ns) {
  if (to_ns <= from_ns) return 0;
  return to_ns - from_ns > (uint64_t)ADMIT_LONGEST_NS ? ADMIT_LONGEST_NS : (int64_t)(to_ns - from_ns);
}

/* ---- admit_pauses.c ---- */

void admit_pauses_add(struct admit_pauses *pauses, int64_t pause_ns);

/* Work of `work_ns` begins when a pause has lasted `elapsed_ns`: by how much it is expected to outlast the pause. */
int64_t admit_pauses_overrun(const struct admit_pauses *pauses, int64_t elapsed_ns, int64_t work_ns);

/* What is left of the pause in all but the rarest cases. */
int64_t admit_pauses_surely(const struct admit_pauses *pauses, int64_t elapsed_ns);

/* The best exchange rate for lending the rest of the pause to units of `unit_ns`, after `queued_ns`, at the price of
 * `switch_ns` for giving the device back, when units are queued `lead_ns` ahead. */
int64_t admit_pauses_worth(const struct admit_pauses *pauses, int64_t elapsed_ns, int64_t queued_ns, int64_t unit_ns,
                           int64_t switch_ns, int64_t lead_ns);

/* ---- admit_units.c ---- */

struct admit_estimate {
  int64_t quick_ns; /* the least that it takes */
  int64_t usual_ns; /* what it takes on average */
  bool known;
};

void admit_units_init(struct admit_units *units);
struct admit_estimate admit_units_expect(const struct admit_units *units, uint64_t id, uint32_t nodes);

/* It took `took_ns`, or, when that is not `certain`, no longer than that. */
void admit_units_learn(struct admit_units *units, uint64_t id, uint32_t nodes, int64_t took_ns, bool certain);

/* ---- admit_credit.c ---- */

void admit_credit_terms(struct admit_credit *credit, const struct admit_terms *terms);
void admit_credit_earn(struct admit_credit *credit, uint64_t now_ns);
void admit_credit_charge(struct admit_credit *credit, int64_t stolen_ns);

/* How much may be saved up for one unit. */
int64_t admit_credit_most_saved(const struct admit_credit *credit);

/* Let credit grow to `stolen_ns` if that may be saved and the bucket is too small for it; 0: the bucket will do. */
void admit_credit_save(struct admit_credit *credit, int64_t stolen_ns);

/* How long it takes to earn that much. */
int64_t admit_credit_earning_ns(const struct admit_credit *credit, int64_t credit_ns);

/* The high steps became busy after a pause that began at `pause_from_ns`, or idle. `stay_since_ns`: since when this tenant
 * has had work on the GPU without a break, ADMIT_NEVER when it has none. */
void admit_credit_busy(struct admit_credit *credit, const struct admit_terms *terms, uint64_t pause_from_ns, uint64_t at_ns,
                       uint64_t stay_since_ns);
void admit_credit_idle(struct admit_credit *credit, const struct admit_terms *terms, uint64_t at_ns);

/* This tenant had work on the GPU from `from_ns` to `to_ns`, without a break: charge what of it was stolen. */
void admit_credit_stay(struct admit_credit *credit, const struct admit_terms *terms, uint64_t from_ns, uint64_t to_ns);

/* What a stay that is not over has stolen so far. */
int64_t admit_credit_pending(const struct admit_credit *credit, const struct admit_terms *terms, uint64_t from_ns,
                             uint64_t now_ns);

/* The exchange rate that is asked at this level of credit, and the credit at which `rate` is enough. */
int64_t admit_credit_price(const struct admit_credit *credit, int64_t credit_ns);
int64_t admit_credit_for(const struct admit_credit *credit, int64_t rate);

/* How much of `overlap_ns`, in which both had work, the high step has surely run. `returned`: it began with this tenant
 * running and the high step coming back, and ended with this tenant's work complete. */
int64_t admit_credit_high_share(const struct admit_terms *terms, int64_t overlap_ns, bool returned);

#endif
