/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t second = 1000000000;

enum { TURNS_MAX = 4000000 };

/* Nothing takes longer than this, however bad the links: a run that does hangs. */
static const uint64_t patience = 400ull * 1000000000;

/* Silence for 2.5 s is death, and goodbyes take up to 2 s. */
static const uint64_t noticed_within = 6ull * 1000000000;

/* For nodes to come back, and for the run to wait. */
static const uint64_t wait = 90ull * 1000000000;

static const char *const names[PLAN_PROCESSES_MAX] = {"n0", "n1", "n2", "n3", "n4",
                                                      "n5", "n6", "n7", "n8", "n9"};

static struct world *the_world; /* the callbacks' state is the step function's */

void world_fail(struct world *world, const char *format, ...)
{
    va_list args;

    if (!world->outcome->ok)
        return;
    world->outcome->ok = false;
    va_start(args, format);
    vsnprintf(world->outcome->why, sizeof world->outcome->why, format, args);
    va_end(args);
}

void world_fold(struct world *world, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t trace = world->outcome->trace;

    for (; len >= 8; len -= 8, at += 8) {
        uint64_t word;

        memcpy(&word, at, 8);
        trace = (trace ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        trace ^= trace >> 29;
    }
    for (; len > 0; len--, at++)
        trace = (trace ^ *at) * UINT64_C(0x100000001b3);
    world->outcome->trace = trace;
}

struct rdt_addr world_node_addr(uint32_t idx)
{
    return rdt_addr_v4(10, 0, 1, (uint8_t)(idx + 1), (uint16_t)(9000 + idx));
}

struct rdt_addr world_coordinator_addr(void)
{
    return rdt_addr_v4(10, 0, 0, 1, 7000);
}

static uint64_t since_start(const struct world *world)
{
    return world->now - world->plan->epoch_ns;
}

/* ---------- what members report ---------- */

static void on_event(void *state, const char *text, uint64_t now_ns)
{
    (void)state;
    the_world->tally->waits += strncmp(text, "waiting ", 8) == 0;
    the_world->tally->resumed += strncmp(text, "resumed ", 8) == 0;
    the_world->tally->refused += strncmp(text, "refused ", 8) == 0;
    if (the_world->verbose)
        printf("%10.6f %s\n", (double)(now_ns - the_world->plan->epoch_ns) / 1e9, text);
}

static void on_step(struct world *world, const struct record *record)
{
    if (record->step != world->steps)
        world_fail(world, "step %" PRIu64 " recorded after %" PRIu64 " steps", record->step,
                   world->steps);
    else if (record->step >= PROBLEM_STEPS_MAX)
        world_fail(world, "a step too many");
    else if (strcmp(record->hash, world->problem->hashes[record->step]) != 0)
        world_fail(world, "weights differ from the oracle's after step %" PRIu64, record->step);
    world->steps++;
    world->tally->steps++;
    if (world->plan->end == PLAN_STOP && world->steps == world->plan->end_step)
        world->end_due = true;
}

static void on_eval(struct world *world, const struct record *record)
{
    uint64_t at = world->evals++;

    world->tally->evals++;
    if (at >= world->problem->evals)
        world_fail(world, "an evaluation too many");
    else if (record->correct != world->problem->eval_correct[at] ||
             record->loss < world->problem->eval_loss[at] ||
             record->loss > world->problem->eval_loss[at])
        world_fail(world, "evaluation %" PRIu64 " differs from the oracle's", at);
}

static void on_record(void *state, const void *bytes, uint64_t now_ns)
{
    const struct record *record = bytes;

    (void)state;
    world_fold(the_world, &now_ns, sizeof now_ns);
    world_fold(the_world, record->hash, strlen(record->hash));
    if (record->kind == RECORD_STEP)
        on_step(the_world, record);
    else if (record->kind == RECORD_EVAL)
        on_eval(the_world, record);
}

/* ---------- processes ---------- */

static void start_coordinator(struct world *world)
{
    struct coord_config config = world->problem->coord;
    struct member_config member = {
        .name = "coordinator",
        .addr = world_coordinator_addr(),
        .listen = true,
        .seed = world->plan->seed * 1000,
        .slowness = 1.0,
        .client = {.step = coord_step,
                   .deadline = coord_deadline,
                   .run = coord_run,
                   .on_event = on_event,
                   .on_record = on_record},
    };

    config.nodes = world->plan->nodes;
    config.min_nodes = world->plan->min_nodes;
    config.wait_ns = wait;
    if (coord_open(&world->coord, &config) < 0)
        abort();
    member.client.state = world->coord;
    member_start(&world->coordinator, &member, world->now);
    world->tally->late_coordinators += world->plan->coordinator_start_ns > 10 * second;
}

static const char *data_dir(const struct world *world, enum plan_data data)
{
    switch (data) {
    case PLAN_DATA_NONE:
        break;
    case PLAN_DATA_RIGHT:
        return world->files->right;
    case PLAN_DATA_WRONG:
        return world->files->wrong;
    }
    return NULL;
}

static void count_start(struct world *world, uint32_t idx)
{
    const struct plan_node *plan = &world->plan->node[idx];

    world->tally->late_nodes += plan->start_ns > world->plan->coordinator_start_ns;
    world->tally->without_data += plan->data == PLAN_DATA_NONE;
    world->tally->with_wrong_data += plan->data == PLAN_DATA_WRONG;
    world->tally->copied += plan->identity != idx;
    world->tally->stand_ins += idx >= world->plan->nodes && plan->identity == idx;
}

static void start_node(struct world *world, uint32_t idx)
{
    const struct plan_node *plan = &world->plan->node[idx];
    struct worker_config config = {.peer = world_coordinator_addr(),
                                   .instance = world->plan->seed * 1000 + plan->identity + 1,
                                   .threads = 1,
                                   .data_dir = data_dir(world, plan->data),
                                   .store = &world->stores[idx],
                                   .wait_ns = UINT64_MAX};
    struct member_config member = {
        .name = names[idx],
        .addr = world_node_addr(idx),
        .seed = world->plan->seed * 1000 + idx + 1,
        .slowness = plan->slowness,
        .client = {.step = worker_step,
                   .deadline = worker_deadline,
                   .run = worker_run,
                   .on_event = on_event,
                   .on_record = on_record},
    };

    memcpy(config.name, names[idx], strlen(names[idx]) + 1);
    if (worker_open(&world->workers[idx], &config) < 0)
        abort();
    member.client.state = world->workers[idx];
    world->started[idx] = true;
    member_start(&world->nodes[idx], &member, world->now);
    world->nodes[idx].watch.stalled_ns = plan->stall_ns;
    count_start(world, idx);
}

void world_end_member(struct world *world, struct member *member)
{
    struct rdt_stats stats = {.size = sizeof stats};

    if (!member->running)
        return;
    rdt_endpoint_stats(member->ep, &stats);
    world->tally->retransmits += stats.datagrams_retransmitted;
    world->tally->spurious += stats.spurious;
    world->tally->ptos += stats.ptos;
    world->tally->rejected += stats.corrupt + stats.malformed + stats.stray;
    world->tally->deaths += member->watch.deaths;
    world->tally->releases += member->watch.releases;
    member_end(member);
}

bool world_is_gathering(const struct world *world)
{
    return !world->coord || (world->coordinator.running && coord_is_gathering(world->coord));
}

uint32_t world_process(const struct world *world, const char *name)
{
    uint32_t idx = 0;

    while (strcmp(names[idx], name) != 0)
        idx++;
    assert(idx < world->plan->processes);
    return idx;
}

static void apply_starts(struct world *world)
{
    uint64_t at = since_start(world);

    if (!world->coord && at >= world->plan->coordinator_start_ns)
        start_coordinator(world);
    for (uint32_t i = 0; i < world->plan->processes; i++)
        if (!world->started[i] && at >= world->plan->node[i].start_ns &&
            world->steps >= world->plan->node[i].start_step)
            start_node(world, i);
}

static void apply_early_kills(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        if (world->killed[i] || since_start(world) < world->plan->node[i].kill_ns)
            continue;
        world->killed[i] = true;
        if (!world_is_gathering(world) || !world->nodes[i].running)
            continue;
        world->tally->killed_early++;
        world_end_member(world, &world->nodes[i]);
    }
}

static bool is_stalled(const struct world *world, uint32_t idx)
{
    const struct plan_node *node = &world->plan->node[idx];

    if (world->now < world->frozen_until[idx])
        return true;
    return since_start(world) >= node->stall_from_ns &&
           since_start(world) - node->stall_from_ns < node->stall_ns;
}

static void apply_stalls(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        bool stalled = is_stalled(world, i);

        world->tally->stalls += stalled && !world->stalled[i] && world->nodes[i].running;
        world->stalled[i] = stalled;
    }
}

static void apply_end(struct world *world)
{
    if (world->plan->end == PLAN_STOP && world->plan->end_step == 0 && world->coord &&
        since_start(world) >= world->plan->end_ns)
        world->end_due = true;
    if (!world->end_due || world->end_done)
        return;
    world->end_done = true;
    world->tally->stops_early += world->steps == 0;
    if (world->coordinator.running && !world->coordinator.exited)
        member_stop(&world->coordinator, world->now);
}

/* ---------- time ---------- */

static void sooner(uint64_t *at, uint64_t other)
{
    if (other < *at)
        *at = other;
}

/* The planned moment `after`, if it is still to come. */
static void sooner_planned(const struct world *world, uint64_t *at, uint64_t after)
{
    if (after != PLAN_NEVER && after > since_start(world))
        sooner(at, world->plan->epoch_ns + after);
}

static uint64_t next_planned(const struct world *world)
{
    const struct plan *plan = world->plan;
    uint64_t at = UINT64_MAX;

    sooner_planned(world, &at, plan->coordinator_start_ns);
    if (plan->end == PLAN_STOP && plan->end_step == 0)
        sooner_planned(world, &at, plan->end_ns);
    for (uint32_t i = 0; i < plan->processes; i++) {
        const struct plan_node *node = &plan->node[i];

        sooner_planned(world, &at, node->start_ns);
        sooner_planned(world, &at, node->kill_ns);
        sooner_planned(world, &at, node->stall_from_ns);
        sooner_planned(world, &at, node->stall_from_ns + node->stall_ns);
    }
    for (uint32_t i = 0; i < plan->blackouts; i++) {
        sooner_planned(world, &at, plan->blackout[i].from_ns);
        sooner_planned(world, &at, plan->blackout[i].until_ns);
    }
    if (world->garbage_left > 0)
        sooner(&at, world->garbage_next);
    sooner(&at, faults_next(world));
    return at;
}

static uint64_t next_time(const struct world *world)
{
    uint64_t at = next_planned(world);

    if (world->coordinator.running)
        sooner(&at, member_deadline(&world->coordinator));
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        sooner(&at, rdt_link_deadline(world->up[i]));
        if (world->stalled[i])
            continue;
        sooner(&at, rdt_link_deadline(world->down[i]));
        if (world->nodes[i].running)
            sooner(&at, member_deadline(&world->nodes[i]));
    }
    return at;
}

/* Nodes that are there or will be back; two processes with one identity can be one member only. */
static uint32_t nodes_left(const struct world *world)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < world->plan->processes; i++) {
        bool counts = world->nodes[i].running && !world->nodes[i].exited;

        for (uint32_t other = 0; other < i && counts; other++)
            counts = !world->nodes[other].running || world->nodes[other].exited ||
                     world->plan->node[other].identity != world->plan->node[i].identity;
        count += counts;
    }
    return count;
}

static void finish_turn(struct world *world, struct member *member)
{
    if (member->watch.fault)
        world_fail(world, "%s: %s", member->name, member->watch.fault);
    if (member_is_done(member, world->now))
        world_end_member(world, member);
}

static void turn(struct world *world)
{
    apply_starts(world);
    apply_early_kills(world);
    faults_apply(world);
    apply_stalls(world);
    network_change(world);
    network_throw_garbage(world);
    network_deliver(world);
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        if (!world->nodes[i].running || world->stalled[i])
            continue;
        member_turn(&world->nodes[i], world->now);
        network_send_up(world, i);
        finish_turn(world, &world->nodes[i]);
    }
    if (world->coordinator.running) {
        if (!world->coordinator.exited)
            world->left_at_end = nodes_left(world);
        member_turn(&world->coordinator, world->now);
        network_send_down(world);
        finish_turn(world, &world->coordinator);
    }
    apply_end(world);
}

/* ---------- verdict ---------- */

/* The run ended for want of nodes, of which so many are left: rightly?  It has said goodbye to
 * them, so they are counted when it gave up. */
static int expected_code(const struct world *world)
{
    const int code = world->coordinator.code;
    const bool all = world->steps == schedule_steps(&world->problem->coord.schedule);

    /* What ends a run after its last step finds it over. */
    if (all && code == 0)
        return 0;
    if (world->left_at_end < world->plan->min_nodes && code == 6)
        return 6;
    return world->plan->end == PLAN_STOP && world->end_done ? 4 : 0;
}

static void check_end(struct world *world)
{
    const struct member *coordinator = &world->coordinator;
    const uint64_t steps = schedule_steps(&world->problem->coord.schedule);
    const int expected = expected_code(world);

    if (coordinator->code != expected)
        world_fail(world, "exit code %d, expected %d: %s", coordinator->code, expected,
                   coordinator->text);
    if (expected == 0 && world->steps != steps)
        world_fail(world, "%" PRIu64 " steps recorded", world->steps);
    if (expected == 0 && world->evals != world->problem->evals)
        world_fail(world, "%" PRIu64 " evaluations recorded", world->evals);
    if (coord_steps(world->coord) != world->steps)
        world_fail(world, "%" PRIu64 " steps committed, %" PRIu64 " recorded",
                   coord_steps(world->coord), world->steps);
    if (expected == 6 && !world->unlucky && world->now - world->lost_ns > noticed_within + wait)
        world_fail(world, "the death was noticed after %.1f s",
                   (double)(world->now - world->lost_ns) / 1e9 - (double)wait / 1e9);
    world->tally->done += coordinator->code == 0;
    world->tally->stops += coordinator->code == 4;
    world->tally->too_few += coordinator->code == 6;
}

static void check_data(struct world *world, const struct coord_node *node)
{
    uint32_t idx = world_process(world, node->name);
    bool own = world->plan->node[idx].data == PLAN_DATA_RIGHT;

    /* Who was sent samples, was lost and came back may have all by now. */
    if (own != node->has_train && (own || node->samples_sent == 0))
        world_fail(world, "%s says it has the data: %d", names[idx], node->has_train);
    if (own && node->has_test && node->samples_sent > 0)
        world_fail(world, "%s has the data and was sent samples", node->name);
    world->tally->late_used += world->plan->node[idx].start_step > 0 && node->leaves > 0;
}

static void check_nodes(struct world *world)
{
    for (size_t i = 0; i < coord_nodes(world->coord); i++) {
        struct coord_node node = coord_node(world->coord, i);

        check_data(world, &node);
    }
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        const struct member *node = &world->nodes[i];
        const bool may_stop = world->left[i] && node->code == WORKER_STOPPED;

        if (node->exited && node->code != WORKER_DONE && !may_stop)
            world_fail(world, "node %" PRIu32 " exited with %d: %s", i, node->code, node->text);
    }
}

static void close_all(struct world *world)
{
    world_end_member(world, &world->coordinator);
    coord_free(world->coord);
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        world_end_member(world, &world->nodes[i]);
        worker_free(world->workers[i]);
        data_store_close(&world->stores[i]);
    }
    network_close(world);
}

static void run(struct world *world)
{
    uint64_t turns = 0;

    turn(world); /* what the plan says for the first moment */
    while ((!world->coord || world->coordinator.running) && world->outcome->ok) {
        uint64_t next = next_time(world);

        if (next > world->now)
            world->now = next;
        turn(world);
        if (since_start(world) > patience || ++turns > TURNS_MAX)
            world_fail(world,
                       "hangs: %" PRIu64 " steps after %.1f virtual seconds and %" PRIu64 " turns",
                       world->steps, (double)since_start(world) / 1e9, turns);
    }
}

void world_run(const struct plan *plan, const struct problem *problem,
               const struct world_files *files, bool verbose, struct tally *tally,
               struct world_outcome *outcome)
{
    static struct world world;

    memset(&world, 0, sizeof world);
    memset(outcome, 0, sizeof *outcome);
    outcome->ok = true;
    world.plan = plan;
    world.problem = problem;
    world.files = files;
    world.verbose = verbose;
    world.tally = tally;
    world.outcome = outcome;
    world.now = plan->epoch_ns;
    world.random = plan->seed ^ UINT64_C(0x5eed);
    the_world = &world;
    network_open(&world);
    run(&world);
    network_judge(&world);
    tally->unlucky += world.unlucky;
    if (outcome->ok)
        check_end(&world);
    if (outcome->ok)
        check_nodes(&world);
    tally->virtual_ms += since_start(&world) / 1000000;
    outcome->taken_ns = since_start(&world);
    outcome->sent_up = world.sent_up;
    outcome->sent_down = world.sent_down;
    close_all(&world);
}
