/* What may be stolen from the high steps, and what was. */
#include "admit_parts.h"

enum { PPM = 1000000, PPB = 1000000000 };

/* Of the budget, this much is spent on purpose; the rest is for what a gate cannot see, such as stamps that are a little
 * early. */
static const uint64_t spent_ppm = 985000;

/* How late completions and marks may be seen before the share of the high step would be overrated. */
static const int64_t late_ns = 100000;

/* For a unit that steals more than a bucket holds, up to this many buckets are saved. */
enum { SAVED_BUCKETS = 10 };

/* The dearest exchange rate is 2^9, at no credit; it halves with every eleventh of the bucket. */
enum { DEAREST_LOG2 = 9, HALVINGS = 11 };

void admit_credit_terms(struct admit_credit *credit, const struct admit_terms *terms) {
  uint64_t slowdown = terms->max_slowdown_ppm < PPM ? terms->max_slowdown_ppm : PPM;
  uint64_t budget = terms->budget_ppm < PPM ? terms->budget_ppm : PPM;
  uint64_t bucket = terms->bucket_ns < 10 * (uint64_t)PPB ? terms->bucket_ns : 10 * (uint64_t)PPB;
  /* Stolen time is bounded in parts of what the high step takes alone; credit is earned by the clock that runs on while
   * it is delayed: s / (1 + s). */
  credit->rate_ppb = slowdown * PPB / (PPM + slowdown) * budget / PPM * spent_ppm / PPM;
  credit->bucket_ns = (int64_t)(credit->rate_ppb * bucket / PPB);
  credit->credit_ns = admit_least(credit->credit_ns, credit->bucket_ns);
}

void admit_credit_earn(struct admit_credit *credit, uint64_t now_ns) {
  uint64_t passed_ns = now_ns > credit->earned_to_ns ? now_ns - credit->earned_to_ns : 0;
  if (passed_ns > 10 * (uint64_t)PPB) passed_ns = 10 * (uint64_t)PPB;
  uint64_t earned = passed_ns * credit->rate_ppb + credit->earned_rest;
  credit->earned_to_ns = now_ns;
  credit->earned_rest = earned % PPB;
  int64_t most_ns = admit_most(credit->bucket_ns, credit->saving_ns);
  if (credit->credit_ns < most_ns) credit->credit_ns = admit_least(credit->credit_ns + (int64_t)(earned / PPB), most_ns);
}

int64_t admit_credit_most_saved(const struct admit_credit *credit) { return SAVED_BUCKETS * credit->bucket_ns; }

void admit_credit_save(struct admit_credit *credit, int64_t stolen_ns) {
  if (stolen_ns <= admit_credit_most_saved(credit)) credit->saving_ns = stolen_ns;
}

int64_t admit_credit_earning_ns(const struct admit_credit *credit, int64_t credit_ns) {
  if (credit_ns <= 0) return 0;
  if (!credit->rate_ppb || credit_ns > ADMIT_LONGEST_NS / 100) return ADMIT_LONGEST_NS;
  return credit_ns * PPB / (int64_t)credit->rate_ppb;
}

void admit_credit_charge(struct admit_credit *credit, int64_t stolen_ns) {
  credit->credit_ns = admit_most(credit->credit_ns - stolen_ns, -100 * ADMIT_LONGEST_NS);
  credit->charged_ns += stolen_ns;
}

int64_t admit_credit_high_share(const struct admit_terms *terms, int64_t overlap_ns, bool returned) {
  if (!terms->slice_ns || terms->slice_ns > (uint64_t)ADMIT_LONGEST_NS) return 0;
  int64_t slice_ns = (int64_t)terms->slice_ns, switch_ns = (int64_t)terms->switch_ns;
  int64_t cycle_ns = 2 * (slice_ns + switch_ns);
  if (returned) { /* overlaps with one slice of the high step's more are longer by two switches than those without */
    int64_t margin_ns = admit_most(late_ns - 2 * switch_ns, 0);
    return admit_most(overlap_ns - margin_ns + slice_ns, 0) / cycle_ns * slice_ns;
  }
  int64_t rest_ns = overlap_ns - late_ns - slice_ns - switch_ns;
  if (rest_ns <= 0) return 0;
  return rest_ns / cycle_ns * slice_ns + admit_least(rest_ns % cycle_ns, slice_ns);
}

/* What a stay from `from_ns` to `to_ns` steals within one busy span: giving the device back, if the stay reaches into the
 * pause before the span and no other one has been charged for that, and the time in which both had work. */
static int64_t stolen_in(const struct admit_span *span, const struct admit_terms *terms, uint64_t from_ns, uint64_t to_ns,
                         bool over) {
  if (to_ns <= span->pause_from_ns || from_ns >= span->to_ns) return 0;
  bool came_between = from_ns >= span->from_ns;
  int64_t stolen_ns = came_between || !span->given_back ? (int64_t)terms->switch_ns : 0;
  uint64_t begin_ns = came_between ? from_ns : span->from_ns;
  int64_t overlap_ns = admit_span_ns(begin_ns, to_ns < span->to_ns ? to_ns : span->to_ns);
  bool returned = !came_between && over && to_ns <= span->to_ns;
  return stolen_ns + overlap_ns - admit_credit_high_share(terms, overlap_ns, returned);
}

static uint32_t first_kept(uint32_t count, uint32_t capacity) { return count > capacity ? count - capacity : 0; }

static void charge_in(struct admit_credit *credit, struct admit_span *span, const struct admit_terms *terms,
                      const struct admit_stay *stay) {
  admit_credit_charge(credit, stolen_in(span, terms, stay->from_ns, stay->to_ns, true));
  if (stay->from_ns < span->from_ns && stay->to_ns > span->pause_from_ns) span->given_back = 1;
}

/* The stays that are over and not forgotten, as a span that has just become known, or known better, finds them. */
static void charge_known_stays(struct admit_credit *credit, struct admit_span *span, const struct admit_terms *terms) {
  for (uint32_t k = first_kept(credit->stays, ADMIT_STAYS); k < credit->stays; k++)
    charge_in(credit, span, terms, &credit->stay[k % ADMIT_STAYS]);
}

void admit_credit_busy(struct admit_credit *credit, const struct admit_terms *terms, uint64_t pause_from_ns, uint64_t at_ns,
                       uint64_t stay_since_ns) {
  struct admit_span *span = &credit->span[credit->spans % ADMIT_SPANS];
  if (credit->spans++ >= ADMIT_SPANS) /* a stay that outlasts all that is remembered pays for what is forgotten now */
    admit_credit_charge(credit, stolen_in(span, terms, stay_since_ns, ADMIT_NEVER, false));
  *span = (struct admit_span){.pause_from_ns = pause_from_ns, .from_ns = at_ns, .to_ns = ADMIT_NEVER};
  charge_known_stays(credit, span, terms);
}

void admit_credit_idle(struct admit_credit *credit, const struct admit_terms *terms, uint64_t at_ns) {
  if (!credit->spans) return;
  struct admit_span *span = &credit->span[(credit->spans - 1) % ADMIT_SPANS];
  for (uint32_t k = first_kept(credit->stays, ADMIT_STAYS); k < credit->stays; k++) {
    const struct admit_stay *stay = &credit->stay[k % ADMIT_STAYS];
    if (stay->to_ns <= at_ns) continue; /* else it was charged for more than the span turns out to be */
    int64_t charged_ns = stolen_in(span, terms, stay->from_ns, stay->to_ns, true);
    struct admit_span known = *span;
    known.to_ns = at_ns;
    admit_credit_charge(credit, stolen_in(&known, terms, stay->from_ns, stay->to_ns, true) - charged_ns);
  }
  span->to_ns = at_ns;
}

int64_t admit_credit_pending(const struct admit_credit *credit, const struct admit_terms *terms, uint64_t from_ns,
                             uint64_t now_ns) {
  int64_t stolen_ns = 0;
  for (uint32_t k = credit->spans; k-- > first_kept(credit->spans, ADMIT_SPANS);) {
    const struct admit_span *span = &credit->span[k % ADMIT_SPANS];
    if (span->to_ns <= from_ns) break;
    stolen_ns += stolen_in(span, terms, from_ns, now_ns, false);
  }
  return stolen_ns;
}

void admit_credit_stay(struct admit_credit *credit, const struct admit_terms *terms, uint64_t from_ns, uint64_t to_ns) {
  const struct admit_stay stay = {from_ns, to_ns};
  for (uint32_t k = first_kept(credit->spans, ADMIT_SPANS); k < credit->spans; k++)
    charge_in(credit, &credit->span[k % ADMIT_SPANS], terms, &stay);
  credit->stay[credit->stays++ % ADMIT_STAYS] = stay;
}

int64_t admit_credit_price(const struct admit_credit *credit, int64_t credit_ns) {
  if (credit_ns <= 0) return INT64_MAX;
  if (credit_ns >= credit->bucket_ns) return 0;
  int64_t halvings = credit_ns * HALVINGS * ADMIT_ONE / credit->bucket_ns; /* in 1/1024 */
  int64_t log2 = HALVINGS * ADMIT_ONE - halvings;                          /* of the price, above the least one */
  return ((ADMIT_ONE + log2 % ADMIT_ONE) << log2 / ADMIT_ONE) >> (HALVINGS - DEAREST_LOG2);
}

int64_t admit_credit_for(const struct admit_credit *credit, int64_t rate) {
  int64_t scaled = admit_least(rate, (int64_t)ADMIT_ONE << DEAREST_LOG2) << (HALVINGS - DEAREST_LOG2);
  if (scaled < ADMIT_ONE) return credit->bucket_ns;
  int whole = 63 - __builtin_clzll((unsigned long long)scaled) - 10;
  int64_t log2 = whole * ADMIT_ONE + (scaled >> whole) - ADMIT_ONE;
  return credit->bucket_ns * (HALVINGS * ADMIT_ONE - log2) / (HALVINGS * ADMIT_ONE);
}
