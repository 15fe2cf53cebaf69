/* See world.h. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, PLAIN_DEPTH = 8, MARKS = 4096, HIGH = 0, NOBODY = -1 };

struct piece {
  uint64_t left_ns, ticket, arrived_ns, done_ns, visible_ns, elapsed_ns;
};

struct tenant {
  struct admit *admit;
  struct piece pieces[DEPTH]; /* ring: [reaped, ran) are done and not seen yet, [ran, sent) queued */
  uint64_t reaped, ran, sent;
  uint64_t wake_ns, marks_seen, next_unit, last_done_ns;
};

struct mark {
  uint64_t at_ns;
  bool busy;
};

struct world {
  const struct world_setup *setup;
  struct world_result *result;
  uint64_t random, now_ns;
  /* the device */
  int running, loading, resident; /* context or NOBODY */
  uint64_t slice_end_ns, load_end_ns, wait_began_ns;
  /* the high step */
  uint64_t high_left_ns, turn, pieces_out, next_burst_ns, next_piece_ns, idle_mark_ns;
  bool in_burst, marked_busy, waiting;
  struct mark marks[MARKS];
  uint64_t marks_made;
  /* the low ones */
  uint64_t holder, turn_end_ns;
  struct tenant tenants[WORLD_TENANTS];
};

static uint64_t draw(struct world *world, const uint64_t range_ns[2]) {
  world->random ^= world->random << 13;
  world->random ^= world->random >> 7;
  world->random ^= world->random << 17;
  return range_ns[0] + world->random % (range_ns[1] - range_ns[0] + 1);
}

static void make_mark(struct world *world, uint64_t at_ns, bool busy) {
  world->marks[world->marks_made++ % MARKS] = (struct mark){at_ns, busy};
  world->marked_busy = busy;
}

/* ---- the device ---- */

static bool has_work(const struct world *world, int context) {
  if (context == HIGH) return world->high_left_ns > 0;
  return world->tenants[context - 1].ran < world->tenants[context - 1].sent;
}

static uint64_t *work_of(struct world *world, int context) {
  if (context == HIGH) return &world->high_left_ns;
  struct tenant *tenant = &world->tenants[context - 1];
  return &tenant->pieces[tenant->ran % DEPTH].left_ns;
}

static int next_with_work(const struct world *world, int after) {
  int contexts = 1 + (int)world->setup->tenants;
  for (int step = 1; step <= contexts; step++) {
    int context = (after + step + contexts) % contexts;
    if (has_work(world, context)) return context;
  }
  return NOBODY;
}

static void hand_over(struct world *world) {
  int next = next_with_work(world, world->resident);
  world->running = world->loading = NOBODY;
  if (next == NOBODY) return;
  if (next == world->resident || world->resident == NOBODY || !world->setup->switch_ns) {
    world->running = world->resident = next;
    world->slice_end_ns = world->now_ns + world->setup->slice_ns;
  } else {
    world->loading = next;
    world->load_end_ns = world->now_ns + world->setup->switch_ns;
  }
}

static void end_wait(struct world *world) {
  if (!world->waiting) return;
  world->waiting = false;
  uint64_t waited_ns = world->now_ns - world->wait_began_ns;
  if (waited_ns > world->result->longest_wait_ns) world->result->longest_wait_ns = waited_ns;
}

static uint64_t device_change_ns(struct world *world) {
  if (world->loading != NOBODY) return world->load_end_ns;
  if (world->running == NOBODY) return UINT64_MAX;
  uint64_t done_ns = world->now_ns + *work_of(world, world->running);
  return done_ns < world->slice_end_ns ? done_ns : world->slice_end_ns;
}

static void pass(struct world *world, uint64_t until_ns) {
  uint64_t span_ns = until_ns - world->now_ns;
  if (world->running == HIGH) end_wait(world);
  if (world->running != NOBODY) {
    *work_of(world, world->running) -= span_ns;
    if (world->running == HIGH)
      world->result->high_ran_ns += span_ns;
    else
      world->result->low_ran_ns[world->running - 1] += span_ns;
  }
  if (world->high_left_ns && world->running != HIGH) {
    if (!world->waiting) world->wait_began_ns = world->now_ns;
    world->waiting = true;
    world->result->high_waited_ns += span_ns;
  }
  world->now_ns = until_ns;
}

static void finish_high(struct world *world) {
  const struct world_setup *setup = world->setup;
  if (world->pieces_out < setup->pieces) return;
  world->in_burst = false;
  world->result->bursts++;
  world->next_burst_ns = world->now_ns + setup->pauses_ns[world->turn % setup->turns];
  world->turn++;
  world->idle_mark_ns = world->now_ns + draw(world, setup->notice_ns);
  if (world->idle_mark_ns > world->next_burst_ns) world->idle_mark_ns = setup->overlooks ? UINT64_MAX : world->next_burst_ns;
}

static void finish_low(struct world *world, int context) {
  struct tenant *tenant = &world->tenants[context - 1];
  struct piece *piece = &tenant->pieces[tenant->ran++ % DEPTH];
  uint64_t began_ns = piece->arrived_ns > tenant->last_done_ns ? piece->arrived_ns : tenant->last_done_ns;
  uint64_t stamp_ns = draw(world, world->setup->stamp_ns);
  piece->done_ns = world->now_ns + stamp_ns;
  piece->visible_ns = world->now_ns + draw(world, world->setup->reap_ns);
  piece->elapsed_ns = piece->done_ns - began_ns;
  tenant->last_done_ns = world->now_ns;
}

/* What happens on the device at this very moment. */
static void settle(struct world *world) {
  if (world->loading != NOBODY && world->now_ns >= world->load_end_ns) {
    world->resident = world->loading;
    world->loading = NOBODY;
    if (has_work(world, world->resident)) {
      world->running = world->resident;
      world->slice_end_ns = world->now_ns + world->setup->slice_ns;
    }
  }
  if (world->running != NOBODY && has_work(world, world->running) && !*work_of(world, world->running)) {
    if (world->running != HIGH) finish_low(world, world->running);
  }
  if (world->running == HIGH && !world->high_left_ns && world->in_burst) finish_high(world);
  if (world->running != NOBODY && has_work(world, world->running)) {
    if (world->now_ns < world->slice_end_ns) return;
    if (next_with_work(world, world->running) == world->running) {
      world->slice_end_ns = world->now_ns + world->setup->slice_ns;
      return;
    }
  }
  if (world->loading == NOBODY) hand_over(world);
}

/* ---- the high step ---- */

static void submit_piece(struct world *world) {
  const struct world_setup *setup = world->setup;
  uint64_t burst_ns = setup->bursts_ns[world->turn % setup->turns];
  uint64_t piece_ns = burst_ns / setup->pieces;
  world->high_left_ns += ++world->pieces_out == setup->pieces ? burst_ns - piece_ns * (setup->pieces - 1) : piece_ns;
  world->next_piece_ns = world->now_ns + setup->gap_ns;
}

static void run_high(struct world *world) {
  if (world->idle_mark_ns <= world->now_ns) {
    make_mark(world, world->idle_mark_ns, false);
    world->idle_mark_ns = UINT64_MAX;
  }
  if (!world->in_burst && world->next_burst_ns <= world->now_ns) {
    if (!world->marked_busy) make_mark(world, world->now_ns, true);
    world->in_burst = true;
    world->pieces_out = 0;
    submit_piece(world);
  }
  while (world->in_burst && world->pieces_out < world->setup->pieces && world->next_piece_ns <= world->now_ns)
    submit_piece(world);
}

static uint64_t high_change_ns(const struct world *world) {
  uint64_t next_ns = world->idle_mark_ns;
  if (!world->in_burst && world->next_burst_ns < next_ns) next_ns = world->next_burst_ns;
  if (world->in_burst && world->pieces_out < world->setup->pieces && world->next_piece_ns < next_ns)
    next_ns = world->next_piece_ns;
  return next_ns;
}

/* ---- the low tenants ---- */

static void see(struct world *world, struct tenant *tenant) {
  for (; tenant->reaped < tenant->ran; tenant->reaped++) {
    const struct piece *piece = &tenant->pieces[tenant->reaped % DEPTH];
    if (piece->visible_ns > world->now_ns) break;
    admit_completed(tenant->admit, world->now_ns, 0, piece->ticket, piece->done_ns, piece->elapsed_ns);
  }
  for (; tenant->marks_seen < world->marks_made; tenant->marks_seen++) {
    const struct mark *mark = &world->marks[tenant->marks_seen % MARKS];
    if (mark->busy)
      admit_high_busy(tenant->admit, world->now_ns, 0, mark->at_ns);
    else
      admit_high_idle(tenant->admit, world->now_ns, 0, mark->at_ns);
  }
}

static struct admit_answer ask(struct world *world, struct tenant *tenant, const struct admit_unit *unit) {
  struct world_result *result = world->result;
  if (world->setup->policy == WORLD_PLAIN) {
    tenant->reaped = tenant->ran;
    bool room = tenant->sent - tenant->ran < PLAIN_DEPTH;
    return (struct admit_answer){.go = room, .until_ns = world->now_ns + 10000};
  }
  see(world, tenant);
  if (tenant->sent - tenant->reaped == DEPTH) return (struct admit_answer){.until_ns = world->now_ns + 10000};
  struct admit_answer answer = admit_decide(tenant->admit, world->now_ns, unit);
  result->decisions++;
  result->reasons[answer.reason]++;
  return answer;
}

static void run_tenant(struct world *world, struct tenant *tenant) {
  const struct world_setup *setup = world->setup;
  uint64_t which = tenant->next_unit % setup->units;
  struct admit_unit unit = {.id = setup->unit_ids[which], .nodes = (uint32_t)setup->unit_nodes[which]};
  struct admit_answer answer = ask(world, tenant, &unit);
  if (!answer.go) {
    uint64_t until_ns = answer.until_ns > world->now_ns ? answer.until_ns : world->now_ns + 1;
    tenant->wake_ns = until_ns == ADMIT_NEVER ? ADMIT_NEVER : until_ns + draw(world, setup->wake_ns);
    return;
  }
  struct piece *piece = &tenant->pieces[tenant->sent++ % DEPTH];
  uint64_t length_ns = setup->units_ns[which];
  if (world->in_burst) length_ns = length_ns / 1000 * setup->spite_ppm / 1000;
  *piece = (struct piece){.left_ns = length_ns ? length_ns : 1, .arrived_ns = world->now_ns};
  if (setup->policy == WORLD_ADMIT) piece->ticket = admit_submitted(tenant->admit, world->now_ns, &unit);
  tenant->next_unit++;
  tenant->wake_ns = world->now_ns + setup->launch_ns;
  uint64_t queued_ns = 0, *most_ns = &world->result->most_queued_ns[tenant - world->tenants];
  for (uint64_t k = tenant->ran; k < tenant->sent; k++) queued_ns += tenant->pieces[k % DEPTH].left_ns;
  if (queued_ns > *most_ns) *most_ns = queued_ns;
}

static void pass_lease(struct world *world) {
  const struct world_setup *setup = world->setup;
  if (world->now_ns < world->turn_end_ns) return;
  admit_set_lease(world->tenants[world->holder].admit, world->now_ns, ADMIT_STOP);
  world->holder = (world->holder + 1) % setup->tenants;
  admit_set_lease(world->tenants[world->holder].admit, world->now_ns, ADMIT_RUN);
  world->tenants[world->holder].wake_ns = world->now_ns + draw(world, setup->wake_ns);
  world->turn_end_ns += setup->quantum_ns;
}

static void begin(struct world *world, const struct world_setup *setup) {
  const struct admit_terms terms = {
      .max_slowdown_ppm = setup->max_slowdown_ppm,
      .budget_ppm = setup->tenants ? 1000000 / setup->tenants : 0,
      .max_stall_ns = setup->max_stall_ns,
      .bucket_ns = setup->bucket_ns,
      .switch_ns = setup->told_switch_ns,
      .slice_ns = setup->told_slice_ns,
  };
  world->random = setup->seed * 0x9e3779b97f4a7c15ULL + 1;
  world->running = world->loading = world->resident = NOBODY;
  world->idle_mark_ns = UINT64_MAX;
  world->turn_end_ns = setup->quantum_ns && setup->tenants ? setup->quantum_ns : UINT64_MAX;
  for (uint64_t k = 0; k < setup->tenants; k++) {
    struct tenant *tenant = &world->tenants[k];
    tenant->admit = malloc(admit_size());
    admit_init(tenant->admit, 0);
    admit_set_terms(tenant->admit, 0, &terms);
    admit_set_lease(tenant->admit, 0, setup->quantum_ns && k ? ADMIT_STOP : ADMIT_RUN);
    admit_high_present(tenant->admit, 0, 0, true);
    tenant->wake_ns = k * 7000;
  }
}

void world_run(const struct world_setup *setup, struct world_result *result) {
  struct world *world = calloc(1, sizeof *world);
  memset(result, 0, sizeof *result);
  world->setup = setup;
  world->result = result;
  begin(world, setup);
  result->sample_every_ns = setup->run_ns / WORLD_SAMPLES + 1;
  uint64_t tenants = setup->policy == WORLD_ALONE ? 0 : setup->tenants;
  while (world->now_ns < setup->run_ns) {
    run_high(world);
    if (world->turn_end_ns != UINT64_MAX) pass_lease(world);
    for (uint64_t k = 0; k < tenants; k++)
      while (world->tenants[k].wake_ns <= world->now_ns) run_tenant(world, &world->tenants[k]);
    settle(world);
    uint64_t next_ns = device_change_ns(world), sample_ns = (result->samples + 1) * result->sample_every_ns;
    uint64_t candidates_ns[] = {high_change_ns(world), world->turn_end_ns, sample_ns, setup->run_ns};
    for (size_t k = 0; k < sizeof candidates_ns / sizeof *candidates_ns; k++)
      if (candidates_ns[k] < next_ns) next_ns = candidates_ns[k];
    for (uint64_t k = 0; k < tenants; k++)
      if (world->tenants[k].wake_ns < next_ns) next_ns = world->tenants[k].wake_ns;
    pass(world, next_ns);
    if (next_ns == sample_ns && result->samples < WORLD_SAMPLES) result->waited_ns[result->samples++] = result->high_waited_ns;
    settle(world);
  }
  result->wall_ns = world->now_ns;
  for (uint64_t k = 0; k < setup->tenants; k++) {
    result->charged_ns += (uint64_t)admit_charged_ns(world->tenants[k].admit);
    free(world->tenants[k].admit);
  }
  free(world);
}

size_t world_setup_size(void) { return sizeof(struct world_setup); }
size_t world_result_size(void) { return sizeof(struct world_result); }
