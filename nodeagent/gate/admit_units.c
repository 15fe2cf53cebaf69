/* How long units last: kernels by function and grid, graphs by themselves. */
#include "admit_parts.h"

enum { PROBES = 8, WINDOW = 64 };
static const int64_t shortest_ns = 1000;
static const int64_t novel_at_first_ns = 500000;

void admit_units_init(struct admit_units *units) { units->novel_ns = novel_at_first_ns; }

static uint64_t slot_of(uint64_t id, uint64_t probe) {
  return ((id * 0x9e3779b97f4a7c15ULL >> 40) + probe) % ADMIT_UNITS; /* Fibonacci hashing */
}

static const struct admit_known *find(const struct admit_units *units, uint64_t id) {
  for (uint64_t probe = 0; probe < PROBES; probe++) {
    const struct admit_known *known = &units->known[slot_of(id, probe)];
    if (known->used && known->id == id) return known;
  }
  return NULL;
}

/* The entry for `id`: its own, a free one, or that which was used longest ago. */
static struct admit_known *claim(struct admit_units *units, uint64_t id) {
  struct admit_known *oldest = (struct admit_known *)find(units, id);
  if (oldest) return oldest;
  for (uint64_t probe = 0; probe < PROBES; probe++) {
    struct admit_known *known = &units->known[slot_of(id, probe)];
    if (!oldest || known->used < oldest->used) oldest = known;
  }
  *oldest = (struct admit_known){.id = id};
  return oldest;
}

struct admit_estimate admit_units_expect(const struct admit_units *units, uint64_t id, uint32_t nodes) {
  const struct admit_known *known = find(units, id);
  if (known) return (struct admit_estimate){admit_least(known->quick_ns, known->next_quick_ns), known->usual_ns, true};
  int64_t guess_ns = admit_least(units->novel_ns * admit_most(nodes, 1), ADMIT_LONGEST_NS);
  return (struct admit_estimate){guess_ns, guess_ns, false};
}

void admit_units_learn(struct admit_units *units, uint64_t id, uint32_t nodes, int64_t took_ns, bool certain) {
  took_ns = admit_least(admit_most(took_ns, shortest_ns), ADMIT_LONGEST_NS);
  struct admit_known *known = claim(units, id);
  known->used = ++units->look_ups;
  if (!known->observed) {
    known->quick_ns = known->next_quick_ns = known->usual_ns = took_ns;
    units->novel_ns += (took_ns / admit_most(nodes, 1) - units->novel_ns) / 8;
  }
  known->observed += known->observed < UINT32_MAX;
  if (certain || took_ns < known->usual_ns) known->usual_ns += (took_ns - known->usual_ns) / 8;
  known->next_quick_ns = admit_least(known->next_quick_ns, took_ns);
  if (++known->window == WINDOW) {
    known->quick_ns = known->next_quick_ns;
    known->next_quick_ns = took_ns;
    known->window = 0;
  }
}
