/* What a gate and an agent share: memory pages and messages. Written here once; Python reads the offsets from the table
 * that layout.c makes of these lists, so neither side keeps a copy.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. All fields are naturally aligned and written with single stores; those that
 * must fit together are read under `sequence` (odd while the writer is at it). docs/gate.md says who may believe what.
 */
#ifndef PAGES_H
#define PAGES_H

#include <stdint.h>

#define PILLION_PROTOCOL 1u
#define PILLION_MAGIC 0x31474c50u /* "PLG1" */
#define PILLION_WELL_KNOWN_SOCKET "/run/pillion/gate.sock"

enum {
  PILLION_PAGE_BYTES = 4096,
  PILLION_LEDGER_SLOTS = 510,
  PILLION_MARKS = 64,
  PILLION_HIGH_STEPS = 32, /* high steps that one gate can watch */
};

enum pillion_tier { PILLION_LOW = 0, PILLION_NORMAL = 1, PILLION_HIGH = 2 };

/* The agent writes, the gate maps it read-only. */
#define PILLION_LEASE_FIELDS(FIELD)                                                            \
  FIELD(uint32_t, magic, 1)                                                                    \
  FIELD(uint32_t, version, 1)                                                                  \
  FIELD(uint32_t, open, 1)        /* 1: every submission passes, and nothing is noted. Set only while it is alone */ \
  FIELD(uint32_t, news, 1)        /* futex: changes after anything else changed, also `open` */ \
  FIELD(uint32_t, sequence, 1)    /* odd: the fields below are being written */                \
  FIELD(uint32_t, state, 1)       /* enum admit_lease: STOP 0, DRAIN 1, RUN 2 */               \
  FIELD(uint64_t, epoch, 1)       /* changes with `state` */                                   \
  FIELD(uint32_t, openings, 1)    /* how often `open` was set: what was submitted meanwhile is not counted */ \
  FIELD(uint32_t, tier, 1)                                                                     \
  FIELD(uint64_t, deadline_ns, 1) /* a RUN lease is over then unless renewed; 0: never */      \
  FIELD(uint64_t, heartbeat_ns, 1)                                                             \
  FIELD(uint64_t, stale_after_ns, 1) /* the agent is lost when its heartbeat is older than this */ \
  FIELD(uint32_t, in_flight_cap, 1)  /* 0: none */                                             \
  FIELD(uint32_t, padding, 1)                                                                  \
  FIELD(uint64_t, max_slowdown_ppm, 1)                                                         \
  FIELD(uint64_t, budget_ppm, 1)  /* this tenant's part of what may be stolen, of 1,000,000 */ \
  FIELD(uint64_t, max_stall_ns, 1)                                                             \
  FIELD(uint64_t, bucket_ns, 1)                                                                \
  FIELD(uint64_t, switch_ns, 1)                                                                \
  FIELD(uint64_t, slice_ns, 1)                                                                 \
  FIELD(uint64_t, memory_quota_bytes, 1) /* of the tenant, all its processes together; 0: none */ \
  FIELD(uint32_t, duty_ppm, 1)        /* while the agent is lost: its part of each period, and where that part begins */ \
  FIELD(uint32_t, duty_phase_ppm, 1)                                                           \
  FIELD(uint64_t, duty_period_ns, 1)

/* The gate writes, the agent reads and does not believe. */
#define PILLION_CLIENT_FIELDS(FIELD)                                                           \
  FIELD(uint32_t, magic, 1)                                                                    \
  FIELD(uint32_t, version, 1)                                                                  \
  FIELD(uint32_t, flags, 1)       /* enum pillion_client_flag */                               \
  FIELD(uint32_t, reason, 1)      /* enum admit_reason of the last answer */                   \
  FIELD(uint64_t, acknowledged_epoch, 1)                                                       \
  FIELD(uint32_t, in_flight, 1)   /* submissions that may not have left the GPU, and those being made */ \
  FIELD(uint32_t, waiting, 1)     /* threads that the gate holds */                            \
  FIELD(uint64_t, last_submit_ns, 1)                                                           \
  FIELD(uint64_t, submissions, 1) /* while the gate was not open */                            \
  FIELD(uint64_t, waits, 1)                                                                    \
  FIELD(uint64_t, waited_ns, 1)                                                                \
  FIELD(uint64_t, denied_allocations, 1)                                                       \
  FIELD(uint64_t, denied_bytes, 1) /* size of the last one */                                  \
  FIELD(uint64_t, drains, 1)                                                                   \
  FIELD(uint64_t, drain_ns, 1)     /* how long the last drain took */                          \
  FIELD(uint64_t, longest_unit_ns, 1) /* the longest single unit that was measured: what bounds preemption */ \
  FIELD(uint64_t, device_ns, 1)    /* device time of all measured units */                     \
  FIELD(uint64_t, charged_ns, 1)   /* what it holds itself to have stolen from high steps */   \
  FIELD(uint64_t, unknown_lookups, 1) /* driver functions handed out ungated: newer than this gate's headers */

enum pillion_client_flag {
  PILLION_CLIENT_UNTRACKED = 1, /* the gate was open: what it submitted then is not in `in_flight` */
  PILLION_CLIENT_ORPHAN = 2,    /* the agent is lost: rules of docs/gate.md apply */
};

/* One per tenant, written by all its processes: each its own slot. */
#define PILLION_LEDGER_FIELDS(FIELD) \
  FIELD(uint32_t, magic, 1)          \
  FIELD(uint32_t, version, 1)        \
  FIELD(uint64_t, slots, 1) /* written by the agent: those from here on are not in use */ \
  FIELD(uint64_t, bytes, PILLION_LEDGER_SLOTS)

/* One per high process: written by its gate, mapped read-only by the gates of lower tiers on the same GPU. */
#define PILLION_ACTIVITY_FIELDS(FIELD)                                                  \
  FIELD(uint32_t, magic, 1)                                                             \
  FIELD(uint32_t, version, 1)                                                           \
  FIELD(uint64_t, marks, 1)             /* how many were ever made */                   \
  FIELD(uint64_t, mark, PILLION_MARKS)  /* ring: time_ns * 2, + 1 when it became busy */

#define PILLION_MESSAGE_FIELDS(FIELD)                               \
  FIELD(uint32_t, magic, 1)                                         \
  FIELD(uint32_t, version, 1)                                       \
  FIELD(uint32_t, kind, 1)         /* enum pillion_message_kind */  \
  FIELD(uint32_t, tier, 1)         /* WELCOME */                    \
  FIELD(uint32_t, slot, 1)         /* WELCOME: in the ledger; ACTIVITY: which high step */ \
  FIELD(uint32_t, reason, 1)       /* REFUSED: enum pillion_refusal */ \
  FIELD(uint32_t, present, 1)      /* ACTIVITY: 1 with a page, 0 to forget it */ \
  FIELD(uint32_t, cuda_version, 1) /* HELLO: of the headers that the gate was built with */

enum pillion_message_kind {
  PILLION_HELLO = 1,    /* gate: let me in. May carry [activity]: the page of a high gate that another agent had let in */
  PILLION_WELCOME = 2,  /* agent, carries [lease, client, ledger] and for a newcomer of the high tier [activity] */
  PILLION_REFUSED = 3,  /* agent: go on without me */
  PILLION_MAPPED = 4,   /* gate: its pages are mapped; from now on nobody needs to map [activity] for writing */
  PILLION_ACTIVITY = 5, /* agent, to lower tiers: carries [activity] when `present` */
  PILLION_NEWS = 6,     /* agent: look at your page, even if you submit nothing */
};

enum pillion_refusal {
  PILLION_REFUSED_VERSION = 1, /* another version of the protocol: `version` says which */
  PILLION_REFUSED_UNKNOWN = 2, /* not one of its tenants */
  PILLION_REFUSED_FULL = 3,    /* the tenant has more processes than a ledger has slots */
};

#define PILLION_DECLARE(type, name, count) type name PILLION_TIMES_##count;
#define PILLION_TIMES_1
#define PILLION_TIMES_PILLION_LEDGER_SLOTS [PILLION_LEDGER_SLOTS]
#define PILLION_TIMES_PILLION_MARKS [PILLION_MARKS]

struct pillion_lease { PILLION_LEASE_FIELDS(PILLION_DECLARE) };
struct pillion_client { PILLION_CLIENT_FIELDS(PILLION_DECLARE) };
struct pillion_ledger { PILLION_LEDGER_FIELDS(PILLION_DECLARE) };
struct pillion_activity { PILLION_ACTIVITY_FIELDS(PILLION_DECLARE) };
struct pillion_message { PILLION_MESSAGE_FIELDS(PILLION_DECLARE) };

_Static_assert(sizeof(struct pillion_lease) <= PILLION_PAGE_BYTES, "a page");
_Static_assert(sizeof(struct pillion_client) <= PILLION_PAGE_BYTES, "a page");
_Static_assert(sizeof(struct pillion_ledger) == PILLION_PAGE_BYTES, "a page");
_Static_assert(sizeof(struct pillion_activity) <= PILLION_PAGE_BYTES, "a page");

/* ---- for the agent, which loads this library for them ---- */

struct pillion_field {
  const char *record, *name;
  uint32_t offset, bytes, count;
};
extern const struct pillion_field pillion_layout[]; /* ends with a NULL record */

/* Make everything written before visible, store `value` into a page's `news`, and wake the gates that wait on it. */
void pillion_publish(uint32_t *news, uint32_t value);

#endif
