/* SPDX-License-Identifier: MIT */
/*
 * Virtual time for two endpoints and the links between them.
 */
#include "sim_pair.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUF_BYTES = 65536,
    TURNS_MAX = 10000, /* at one instant: more is a loop */
};

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static void trace(struct sim_pair *sim, uint64_t value)
{
    sim->trace = mix(sim->trace ^ value);
}

static void trace_bytes(struct sim_pair *sim, const uint8_t *bytes, size_t len)
{
    uint64_t word = 0;

    /* The HASH in the prefix stands for the rest. */
    for (size_t at = 0; at + 8 <= len && at < 24; at += 8) {
        memcpy(&word, bytes + at, 8);
        trace(sim, word);
    }
    trace(sim, len);
}

void sim_open(struct sim_pair *sim, const struct sim_config *config)
{
    memset(sim, 0, sizeof *sim);
    sim->app = config->app;
    sim->now_ns = config->start_ns;
    sim->buf = malloc(BUF_BYTES);
    ck_assert_ptr_nonnull(sim->buf);
    for (int side = 0; side < 2; side++) {
        struct rdt_config endpoint = config->endpoint[side];
        struct rdt_link_config link = config->link[side];

        endpoint.size = sizeof endpoint;
        endpoint.listen = side == 1;
        if (endpoint.connections_max == 0)
            endpoint.connections_max = 4;
        for (size_t i = 0; i < sizeof endpoint.entropy; i++)
            endpoint.entropy[i] = (uint8_t)mix(config->seed + i * 2 + (size_t)side);
        link.seed = mix(config->seed ^ (uint64_t)side << 32);
        ck_assert_int_eq(rdt_open(&sim->ep[side], &endpoint), 0);
        ck_assert_int_eq(rdt_link_open(&sim->link[side], &link, 0), 0);
        sim->addr[side] = rdt_addr_v4(10, 0, 0, (uint8_t)(1 + side), 7000);
    }
}

void sim_close(struct sim_pair *sim)
{
    for (int side = 0; side < 2; side++) {
        rdt_free(sim->ep[side]);
        rdt_link_free(sim->link[side]);
    }
    free(sim->buf);
}

void sim_connect(struct sim_pair *sim)
{
    ck_assert_int_eq(rdt_connect(sim->ep[0], &sim->addr[1], sim->now_ns, &sim->conn[0]), 0);
}

/* ---------- one instant ---------- */

static bool deliver(struct sim_pair *sim, int from)
{
    struct rdt_arrival arrival;
    bool any = false;

    while (rdt_link_next(sim->link[from], sim->now_ns, &arrival)) {
        rdt_input(sim->ep[!from], &arrival, sim->now_ns);
        any = true;
    }
    return any;
}

static void note_event(struct sim_pair *sim, int side, const struct rdt_event *event)
{
    trace(sim, sim->now_ns);
    trace(sim, (uint64_t)event->kind << 32 | (uint32_t)event->status);
    trace(sim, event->tag);
    trace(sim, event->len);
    switch (event->kind) {
    case RDT_EV_CONNECTED:
        ck_assert(!sim->is_connected[side]);
        ck_assert_int_eq(event->incoming, side == 1);
        sim->is_connected[side] = true;
        sim->conn[side] = event->conn;
        break;
    case RDT_EV_CLOSED:
        ck_assert(!sim->is_closed[side]);
        sim->is_closed[side] = true;
        sim->reason[side] = event->reason;
        break;
    case RDT_EV_MESSAGE:
    case RDT_EV_OFFER:
    case RDT_EV_RELEASED:
    case RDT_EV_WRITABLE:
        ck_assert(!sim->is_closed[side]);
        break;
    }
}

static bool take_events(struct sim_pair *sim, int side)
{
    struct rdt_event event;
    bool any = false;

    if (sim->is_deaf[side])
        return false;
    while (rdt_next_event(sim->ep[side], &event)) {
        any = true;
        note_event(sim, side, &event);
        if (sim->app.on_event)
            sim->app.on_event(sim, side, &event, sim->app.ctx);
    }
    if (sim->app.on_turn && (any || sim->now_ns >= sim->app_next_ns[side]))
        sim->app_next_ns[side] = sim->app.on_turn(sim, side, sim->app.ctx);
    return any;
}

static void put(struct sim_pair *sim, int side, const struct rdt_train *train)
{
    for (size_t at = 0; at < train->len; at += train->segment_len) {
        size_t left = train->len - at;
        struct rdt_arrival datagram = {.from = sim->addr[side],
                                       .local = train->to,
                                       .bytes = sim->buf + at,
                                       .len =
                                           left < train->segment_len ? left : train->segment_len};

        trace(sim, sim->now_ns << 1 | (uint64_t)side);
        trace_bytes(sim, datagram.bytes, datagram.len);
        sim->datagrams++;
        if (sim->app.on_datagram && !sim->app.on_datagram(sim, side, &datagram, sim->app.ctx))
            continue;
        rdt_link_put(sim->link[side], &datagram, sim->now_ns);
    }
}

static bool send(struct sim_pair *sim, int side)
{
    struct rdt_train train;
    bool any = false;

    while (rdt_next_train(sim->ep[side], sim->now_ns, sim->buf, BUF_BYTES, &train)) {
        ck_assert(rdt_addr_equal(&train.to, &sim->addr[!side]));
        ck_assert_uint_gt(train.len, 0);
        ck_assert_uint_le(train.segment_len, train.len);
        put(sim, side, &train);
        any = true;
    }
    return any;
}

static bool instant(struct sim_pair *sim)
{
    bool any = false;

    for (int side = 0; side < 2; side++)
        any = deliver(sim, side) || any;
    for (int side = 0; side < 2; side++) {
        if (rdt_deadline(sim->ep[side]) <= sim->now_ns) {
            rdt_on_timeout(sim->ep[side], sim->now_ns);
            any = true;
        }
        any = take_events(sim, side) || any;
        any = send(sim, side) || any;
    }
    return any;
}

/* All that is to be done now. */
static void settle(struct sim_pair *sim)
{
    int turns = 0;

    while (instant(sim))
        ck_assert_msg(++turns < TURNS_MAX, "time stands still at %llu",
                      (unsigned long long)sim->now_ns);
}

bool sim_step(struct sim_pair *sim, uint64_t until_ns)
{
    uint64_t next = UINT64_MAX;

    settle(sim);
    for (int side = 0; side < 2; side++) {
        uint64_t due = rdt_link_deadline(sim->link[side]);

        next = due < next ? due : next;
        due = rdt_deadline(sim->ep[side]);
        next = due < next ? due : next;
        if (sim->app.on_turn && !sim->is_deaf[side] && sim->app_next_ns[side] < next)
            next = sim->app_next_ns[side];
    }
    if (next > until_ns)
        sim->now_ns = until_ns;
    else if (next > sim->now_ns)
        sim->now_ns = next;
    settle(sim);
    return next != UINT64_MAX;
}

void sim_run(struct sim_pair *sim, uint64_t until_ns)
{
    while (sim->now_ns < until_ns)
        sim_step(sim, until_ns);
}

bool sim_run_until(struct sim_pair *sim, uint64_t until_ns, bool (*done)(void *ctx), void *ctx)
{
    while (!done(ctx)) {
        if (sim->now_ns >= until_ns)
            return false;
        sim_step(sim, until_ns);
    }
    return true;
}

static bool both_connected(void *ctx)
{
    const struct sim_pair *sim = ctx;

    return sim->is_connected[0] && sim->is_connected[1];
}

void sim_connected(struct sim_pair *sim)
{
    sim_connect(sim);
    ck_assert(sim_run_until(sim, sim->now_ns + SIM_S(10), both_connected, sim));
}

/* ---------- content ---------- */

void sim_fill(uint8_t *bytes, size_t len, uint64_t key)
{
    uint64_t word = mix(key) | 1;

    for (size_t at = 0; at < len; at += 8) {
        const uint64_t value = word * (at / 8 + 1) ^ key;

        memcpy(bytes + at, &value, len - at < 8 ? len - at : 8);
    }
}

bool sim_matches(const uint8_t *bytes, size_t len, uint64_t key)
{
    uint64_t word = mix(key) | 1;

    for (size_t at = 0; at < len; at += 8) {
        const uint64_t value = word * (at / 8 + 1) ^ key;

        if (memcmp(bytes + at, &value, len - at < 8 ? len - at : 8) != 0)
            return false;
    }
    return true;
}

struct rdt_stats sim_stats(const struct sim_pair *sim, int side)
{
    struct rdt_stats stats = {.size = sizeof stats};

    rdt_endpoint_stats(sim->ep[side], &stats);
    return stats;
}
