/* Admission: may this submission of a lower-tier process go to the GPU now, beside a step of the high tier?
 *
 * Pure: no clock, no system call, no allocation, no global, no floating point. The caller owns the state, tells it what it
 * saw (with the time at which it happened, however late it was seen), and asks. All work is bounded. One state belongs to
 * one process on one GPU; the caller keeps its threads apart.
 *
 * How a caller looks: what completed, then every mark of the high steps since the last look, then admit_decide.
 * docs/admission.md explains the decision and derives the bound that it keeps.
 */
#ifndef ADMIT_H
#define ADMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADMIT_NEVER UINT64_MAX
#define ADMIT_LONGEST_NS 100000000000LL /* nothing is taken to last longer than 100 s */

enum {
  ADMIT_PAUSES = 128,
  ADMIT_UNITS = 512,
  ADMIT_IN_FLIGHT = 64,
  ADMIT_BUSY_SPANS = 16,
  ADMIT_SPANS = 32,
  ADMIT_STAYS = 8,
  ADMIT_HIGH_STEPS = 32,
};

enum admit_lease { ADMIT_STOP = 0, ADMIT_DRAIN = 1, ADMIT_RUN = 2 };

enum admit_reason {
  ADMIT_NO_HIGH = 0,     /* go: no high step about */
  ADMIT_FITS = 1,        /* go: worth what it is expected to steal */
  ADMIT_NO_LEASE = 2,    /* wait for the arbiter */
  ADMIT_FULL = 3,        /* wait: more submissions in flight than can be told apart */
  ADMIT_ONE_AT_A_TIME = 4, /* wait: a unit of unknown duration goes alone */
  ADMIT_OVERDUE = 5,     /* wait: what is in flight takes longer than it should */
  ADMIT_FED = 6,         /* wait: enough is queued for now */
  ADMIT_STALL = 7,       /* wait: the unit could delay the high step for longer than its max-stall */
  ADMIT_BUSY = 8,        /* wait: the high step is busy */
  ADMIT_PRICE = 9,       /* wait: worth less than credit buys elsewhere */
  ADMIT_CREDIT = 10,     /* wait: credit does not cover what it is expected to steal */
  ADMIT_REASONS = 11,
};

/* What the arbiter and the agent set. */
struct admit_terms {
  uint64_t max_slowdown_ppm; /* of the high step */
  uint64_t budget_ppm;       /* this tenant's part of it; the parts of all tenants add up to at most 1,000,000 */
  uint64_t max_stall_ns;     /* of the high step */
  uint64_t bucket_ns;        /* credit is kept for at most this long: 0.3 s unless tenants take turns */
  uint64_t switch_ns;        /* what a change between contexts costs */
  uint64_t slice_ns;         /* the driver's time slice; 0 when it is not known: then all overlap counts as stolen */
};

/* A submission: a kernel by function and grid, a copy by kind and size class, or a graph. */
struct admit_unit {
  uint64_t id;
  uint32_t nodes; /* kernels in it: 1 unless a graph */
  uint32_t stream;
};

struct admit_answer {
  uint64_t until_ns; /* when to ask again: at once if not later than now; ADMIT_NEVER: when the lease changes */
  uint32_t go;
  uint32_t reason; /* enum admit_reason */
};

/* ---- the state, by subject; only the files named here look inside ---- */

/* admit_pauses.c: how long the high step's pauses last. */
struct admit_pauses {
  uint32_t count, next;
  int64_t recent_ns[ADMIT_PAUSES];     /* in order of arrival */
  int64_t sorted_ns[ADMIT_PAUSES];     /* ascending */
  int64_t sums_ns[ADMIT_PAUSES + 1];   /* sums_ns[k]: the k shortest together */
};

/* admit_units.c: how long units last, by id. */
struct admit_known {
  uint64_t id;
  uint64_t used; /* the look-up that used it last; 0: free */
  int64_t quick_ns, next_quick_ns; /* least of the last window, and of the present one */
  int64_t usual_ns;                /* moving mean */
  uint32_t window;
  uint32_t observed;
};
struct admit_units {
  uint64_t look_ups;
  int64_t novel_ns; /* what kernels turned out to take when they were new */
  struct admit_known known[ADMIT_UNITS];
};

/* admit_credit.c: what may be stolen, and what was. */
struct admit_span {
  uint64_t pause_from_ns;  /* the pause before it */
  uint64_t from_ns, to_ns; /* the high steps were busy; to ADMIT_NEVER while they are */
  uint64_t given_back;     /* the switch back to them has been charged */
};
struct admit_stay {
  uint64_t from_ns, to_ns; /* this tenant had work on the GPU */
};
struct admit_credit {
  int64_t credit_ns, bucket_ns;
  int64_t saving_ns; /* for a unit that steals more than a bucket holds */
  uint64_t rate_ppb, earned_rest, earned_to_ns;
  int64_t charged_ns; /* all that was ever charged */
  uint32_t spans, stays;
  struct admit_span span[ADMIT_SPANS]; /* ring: the last ones */
  struct admit_stay stay[ADMIT_STAYS]; /* ring: the last ones that are over */
};

/* admit.c: what is in flight, and the decision. */
struct admit_flight {
  uint64_t ticket, id, submitted_ns;
  int64_t quick_ns, usual_ns;
  uint32_t stream, nodes;
  uint32_t cold; /* the context had to be loaded first */
};

struct admit {
  uint32_t high_present; /* a bit for each high step about; the fast path looks at nothing else but the lease */
  uint32_t lease;        /* enum admit_lease */
  uint32_t high_busy;    /* a bit for each that has work */
  uint32_t in_flight;
  uint64_t now_ns;
  struct admit_terms terms;
  uint64_t idle_since_ns;  /* of the high steps, while high_busy is 0 */
  uint64_t busy_since_ns;
  uint64_t stay_since_ns;  /* this tenant has had work on the GPU without a break, while in_flight is not 0 */
  int64_t stay_work_ns;    /* what it has submitted in that time */
  uint64_t resident_ns;    /* last time at which this tenant had work on the GPU */
  uint64_t head_start_ns;  /* when the oldest submission in flight got its turn */
  uint64_t next_ticket;
  uint64_t asked_ns;       /* when the caller was told to ask again */
  int64_t lateness_ns;     /* how much later than told it asks: moving mean */
  int64_t busy_ns[ADMIT_BUSY_SPANS]; /* how long the high steps were busy, the last times */
  uint32_t busy_count;
  struct admit_flight flight[ADMIT_IN_FLIGHT]; /* oldest first */
  struct admit_credit credit;
  struct admit_pauses pauses;
  struct admit_units units;
};

/* ---- what happened ---- */

void admit_init(struct admit *admit, uint64_t now_ns);
void admit_set_terms(struct admit *admit, uint64_t now_ns, const struct admit_terms *terms);
void admit_set_lease(struct admit *admit, uint64_t now_ns, enum admit_lease lease);

/* High step `which` (0 to 31) came to this GPU or left it. The first to come finds no credit saved up. */
void admit_high_present(struct admit *admit, uint64_t now_ns, unsigned which, bool present);

/* At `at_ns` it submitted after it was idle; all that it submitted was known to be complete. In order. */
void admit_high_busy(struct admit *admit, uint64_t now_ns, unsigned which, uint64_t at_ns);
void admit_high_idle(struct admit *admit, uint64_t now_ns, unsigned which, uint64_t at_ns);

/* May `unit` go now? */
struct admit_answer admit_decide(struct admit *admit, uint64_t now_ns, const struct admit_unit *unit);

/* It went. The ticket names it; 0: not noted, because more are in flight than can be told apart. */
uint64_t admit_submitted(struct admit *admit, uint64_t now_ns, const struct admit_unit *unit);

/* All on `stream` up to `ticket` is complete since `done_ns` (rather too late than too early). `elapsed_ns`: since the one
 * before it was done or it was submitted itself, whichever was later; 0 when not measured. */
void admit_completed(struct admit *admit, uint64_t now_ns, uint32_t stream, uint64_t ticket, uint64_t done_ns,
                     uint64_t elapsed_ns);

/* True when nothing has to be asked or noted: the gate's fast path. */
static inline bool admit_is_open(const struct admit *admit) {
  return admit->high_present == 0 && admit->lease == ADMIT_RUN;
}

/* ---- for metrics, tests and other languages ---- */

/* A field of admit_terms, admit_unit or admit_answer, as wide as its size says, without a sign; the last has no name. */
struct admit_field {
  const char *of, *name;
  size_t offset, size;
};
const struct admit_field *admit_fields(void);

size_t admit_size(void);
int64_t admit_credit_ns(const struct admit *admit);  /* what may still be stolen, less what is being stolen now */
int64_t admit_bucket_ns(const struct admit *admit);
int64_t admit_charged_ns(const struct admit *admit); /* all that was ever charged */
int64_t admit_expected_ns(const struct admit *admit, const struct admit_unit *unit); /* its duration as far as known */

#endif
