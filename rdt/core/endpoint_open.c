/* SPDX-License-Identifier: MIT */
/*
 * What an endpoint is made of: settings with their defaults, and one region for everything.
 */
#include "endpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NIL UINT32_MAX

enum {
    EVENTS_PER_CONN = 3, /* CONNECTED, WRITABLE, CLOSED */
    POOL_SHARE_NUM = 3,  /* of the pool, what is promised to peers: the rest is room to breathe */
    POOL_SHARE_DEN = 4,
    CONNECTIONS_LIMIT = 1 << 20,
    COUNT_LIMIT = 1 << 20,
};

static void *default_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void default_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

static uint32_t or32(uint32_t value, uint32_t fallback)
{
    return value != 0 ? value : fallback;
}

static uint64_t or64(uint64_t value, uint64_t fallback)
{
    return value != 0 ? value : fallback;
}

static struct rdt_config with_defaults(const struct rdt_config *given)
{
    struct rdt_config c = {0};

    memcpy(&c, given, given->size < sizeof c ? given->size : sizeof c);
    if (!c.allocator.alloc)
        c.allocator = (struct rdt_allocator){.alloc = default_alloc, .free = default_free};
    c.connections_max = or32(c.connections_max, 64);
    c.datagram_max = or32(c.datagram_max, 1452);
    c.train_segments_max = or32(c.train_segments_max, 44);
    c.train_bytes_max = or32(c.train_bytes_max, 65507);
    c.messages_max = or32(c.messages_max, 256);
    c.send_bytes_max = or64(c.send_bytes_max, 1ull << 30);
    c.incoming_max = or32(c.incoming_max, 256);
    c.posts_max = or32(c.posts_max, 256);
    c.pool_message_max = or32(c.pool_message_max, 65536);
    c.pool_bytes = or64(c.pool_bytes, 8ull << 20);
    c.fixed_window = or64(c.fixed_window, 1ull << 20);
    c.dead_ns = or64(c.dead_ns, 2500000000u);
    c.ping_ns = or64(c.ping_ns, 500000000u);
    c.handshake_ns = or64(c.handshake_ns, 10000000000u);
    c.max_ack_delay_ns = or64(c.max_ack_delay_ns, 1000000u);
    if (c.train_bytes_max < c.datagram_max)
        c.train_bytes_max = c.datagram_max;
    return c;
}

static bool is_sound(const struct rdt_config *c)
{
    if (c->datagram_max < HANDSHAKE_PAD_SMALL || c->datagram_max > 65507)
        return false;
    if (c->connections_max > CONNECTIONS_LIMIT || c->messages_max > COUNT_LIMIT ||
        c->incoming_max > COUNT_LIMIT || c->posts_max > COUNT_LIMIT)
        return false;
    if (c->max_ack_delay_ns / 1000 > UINT32_MAX || c->allocator.free == NULL)
        return false;
    if (c->pool_bytes > (1ull << 38) || pool_cost(c->pool_message_max) > c->pool_bytes)
        return false;
    return true;
}

static uint64_t events_capacity(const struct rdt_config *c)
{
    return (uint64_t)c->connections_max *
           (EVENTS_PER_CONN + (uint64_t)c->messages_max + 2 * (uint64_t)c->incoming_max);
}

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t value = 1;

    while (value < at_least)
        value *= 2;
    return value;
}

/* Hands out the parts of the region in turn; without a base it only adds up. */
struct carver {
    uint8_t *base;
    size_t at;
};

static void *carve(struct carver *carver, size_t bytes)
{
    size_t at = carver->at;

    carver->at += (bytes + 63) / 64 * 64;
    return carver->base ? carver->base + at : NULL;
}

struct parts {
    struct rdt_endpoint *ep;
    struct conn *conns;
    uint8_t *conn_memory;
    uint32_t *free_slots;
    uint32_t *handshakes;
    void *timers;
    void *events;
    void *pool;
    size_t conn_stride;
};

static struct parts carve_all(struct carver *carver, const struct rdt_config *c)
{
    struct parts p = {.conn_stride = conn_bytes(c)};

    p.ep = carve(carver, sizeof *p.ep);
    p.timers = carve(carver, timers_bytes(c->connections_max));
    p.free_slots = carve(carver, c->connections_max * sizeof *p.free_slots);
    p.handshakes = carve(carver, power_of_two(c->connections_max) * sizeof *p.handshakes);
    p.conns = carve(carver, c->connections_max * sizeof *p.conns);
    p.events = carve(carver, (size_t)events_capacity(c) * sizeof(struct event_note));
    p.pool = carve(carver, pool_bytes(c->pool_bytes));
    p.conn_memory = carve(carver, p.conn_stride * c->connections_max);
    return p;
}

static void init_env(struct conn_env *env, const struct parts *parts)
{
    const struct rdt_config *c = &env->config;
    const uint64_t promised = c->pool_bytes / POOL_SHARE_DEN * POOL_SHARE_NUM;

    frame_key_init_public(&env->public_key);
    events_init(&env->events, parts->events, (uint32_t)events_capacity(c));
    pool_init(&env->pool, parts->pool, c->pool_bytes);
    env->credit_base = pool_cost(c->pool_message_max);
    if (promised > env->credit_base * c->connections_max)
        env->bank.left = promised - env->credit_base * c->connections_max;
}

static void init_slots(struct rdt_endpoint *ep, const struct parts *parts)
{
    const uint32_t count = ep->env.config.connections_max;

    ep->conns = parts->conns;
    ep->free_slots = parts->free_slots;
    ep->handshakes = parts->handshakes;
    ep->handshake_mask = power_of_two(count) - 1;
    while ((1u << ep->slot_bits) < count)
        ep->slot_bits++;
    for (uint32_t i = 0; i <= ep->handshake_mask; i++)
        ep->handshakes[i] = NIL;
    timers_init(&ep->timers, parts->timers, count);
    ep->queue_head = NIL;
    ep->queue_tail = NIL;
    ep->conn_memory = parts->conn_memory;
    ep->conn_stride = parts->conn_stride;
}

int rdt_open(struct rdt_endpoint **out, const struct rdt_config *given)
{
    struct carver measure = {0};
    struct carver carver = {0};
    struct rdt_config config;
    struct parts parts;

    if (given->size < offsetof(struct rdt_config, allocator))
        return RDT_EINVAL;
    config = with_defaults(given);
    if (!is_sound(&config) || events_capacity(&config) > UINT32_MAX)
        return RDT_EINVAL;
    carve_all(&measure, &config);
    carver.base = config.allocator.alloc(config.allocator.ctx, measure.at);
    if (!carver.base)
        return RDT_ENOMEM;
    parts = carve_all(&carver, &config);
    memset(parts.ep, 0, sizeof *parts.ep);
    parts.ep->env.config = config;
    parts.ep->region = carver.base;
    prng_init(&parts.ep->prng, config.entropy);
    init_env(&parts.ep->env, &parts);
    init_slots(parts.ep, &parts);
    *out = parts.ep;
    return 0;
}

void rdt_free(struct rdt_endpoint *ep)
{
    struct rdt_allocator allocator;

    if (!ep)
        return;
    allocator = ep->env.config.allocator;
    allocator.free(allocator.ctx, ep->region);
}
