/* SPDX-License-Identifier: MIT */
#include "world.h"

#include "member.h"

#include <node/worker.h>

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t second = 1000000000;

enum { TRAIN_MAX = 65507, TURNS_MAX = 4000000 };

/* Nothing takes longer than this, however bad the links: a run that does hangs. */
static const uint64_t patience = 400ull * 1000000000;

struct world {
    const struct plan *plan;
    const struct problem *problem;
    const char *data_dir;
    bool verbose;
    struct tally *tally;
    struct world_outcome *outcome;
    uint64_t now;
    struct coord *coord;
    struct member coordinator;
    struct worker *workers[PLAN_NODES_MAX];
    struct data_store stores[PLAN_NODES_MAX];
    struct member nodes[PLAN_NODES_MAX];
    bool started[PLAN_NODES_MAX];
    struct rdt_link *up[PLAN_NODES_MAX], *down[PLAN_NODES_MAX];
    bool dark[PLAN_NODES_MAX];
    uint64_t steps, evals; /* recorded */
    bool end_due, end_done;
    uint64_t killed_ns;
    uint64_t garbage_left, garbage_next, random;
    uint8_t sample[2048]; /* a datagram that went to the coordinator, for damaged copies */
    size_t sample_len;
};

__attribute__((format(printf, 2, 3))) static void fail(struct world *world, const char *format, ...)
{
    va_list args;

    if (!world->outcome->ok)
        return;
    world->outcome->ok = false;
    va_start(args, format);
    vsnprintf(world->outcome->why, sizeof world->outcome->why, format, args);
    va_end(args);
}

static void fold(struct world *world, const void *bytes, size_t len)
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

static struct rdt_addr node_addr(uint32_t idx)
{
    return rdt_addr_v4(10, 0, 1, (uint8_t)(idx + 1), (uint16_t)(9000 + idx));
}

static struct rdt_addr coordinator_addr(void)
{
    return rdt_addr_v4(10, 0, 0, 1, 7000);
}

/* ---------- what members report ---------- */

static struct world *the_world; /* the callbacks' state is the step function's */

static void on_event(void *state, const char *text, uint64_t now_ns)
{
    (void)state;
    if (the_world->verbose)
        printf("%10.6f %s\n", (double)(now_ns - the_world->plan->epoch_ns) / 1e9, text);
}

static void on_step(struct world *world, const struct record *record)
{
    if (record->step != world->steps)
        fail(world, "step %" PRIu64 " recorded after %" PRIu64 " steps", record->step,
             world->steps);
    else if (record->step >= PROBLEM_STEPS_MAX)
        fail(world, "a step too many");
    else if (strcmp(record->hash, world->problem->hashes[record->step]) != 0)
        fail(world, "weights differ from the oracle's after step %" PRIu64, record->step);
    world->steps++;
    world->tally->steps++;
    if (world->plan->end != PLAN_DONE && world->steps == world->plan->end_step)
        world->end_due = true;
}

static void on_eval(struct world *world, const struct record *record)
{
    uint64_t at = world->evals++;

    world->tally->evals++;
    if (at >= world->problem->evals)
        fail(world, "an evaluation too many");
    else if (record->correct != world->problem->eval_correct[at] ||
             record->loss < world->problem->eval_loss[at] ||
             record->loss > world->problem->eval_loss[at])
        fail(world, "evaluation %" PRIu64 " differs from the oracle's", at);
}

static void on_record(void *state, const void *bytes, uint64_t now_ns)
{
    const struct record *record = bytes;

    (void)state;
    fold(the_world, &now_ns, sizeof now_ns);
    fold(the_world, record->hash, strlen(record->hash));
    if (record->kind == RECORD_STEP)
        on_step(the_world, record);
    else if (record->kind == RECORD_EVAL)
        on_eval(the_world, record);
}

/* ---------- start and end of members ---------- */

static void start_coordinator(struct world *world)
{
    struct coord_config config = world->problem->coord;
    const struct member_config member = {
        .name = "coordinator",
        .addr = coordinator_addr(),
        .listen = true,
        .seed = world->plan->seed * 1000,
        .slowness = 1.0,
        .client = {.step = coord_step,
                   .deadline = coord_deadline,
                   .run = coord_run,
                   .on_event = on_event,
                   .on_record = on_record},
    };
    struct member_config with_state = member;

    config.nodes = world->plan->nodes;
    config.wait_ns = 60 * second;
    if (coord_open(&world->coord, &config) < 0)
        abort();
    with_state.client.state = world->coord;
    member_start(&world->coordinator, &with_state, world->now);
}

static void start_node(struct world *world, uint32_t idx)
{
    static const char *const names[PLAN_NODES_MAX] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6"};
    const struct plan_node *plan = &world->plan->node[idx];
    struct worker_config config = {.peer = coordinator_addr(),
                                   .instance = world->plan->seed * 1000 + idx + 1,
                                   .threads = 1,
                                   .data_dir = plan->has_data ? world->data_dir : NULL,
                                   .store = &world->stores[idx],
                                   .wait_ns = UINT64_MAX};
    struct member_config member = {
        .name = names[idx],
        .addr = node_addr(idx),
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
    if (plan->start_ns > world->plan->coordinator_start_ns)
        world->tally->late_nodes++;
    if (!plan->has_data)
        world->tally->nodes_without_data++;
}

static void count_endpoint(struct world *world, const struct member *member)
{
    struct rdt_stats stats = {.size = sizeof stats};

    rdt_endpoint_stats(member->ep, &stats);
    world->tally->retransmits += stats.datagrams_retransmitted;
    world->tally->spurious += stats.spurious;
    world->tally->ptos += stats.ptos;
    world->tally->rejected += stats.corrupt + stats.malformed + stats.stray;
}

static void end_member(struct world *world, struct member *member)
{
    if (!member->running)
        return;
    count_endpoint(world, member);
    member_end(member);
}

/* ---------- the network ---------- */

static void send_trains(struct world *world, struct member *member, struct rdt_link *const *links,
                        bool up, uint32_t idx)
{
    static uint8_t buf[TRAIN_MAX];
    struct rdt_train train;

    while (rdt_next_train(member->ep, world->now, buf, sizeof buf, &train)) {
        for (size_t at = 0; at < train.len; at += train.segment_len) {
            size_t left = train.len - at;
            struct rdt_arrival datagram = {.from = member->addr, .local = train.to};

            datagram.bytes = buf + at;
            datagram.len = left < train.segment_len ? left : train.segment_len;
            if (!up)
                for (idx = 0; idx < world->plan->nodes; idx++)
                    if (train.to.port == node_addr(idx).port)
                        break;
            if (idx < world->plan->nodes) /* an answer to garbage goes nowhere */
                rdt_link_put(links[idx], &datagram, world->now);
            world->tally->datagrams++;
        }
    }
}

static void keep_sample(struct world *world, const struct rdt_arrival *arrival)
{
    if (arrival->len <= sizeof world->sample && plan_random(&world->random) % 4 == 0) {
        memcpy(world->sample, arrival->bytes, arrival->len);
        world->sample_len = arrival->len;
    }
}

static void deliver(struct world *world, struct rdt_link *link, struct member *to)
{
    struct rdt_arrival arrival;

    while (rdt_link_next(link, world->now, &arrival)) {
        if (!to->running)
            continue;
        if (to == &world->coordinator)
            keep_sample(world, &arrival);
        fold(world, &world->now, sizeof world->now);
        fold(world, &arrival.from.port, sizeof arrival.from.port);
        fold(world, arrival.bytes, arrival.len);
        rdt_input(to->ep, &arrival, world->now);
    }
}

static void throw_garbage(struct world *world)
{
    uint8_t bytes[2048];
    struct rdt_arrival arrival = {.bytes = bytes, .local = coordinator_addr()};

    if (world->garbage_left == 0 || world->now < world->garbage_next)
        return;
    world->garbage_left--;
    world->garbage_next = world->now + 7000000;
    if (!world->coordinator.running)
        return;
    arrival.from = node_addr((uint32_t)(plan_random(&world->random) % world->plan->nodes));
    if (plan_random(&world->random) % 2 && world->sample_len > 0) {
        size_t flips = 1 + plan_random(&world->random) % 4;

        memcpy(bytes, world->sample, world->sample_len);
        arrival.len = world->sample_len;
        for (size_t i = 0; i < flips; i++) {
            /* In distinct bytes: two flips of one bit would be none. */
            size_t at =
                i * (world->sample_len / 4) + plan_random(&world->random) % (world->sample_len / 4);

            bytes[at] ^= (uint8_t)(1u << plan_random(&world->random) % 8);
        }
        world->tally->damaged++;
    } else {
        arrival.len = plan_random(&world->random) % 1500;
        for (size_t i = 0; i < arrival.len; i++)
            bytes[i] = (uint8_t)plan_random(&world->random);
        arrival.from.port = (uint16_t)plan_random(&world->random);
        world->tally->garbage++;
    }
    rdt_input(world->coordinator.ep, &arrival, world->now);
}

/* ---------- faults with a time ---------- */

static bool is_dark(const struct world *world, uint32_t idx)
{
    uint64_t at = world->now - world->plan->epoch_ns;

    for (uint32_t i = 0; i < world->plan->blackouts; i++) {
        const struct plan_blackout *blackout = &world->plan->blackout[i];

        if (blackout->node == idx && at >= blackout->from_ns && at < blackout->until_ns)
            return true;
    }
    return false;
}

static void apply_blackouts(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->nodes; i++) {
        bool dark = is_dark(world, i);
        struct rdt_link_config up = world->plan->node[i].up;
        struct rdt_link_config down = world->plan->node[i].down;

        if (dark == world->dark[i])
            continue;
        world->dark[i] = dark;
        world->tally->blackouts += dark;
        if (dark) {
            up.loss = down.loss = 1.0;
            up.burst = down.burst = 0.0;
        }
        rdt_link_set(world->up[i], &up);
        rdt_link_set(world->down[i], &down);
    }
}

static void apply_end(struct world *world)
{
    if (!world->end_due || world->end_done)
        return;
    world->end_done = true;
    if (world->plan->end == PLAN_STOP) {
        if (world->coordinator.running && !world->coordinator.exited)
            member_stop(&world->coordinator, world->now);
        return;
    }
    world->killed_ns = world->now;
    end_member(world, &world->nodes[world->plan->victim]);
}

static void apply_starts(struct world *world)
{
    uint64_t at = world->now - world->plan->epoch_ns;

    if (!world->coord && at >= world->plan->coordinator_start_ns)
        start_coordinator(world);
    for (uint32_t i = 0; i < world->plan->nodes; i++)
        if (!world->started[i] && at >= world->plan->node[i].start_ns)
            start_node(world, i);
}

/* ---------- time ---------- */

static void sooner(uint64_t *at, uint64_t other)
{
    if (other < *at)
        *at = other;
}

static uint64_t next_planned(const struct world *world)
{
    const struct plan *plan = world->plan;
    uint64_t at = UINT64_MAX;

    if (!world->coord)
        sooner(&at, plan->epoch_ns + plan->coordinator_start_ns);
    for (uint32_t i = 0; i < plan->nodes; i++)
        if (!world->started[i])
            sooner(&at, plan->epoch_ns + plan->node[i].start_ns);
    for (uint32_t i = 0; i < plan->blackouts; i++) {
        if (plan->epoch_ns + plan->blackout[i].from_ns > world->now)
            sooner(&at, plan->epoch_ns + plan->blackout[i].from_ns);
        else if (plan->epoch_ns + plan->blackout[i].until_ns > world->now)
            sooner(&at, plan->epoch_ns + plan->blackout[i].until_ns);
    }
    if (world->garbage_left > 0)
        sooner(&at, world->garbage_next);
    return at;
}

static uint64_t next_time(const struct world *world)
{
    uint64_t at = next_planned(world);

    if (world->coordinator.running)
        sooner(&at, member_deadline(&world->coordinator));
    for (uint32_t i = 0; i < world->plan->nodes; i++) {
        sooner(&at, rdt_link_deadline(world->up[i]));
        sooner(&at, rdt_link_deadline(world->down[i]));
        if (world->nodes[i].running)
            sooner(&at, member_deadline(&world->nodes[i]));
    }
    return at;
}

static void turn(struct world *world)
{
    apply_starts(world);
    apply_blackouts(world);
    throw_garbage(world);
    for (uint32_t i = 0; i < world->plan->nodes; i++) {
        deliver(world, world->up[i], &world->coordinator);
        deliver(world, world->down[i], &world->nodes[i]);
    }
    for (uint32_t i = 0; i < world->plan->nodes; i++) {
        struct member *node = &world->nodes[i];

        if (!node->running)
            continue;
        member_turn(node, world->now);
        send_trains(world, node, world->up, true, i);
        if (node->exited)
            end_member(world, node);
    }
    if (world->coordinator.running) {
        member_turn(&world->coordinator, world->now);
        send_trains(world, &world->coordinator, world->down, false, 0);
        if (world->coordinator.exited)
            end_member(world, &world->coordinator);
    }
    apply_end(world);
}

static bool is_over(const struct world *world)
{
    if (!world->coord || world->coordinator.running)
        return false;
    return true;
}

/* ---------- verdict ---------- */

static void check_end(struct world *world)
{
    const struct plan *plan = world->plan;
    const struct member *coordinator = &world->coordinator;
    int expected = 0;

    if (plan->end != PLAN_DONE && world->end_due)
        expected = plan->end == PLAN_STOP ? 4 : 6;
    /* What ends a run after its last step finds it over. */
    if (world->end_due && world->steps == schedule_steps(&world->problem->coord.schedule) &&
        coordinator->code == 0)
        expected = 0;
    if (coordinator->code != expected)
        fail(world, "exit code %d, expected %d: %s", coordinator->code, expected,
             coordinator->text);
    if (expected == 0 && world->steps != schedule_steps(&world->problem->coord.schedule))
        fail(world, "%" PRIu64 " steps recorded", world->steps);
    if (expected == 0 && world->evals != world->problem->evals)
        fail(world, "%" PRIu64 " evaluations recorded", world->evals);
    if (coord_steps(world->coord) != world->steps)
        fail(world, "%" PRIu64 " steps committed, %" PRIu64 " recorded", coord_steps(world->coord),
             world->steps);
    if (expected == 6 && world->now - world->killed_ns > 6 * second)
        fail(world, "the death was noticed after %.1f s",
             (double)(world->now - world->killed_ns) / 1e9);
    world->tally->done += coordinator->code == 0;
    world->tally->stops += coordinator->code == 4;
    world->tally->kills += coordinator->code == 6;
}

static void check_nodes(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->nodes; i++)
        if (world->nodes[i].exited && world->nodes[i].code != WORKER_DONE)
            fail(world, "node %" PRIu32 " exited with %d: %s", i, world->nodes[i].code,
                 world->nodes[i].text);
}

static void open_links(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->nodes; i++)
        if (rdt_link_open(&world->up[i], &world->plan->node[i].up, 0) < 0 ||
            rdt_link_open(&world->down[i], &world->plan->node[i].down, 0) < 0)
            abort();
}

static void close_all(struct world *world)
{
    end_member(world, &world->coordinator);
    coord_free(world->coord);
    for (uint32_t i = 0; i < world->plan->nodes; i++) {
        struct rdt_link *links[] = {world->up[i], world->down[i]};

        end_member(world, &world->nodes[i]);
        worker_free(world->workers[i]);
        data_store_close(&world->stores[i]);
        for (int way = 0; way < 2; way++) {
            struct rdt_link_stats stats = {.size = sizeof stats};

            rdt_link_stats(links[way], &stats);
            world->tally->lost += stats.lost;
            world->tally->duplicated += stats.duplicated;
            world->tally->reordered += stats.reordered;
            world->tally->corrupted += stats.corrupted;
            world->tally->queue_dropped += stats.queue_dropped;
            rdt_link_free(links[way]);
        }
    }
}

void world_run(const struct plan *plan, const struct problem *problem, const char *data_dir,
               bool verbose, struct tally *tally, struct world_outcome *outcome)
{
    static struct world world;
    uint64_t turns = 0;

    memset(&world, 0, sizeof world);
    memset(outcome, 0, sizeof *outcome);
    outcome->ok = true;
    world.plan = plan;
    world.problem = problem;
    world.data_dir = data_dir;
    world.verbose = verbose;
    world.tally = tally;
    world.outcome = outcome;
    world.now = plan->epoch_ns;
    world.random = plan->seed ^ UINT64_C(0x5eed);
    world.garbage_left = plan->garbage;
    world.garbage_next = plan->epoch_ns + plan->coordinator_start_ns + 1;
    the_world = &world;
    open_links(&world);
    while (!is_over(&world) && outcome->ok) {
        uint64_t next = next_time(&world);

        if (next > world.now)
            world.now = next;
        turn(&world);
        if (world.now - plan->epoch_ns > patience || ++turns > TURNS_MAX)
            fail(&world,
                 "hangs: %" PRIu64 " steps after %.1f virtual seconds and %" PRIu64 " turns",
                 world.steps, (double)(world.now - plan->epoch_ns) / 1e9, turns);
    }
    if (outcome->ok)
        check_end(&world);
    if (outcome->ok)
        check_nodes(&world);
    tally->virtual_ms += (world.now - plan->epoch_ns) / 1000000;
    close_all(&world);
}
