/* SPDX-License-Identifier: MIT */

/* The links between the nodes and the coordinator, and who throws garbage. */

#include "state.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t silence_ns = 2500000000; /* rdt's default for dead_ns */

enum { UNLUCKY_DATAGRAMS = 8 };

void network_open(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->processes; i++)
        if (rdt_link_open(&world->up[i], &world->plan->node[i].up, 0) < 0 ||
            rdt_link_open(&world->down[i], &world->plan->node[i].down, 0) < 0)
            abort();
    world->garbage_left = world->plan->garbage;
    world->garbage_next = world->plan->epoch_ns + world->plan->coordinator_start_ns + 1;
}

void network_close(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        struct rdt_link *links[] = {world->up[i], world->down[i]};

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

/* ---------- blackouts ---------- */

static bool is_dark(const struct world *world, uint32_t idx)
{
    uint64_t at = world->now - world->plan->epoch_ns;

    if (world->now < world->dark_until[idx])
        return true;
    for (uint32_t i = 0; i < world->plan->blackouts; i++) {
        const struct plan_blackout *blackout = &world->plan->blackout[i];

        if (blackout->node == idx && at >= blackout->from_ns && at < blackout->until_ns)
            return true;
    }
    return false;
}

void network_change(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->processes; i++) {
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

/* ---------- datagrams ---------- */

static bool is_dropped(const struct plan_drop *drop, uint64_t number)
{
    return drop->first != 0 && number >= drop->first && number - drop->first < drop->count;
}

/* With bursts of loss as long as these, a peer that is heard of no more has not always died. */
static void judge(struct world *world, const struct quiet *quiet)
{
    if (quiet->heard && world->now - quiet->since_ns >= silence_ns &&
        quiet->datagrams >= UNLUCKY_DATAGRAMS)
        world->unlucky = true;
}

void network_judge(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        judge(world, &world->quiet_up[i]);
        judge(world, &world->quiet_down[i]);
    }
}

static void heard(struct world *world, struct quiet *quiet)
{
    judge(world, quiet);
    *quiet = (struct quiet){.heard = true, .since_ns = world->now};
}

static void send(struct world *world, uint32_t idx, bool up, const struct rdt_arrival *datagram)
{
    uint64_t number = up ? ++world->sent_up : ++world->sent_down;

    world->tally->datagrams++;
    if (up ? world->coordinator.running : world->nodes[idx].running)
        (up ? &world->quiet_up[idx] : &world->quiet_down[idx])->datagrams++;
    if (is_dropped(up ? &world->plan->drop_up : &world->plan->drop_down, number))
        world->tally->dropped++;
    else
        rdt_link_put(up ? world->up[idx] : world->down[idx], datagram, world->now);
}

static uint32_t node_of(const struct world *world, const struct rdt_addr *addr)
{
    uint32_t idx = 0;

    while (idx < world->plan->processes && addr->port != world_node_addr(idx).port)
        idx++;
    return idx;
}

static void send_all(struct world *world, struct member *member, bool up, uint32_t idx)
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
                idx = node_of(world, &train.to);
            if (idx < world->plan->processes) /* an answer to garbage goes nowhere */
                send(world, idx, up, &datagram);
        }
    }
}

void network_send_up(struct world *world, uint32_t idx)
{
    send_all(world, &world->nodes[idx], true, idx);
}

void network_send_down(struct world *world)
{
    send_all(world, &world->coordinator, false, 0);
}

static void keep_sample(struct world *world, struct member *to, const struct rdt_arrival *arrival)
{
    if (arrival->len < 8 || arrival->len > sizeof world->sample ||
        plan_random(&world->random) % 4 != 0)
        return;
    memcpy(world->sample, arrival->bytes, arrival->len);
    world->sample_arrival = *arrival;
    world->sample_to = to;
}

static void deliver(struct world *world, struct rdt_link *link, struct member *to,
                    struct quiet *quiet)
{
    struct rdt_arrival arrival;

    while (rdt_link_next(link, world->now, &arrival)) {
        if (!to->running)
            continue;
        keep_sample(world, to, &arrival);
        world_fold(world, &world->now, sizeof world->now);
        world_fold(world, &arrival.from.port, sizeof arrival.from.port);
        world_fold(world, arrival.bytes, arrival.len);
        if (member_arrival(to, &arrival, world->now))
            heard(world, quiet);
    }
}

void network_deliver(struct world *world)
{
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        deliver(world, world->up[i], &world->coordinator, &world->quiet_up[i]);
        if (!world->stalled[i]) /* else they wait in its socket */
            deliver(world, world->down[i], &world->nodes[i], &world->quiet_down[i]);
    }
}

/* ---------- garbage ---------- */

static void damage(struct world *world, struct rdt_arrival *arrival)
{
    uint8_t *bytes = arrival->bytes;
    size_t flips = plan_random(&world->random) % 5;

    for (size_t i = 0; i < flips; i++) {
        /* In distinct bytes: two flips of one bit would be none. */
        size_t part = arrival->len / 4;
        size_t at = (i % 4) * part + plan_random(&world->random) % part;

        bytes[at] ^= (uint8_t)(1u << plan_random(&world->random) % 8);
    }
    if (flips > 0)
        world->tally->damaged++;
    else
        world->tally->repeated++;
}

void network_throw_garbage(struct world *world)
{
    uint8_t bytes[2048];
    struct rdt_arrival arrival = {.local = world_coordinator_addr()};
    struct member *to = &world->coordinator;

    if (world->garbage_left == 0 || world->now < world->garbage_next)
        return;
    world->garbage_left--;
    world->garbage_next = world->now + 7000000;
    if (plan_random(&world->random) % 2 && world->sample_to) {
        to = world->sample_to;
        arrival = world->sample_arrival;
        memcpy(bytes, world->sample, arrival.len);
        arrival.bytes = bytes;
        damage(world, &arrival);
    } else {
        arrival.bytes = bytes;
        arrival.from =
            world_node_addr((uint32_t)(plan_random(&world->random) % world->plan->processes));
        arrival.from.port = (uint16_t)plan_random(&world->random);
        arrival.len = plan_random(&world->random) % 1500;
        for (size_t i = 0; i < arrival.len; i++)
            bytes[i] = (uint8_t)plan_random(&world->random);
        world->tally->garbage++;
    }
    if (to->running)
        member_arrival(to, &arrival, world->now);
}
