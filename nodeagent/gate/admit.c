/* The decision, and what it knows about the submissions in flight. See admit.h and docs/admission.md. */
#include "admit.h"

#include <string.h>

#include "admit_parts.h"

/* A high step with a smaller bound than this is stolen from by misjudged pauses only, never on purpose while it is busy:
 * a bound that small is a tolerance, not an allowance. */
static const uint64_t deliberate_ppm = 20000;

static const uint64_t latest_clock_ns = INT64_MAX; /* keeps ADMIT_NEVER apart from any time */
static const uint64_t backwards_ns = 1000000000; /* a clock that goes back further was set anew */
static const int64_t soonest_ns = 20000, latest_ns = 1000000; /* between two looks of a caller that waits */
static const int64_t least_lead_ns = 10000, most_lead_ns = 150000;
static const int64_t assumed_slice_ns = 2000000;

void admit_init(struct admit *admit, uint64_t now_ns) {
  memset(admit, 0, sizeof *admit);
  if (now_ns > latest_clock_ns) now_ns = latest_clock_ns;
  admit->now_ns = admit->idle_since_ns = admit->credit.earned_to_ns = now_ns;
  admit->asked_ns = ADMIT_NEVER;
  admit->next_ticket = 1;
  admit_units_init(&admit->units);
}

static void shift_back(uint64_t *at_ns, uint64_t by_ns) {
  if (*at_ns != ADMIT_NEVER) *at_ns = *at_ns > by_ns ? *at_ns - by_ns : 0;
}

/* The clock was set back: move everything that is remembered with it. */
static void set_clock_back(struct admit *admit, uint64_t by_ns) {
  uint64_t *const times_ns[] = {&admit->now_ns,        &admit->idle_since_ns, &admit->busy_since_ns,
                                &admit->stay_since_ns, &admit->resident_ns,   &admit->head_start_ns,
                                &admit->asked_ns,      &admit->credit.earned_to_ns};
  for (size_t k = 0; k < sizeof times_ns / sizeof *times_ns; k++) shift_back(times_ns[k], by_ns);
  for (uint32_t k = 0; k < admit->in_flight; k++) shift_back(&admit->flight[k].submitted_ns, by_ns);
  for (uint32_t k = 0; k < ADMIT_SPANS; k++) {
    shift_back(&admit->credit.span[k].from_ns, by_ns);
    shift_back(&admit->credit.span[k].to_ns, by_ns);
  }
  for (uint32_t k = 0; k < ADMIT_STAYS; k++) {
    shift_back(&admit->credit.stay[k].from_ns, by_ns);
    shift_back(&admit->credit.stay[k].to_ns, by_ns);
  }
}

/* Bring the state to `now_ns`; threads may come a little out of order. */
static void look(struct admit *admit, uint64_t now_ns) {
  if (now_ns > latest_clock_ns) now_ns = latest_clock_ns;
  if (now_ns < admit->now_ns && admit->now_ns - now_ns > backwards_ns) set_clock_back(admit, admit->now_ns - now_ns);
  if (now_ns <= admit->now_ns) return;
  admit->now_ns = now_ns;
  admit_credit_earn(&admit->credit, now_ns);
}

void admit_set_terms(struct admit *admit, uint64_t now_ns, const struct admit_terms *terms) {
  look(admit, now_ns);
  admit->terms = *terms;
  if (admit->terms.switch_ns > (uint64_t)ADMIT_LONGEST_NS) admit->terms.switch_ns = (uint64_t)ADMIT_LONGEST_NS;
  admit_credit_terms(&admit->credit, &admit->terms);
}

void admit_set_lease(struct admit *admit, uint64_t now_ns, enum admit_lease lease) {
  look(admit, now_ns);
  admit->lease = lease;
  admit->asked_ns = ADMIT_NEVER; /* being asked again after a wait for the lease says nothing about lateness */
}

void admit_high_present(struct admit *admit, uint64_t now_ns, unsigned which, bool present) {
  look(admit, now_ns);
  if (which >= ADMIT_HIGH_STEPS) return;
  if (!present) {
    admit_high_idle(admit, now_ns, which, now_ns);
    admit->high_present &= ~(1U << which);
    return;
  }
  if (!admit->high_present) {
    admit->idle_since_ns = admit->now_ns;
    admit->credit.credit_ns = admit_least(admit->credit.credit_ns, 0);
  }
  admit->high_present |= 1U << which;
}

void admit_high_busy(struct admit *admit, uint64_t now_ns, unsigned which, uint64_t at_ns) {
  look(admit, now_ns);
  if (which >= ADMIT_HIGH_STEPS || !(admit->high_present >> which & 1)) return;
  bool was_idle = !admit->high_busy;
  admit->high_busy |= 1U << which;
  if (!was_idle) return;
  if (at_ns > admit->now_ns) at_ns = admit->now_ns;
  if (at_ns < admit->idle_since_ns) at_ns = admit->idle_since_ns;
  admit->busy_since_ns = at_ns;
  admit_pauses_add(&admit->pauses, admit_span_ns(admit->idle_since_ns, at_ns));
  bool staying = admit->in_flight > 0;
  admit_credit_busy(&admit->credit, &admit->terms, admit->idle_since_ns, at_ns, staying ? admit->stay_since_ns : ADMIT_NEVER);
}

void admit_high_idle(struct admit *admit, uint64_t now_ns, unsigned which, uint64_t at_ns) {
  look(admit, now_ns);
  if (which >= ADMIT_HIGH_STEPS || !(admit->high_busy >> which & 1)) return;
  admit->high_busy &= ~(1U << which);
  if (admit->high_busy) return;
  if (at_ns > admit->now_ns) at_ns = admit->now_ns;
  if (at_ns < admit->busy_since_ns) at_ns = admit->busy_since_ns;
  admit->idle_since_ns = at_ns;
  admit->busy_ns[admit->busy_count++ % ADMIT_BUSY_SPANS] = admit_span_ns(admit->busy_since_ns, at_ns);
  admit_credit_idle(&admit->credit, &admit->terms, at_ns);
}

/* Will a submission find the context of another process loaded? */
static bool is_cold(const struct admit *admit) {
  return !admit->in_flight && (admit->high_busy || admit->resident_ns <= admit->idle_since_ns);
}

uint64_t admit_submitted(struct admit *admit, uint64_t now_ns, const struct admit_unit *unit) {
  look(admit, now_ns);
  if (admit->in_flight == ADMIT_IN_FLIGHT) return 0;
  bool cold = is_cold(admit);
  struct admit_estimate expected = admit_units_expect(&admit->units, unit->id, unit->nodes);
  if (!admit->in_flight) {
    admit->stay_since_ns = admit->now_ns;
    admit->stay_work_ns = 0;
    admit->head_start_ns = admit->now_ns + (cold ? admit->terms.switch_ns : 0);
  }
  admit->stay_work_ns = admit_least(admit->stay_work_ns + expected.usual_ns, ADMIT_LONGEST_NS);
  admit->flight[admit->in_flight++] = (struct admit_flight){
      .ticket = admit->next_ticket++,
      .id = unit->id,
      .submitted_ns = admit->now_ns,
      .quick_ns = expected.quick_ns,
      .usual_ns = expected.usual_ns,
      .stream = unit->stream,
      .nodes = unit->nodes,
      .cold = cold,
  };
  return admit->next_ticket - 1;
}

/* Learn from a piece of a stream's work that ended at `done_ns`: `count` units like `first`. Where it is not certain how
 * much of the time was the high step's, only that the units took no longer. */
static void learn(struct admit *admit, const struct admit_flight *first, uint32_t count, uint64_t done_ns,
                  int64_t elapsed_ns) {
  int64_t others_ns = first->cold ? (int64_t)admit->terms.switch_ns : 0;
  uint64_t began_ns = done_ns - (uint64_t)admit_least(elapsed_ns, admit_span_ns(0, done_ns));
  bool certain = true;
  for (uint32_t k = 0; k < ADMIT_SPANS && k < admit->credit.spans; k++) {
    const struct admit_span *span = &admit->credit.span[k];
    uint64_t from_ns = began_ns > span->from_ns ? began_ns : span->from_ns;
    int64_t overlap_ns = admit_span_ns(from_ns, done_ns < span->to_ns ? done_ns : span->to_ns);
    if (!overlap_ns) continue;
    bool returned = began_ns < span->from_ns && done_ns <= span->to_ns;
    int64_t high_ns = admit_credit_high_share(&admit->terms, overlap_ns, returned);
    if (high_ns) others_ns += high_ns + 2 * (int64_t)admit->terms.switch_ns * (high_ns / (int64_t)admit->terms.slice_ns);
    certain = certain && returned && admit->terms.slice_ns;
  }
  for (uint32_t k = 0; k < count; k++)
    admit_units_learn(&admit->units, first->id, first->nodes, (elapsed_ns - others_ns) / (int64_t)count, certain);
}

void admit_completed(struct admit *admit, uint64_t now_ns, uint32_t stream, uint64_t ticket, uint64_t done_ns,
                     uint64_t elapsed_ns) {
  look(admit, now_ns);
  struct admit_flight first = {0};
  uint32_t count = 0, kept = 0;
  bool alike = true;
  for (uint32_t k = 0; k < admit->in_flight; k++) {
    const struct admit_flight *flight = &admit->flight[k];
    if (flight->stream != stream || flight->ticket > ticket) {
      admit->flight[kept++] = *flight;
      continue;
    }
    if (!count++) first = *flight;
    alike = alike && flight->id == first.id;
    if (done_ns < flight->submitted_ns) done_ns = flight->submitted_ns;
  }
  if (!count) return;
  admit->in_flight = kept;
  if (done_ns > admit->now_ns) done_ns = admit->now_ns;
  if (done_ns > admit->resident_ns) admit->resident_ns = done_ns;
  if (alike && elapsed_ns) learn(admit, &first, count, done_ns, admit_span_ns(0, elapsed_ns));
  if (kept && admit->flight[0].submitted_ns <= done_ns) {
    admit->head_start_ns = done_ns;
    return;
  }
  admit_credit_stay(&admit->credit, &admit->terms, admit->stay_since_ns, done_ns);
  if (kept) admit->stay_since_ns = admit->head_start_ns = admit->flight[0].submitted_ns;
}

/* ---- the decision ---- */

/* What is still queued or running. */
struct queue {
  int64_t quick_ns; /* at least this long */
  int64_t usual_ns; /* usually this long */
  int64_t overdue_ns;
};

static struct queue queue_now(const struct admit *admit) {
  struct queue queue = {0};
  if (!admit->in_flight) return queue;
  for (uint32_t k = 0; k < admit->in_flight; k++) {
    queue.quick_ns += admit->flight[k].quick_ns;
    queue.usual_ns += admit->flight[k].usual_ns;
  }
  const struct admit_flight *head = &admit->flight[0];
  int64_t loading_ns = admit_span_ns(admit->now_ns, admit->head_start_ns);
  int64_t ran_ns = admit_span_ns(admit->head_start_ns, admit->now_ns);
  queue.overdue_ns = ran_ns - head->usual_ns;
  queue.quick_ns = loading_ns + admit_most(queue.quick_ns - ran_ns, queue.quick_ns - head->quick_ns);
  queue.usual_ns = loading_ns + admit_most(queue.usual_ns - ran_ns, queue.usual_ns - head->usual_ns);
  return queue;
}

static struct admit_answer go(enum admit_reason reason) { return (struct admit_answer){.go = 1, .reason = reason}; }

static struct admit_answer wait_for(struct admit *admit, int64_t wait_ns, enum admit_reason reason) {
  admit->asked_ns = admit->now_ns + (uint64_t)wait_ns;
  return (struct admit_answer){.until_ns = admit->asked_ns, .reason = reason};
}

static int64_t within_a_look(int64_t wait_ns) { return admit_least(admit_most(wait_ns, soonest_ns), latest_ns); }

/* The queue's length at which the next submission is due: enough for the caller to wake up in time. */
static int64_t lead_of(const struct admit *admit) {
  return admit_least(admit_most(2 * admit->lateness_ns + 5000, least_lead_ns), most_lead_ns);
}

/* How long until the high steps may be idle, going by the shortest of their last busy spans. */
static int64_t until_idle(const struct admit *admit) {
  int64_t busy_ns = admit_span_ns(admit->busy_since_ns, admit->now_ns), least_ns = latest_ns;
  for (uint32_t k = 0; k < ADMIT_BUSY_SPANS && k < admit->busy_count; k++)
    least_ns = k ? admit_least(least_ns, admit->busy_ns[k]) : admit->busy_ns[k];
  if (busy_ns < least_ns) return admit_least(least_ns - busy_ns, 10 * latest_ns);
  return admit_least(admit_most((busy_ns - least_ns) / 8, soonest_ns / 4), latest_ns);
}

/* Go if the exchange rate is worth its price and credit covers the theft; else wait until it will have, or less. */
static struct admit_answer buy(struct admit *admit, int64_t rate, int64_t stolen_ns, int64_t pending_ns, int64_t wait_ns) {
  struct admit_credit *credit = &admit->credit;
  int64_t left_ns = credit->credit_ns - pending_ns;
  bool covered = left_ns > 0 && left_ns >= stolen_ns;
  admit_credit_save(credit, covered ? 0 : stolen_ns);
  if (covered && rate >= admit_credit_price(credit, left_ns)) return go(ADMIT_FITS);
  int64_t missing_ns = admit_most(admit_credit_for(credit, rate), stolen_ns) - left_ns;
  wait_ns = admit_least(wait_ns, admit_credit_earning_ns(credit, missing_ns));
  return wait_for(admit, within_a_look(wait_ns), covered ? ADMIT_PRICE : ADMIT_CREDIT);
}

/* Beside a busy high step credit buys whole slices: a device that has to change hands anyway is kept for as long. */
static struct admit_answer decide_beside_busy(struct admit *admit, struct queue queue, struct admit_estimate unit) {
  const struct admit_terms *terms = &admit->terms;
  int64_t idle_ns = until_idle(admit), switches_ns = 2 * (int64_t)terms->switch_ns;
  if (terms->max_slowdown_ppm < deliberate_ppm) return wait_for(admit, idle_ns, ADMIT_BUSY);
  if (queue.usual_ns + unit.usual_ns + switches_ns > admit_span_ns(0, terms->max_stall_ns))
    return wait_for(admit, idle_ns, ADMIT_STALL);
  int64_t slice_ns = terms->slice_ns ? admit_span_ns(0, terms->slice_ns) : assumed_slice_ns;
  if (!admit->in_flight) {
    int64_t batch_ns = admit_most(slice_ns / unit.usual_ns, 1) * unit.usual_ns;
    int64_t price_ns = admit_most(slice_ns, batch_ns) + switches_ns * (1 + batch_ns / (slice_ns + 1));
    return buy(admit, batch_ns * ADMIT_ONE / price_ns, price_ns, 0, idle_ns);
  }
  if (queue.usual_ns + unit.usual_ns > slice_ns)
    return wait_for(admit, admit_least(idle_ns, within_a_look(unit.quick_ns / 2)), ADMIT_FED);
  /* Only while it surely runs still: once it has handed over, one unit would cost what a slice does. */
  if (queue.quick_ns < lead_of(admit)) return wait_for(admit, soonest_ns, ADMIT_FED);
  bool came_between = admit->stay_since_ns >= admit->busy_since_ns;
  int64_t bought_ns = admit->stay_work_ns + unit.usual_ns;
  int64_t pending_ns = admit_credit_pending(&admit->credit, terms, admit->stay_since_ns, admit->now_ns);
  if (admit->credit.credit_ns <= pending_ns) return wait_for(admit, idle_ns, ADMIT_CREDIT);
  if (came_between && bought_ns <= slice_ns) /* the slice was bought as a whole, at the credit that there was before it */
    return buy(admit, ADMIT_ONE, bought_ns + switches_ns, 0, idle_ns);
  int64_t rate = ADMIT_ONE * slice_ns / (slice_ns + switches_ns);
  return buy(admit, rate, unit.usual_ns, pending_ns + queue.usual_ns, idle_ns);
}

/* Open a pause: the switch back is spent with the first unit, so what counts is the pause as a whole. If it can end at any
 * moment, opening it makes sense only when credit covers the unit that will be running then. */
static struct admit_answer open_pause(struct admit *admit, struct admit_estimate unit, int64_t elapsed_ns, int64_t sure_ns,
                                      int64_t stolen_ns) {
  int64_t switch_ns = (int64_t)admit->terms.switch_ns, lead_ns = lead_of(admit);
  int64_t rate = admit_pauses_worth(&admit->pauses, elapsed_ns, switch_ns, unit.usual_ns, switch_ns, lead_ns);
  int64_t sure_units = admit_most((sure_ns - switch_ns) / unit.usual_ns, 1);
  int64_t sure_rate = sure_units * unit.usual_ns * ADMIT_ONE / admit_most(stolen_ns, 1);
  int64_t covering_ns = lead_ns + unit.usual_ns + switch_ns;
  if (2 * sure_rate < rate && unit.known && covering_ns <= admit_credit_most_saved(&admit->credit))
    stolen_ns = admit_most(stolen_ns, covering_ns);
  return buy(admit, rate, stolen_ns, 0, latest_ns);
}

static struct admit_answer decide_in_pause(struct admit *admit, struct queue queue, struct admit_estimate unit,
                                           uint32_t nodes) {
  const struct admit_terms *terms = &admit->terms;
  int64_t lead_ns = lead_of(admit), switch_ns = (int64_t)terms->switch_ns;
  if (queue.quick_ns > lead_ns) return wait_for(admit, queue.quick_ns - lead_ns, ADMIT_FED);
  int64_t elapsed_ns = admit_span_ns(admit->idle_since_ns, admit->now_ns);
  int64_t sure_ns = admit_pauses_surely(&admit->pauses, elapsed_ns);
  bool cold = is_cold(admit);
  int64_t work_ns = queue.usual_ns + unit.usual_ns + (cold ? switch_ns : 0);
  int64_t worst_ns = work_ns + switch_ns - sure_ns;
  if (worst_ns > admit_span_ns(0, terms->max_stall_ns))
    return wait_for(admit, within_a_look(elapsed_ns / 4), ADMIT_STALL);
  int64_t after_ns = admit_pauses_overrun(&admit->pauses, elapsed_ns, work_ns);
  int64_t stolen_ns = admit_most(after_ns + switch_ns, worst_ns);
  if (!unit.known && nodes <= 1) /* a guess must not keep a kernel from ever being tried */
    stolen_ns = admit_least(stolen_ns, admit_credit_most_saved(&admit->credit));
  if (cold) return open_pause(admit, unit, elapsed_ns, sure_ns, stolen_ns);
  int64_t before_ns = queue.usual_ns ? admit_pauses_overrun(&admit->pauses, elapsed_ns, queue.usual_ns) : 0;
  int64_t rate = unit.usual_ns * ADMIT_ONE / admit_most(after_ns - before_ns, 1);
  uint64_t stay_ns = admit->in_flight ? admit->stay_since_ns : admit->now_ns;
  int64_t pending_ns = admit_credit_pending(&admit->credit, terms, stay_ns, admit->now_ns);
  int64_t left_ns = admit->credit.credit_ns - pending_ns;
  if (left_ns >= stolen_ns && rate < admit_credit_price(&admit->credit, left_ns)) /* one more is not: are several? */
    rate = admit_pauses_worth(&admit->pauses, elapsed_ns, queue.usual_ns, unit.usual_ns, 0, lead_ns);
  return buy(admit, rate, stolen_ns, pending_ns, latest_ns);
}

struct admit_answer admit_decide(struct admit *admit, uint64_t now_ns, const struct admit_unit *unit) {
  if (admit->lease != ADMIT_RUN) return (struct admit_answer){.until_ns = ADMIT_NEVER, .reason = ADMIT_NO_LEASE};
  if (!admit->high_present) return go(ADMIT_NO_HIGH);
  look(admit, now_ns);
  if (admit->asked_ns <= admit->now_ns)
    admit->lateness_ns += (admit_least(admit_span_ns(admit->asked_ns, admit->now_ns), latest_ns) - admit->lateness_ns) / 8;
  admit->asked_ns = ADMIT_NEVER;
  struct admit_estimate expected = admit_units_expect(&admit->units, unit->id, unit->nodes);
  struct queue queue = queue_now(admit);
  if (admit->in_flight == ADMIT_IN_FLIGHT) return wait_for(admit, within_a_look(queue.quick_ns / 2), ADMIT_FULL);
  if (admit->in_flight && !expected.known) return wait_for(admit, within_a_look(queue.quick_ns), ADMIT_ONE_AT_A_TIME);
  if (admit->in_flight && !admit->high_busy && queue.overdue_ns > lead_of(admit) + admit->flight[0].usual_ns / 4)
    return wait_for(admit, within_a_look(queue.overdue_ns / 4), ADMIT_OVERDUE);
  if (admit->high_busy) return decide_beside_busy(admit, queue, expected);
  return decide_in_pause(admit, queue, expected, unit->nodes);
}

size_t admit_size(void) { return sizeof(struct admit); }

int64_t admit_credit_ns(const struct admit *admit) {
  uint64_t stay_ns = admit->in_flight ? admit->stay_since_ns : admit->now_ns;
  return admit->credit.credit_ns - admit_credit_pending(&admit->credit, &admit->terms, stay_ns, admit->now_ns);
}

int64_t admit_bucket_ns(const struct admit *admit) { return admit_most(admit->credit.bucket_ns, admit->credit.saving_ns); }

int64_t admit_charged_ns(const struct admit *admit) { return admit->credit.charged_ns; }

int64_t admit_expected_ns(const struct admit *admit, const struct admit_unit *unit) {
  return admit_units_expect(&admit->units, unit->id, unit->nodes).usual_ns;
}
