/* SPDX-License-Identifier: MIT */
/*
 * The first test of rdt: two endpoints, two bad links, messages of every size both ways, a thousand
 * seeds.  Every message arrives once, whole and right; every body is released once, and is poisoned
 * at that moment, so a later read of it would be seen; nothing is left over.
 *
 *     test_rdt_pair [--seed N] [--seeds N]
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_pair.h"

enum {
    MESSAGES_MAX = 40,
    POST_BEFORE = 0,
    POST_LATE,
    POST_NEVER,
    POISON = 0xDB,
};

static uint64_t first_seed = 1;
static uint64_t seed_count = 1000;

struct plan {
    uint8_t head[RDT_HEAD_MAX];
    uint8_t *body;
    uint8_t *landing;
    uint64_t hold_ns; /* before what came pooled is released, or an offer is answered */
    uint64_t due_ns;  /* when; 0: nothing is due */
    const void *held;
    size_t head_len;
    size_t body_len;
    uint16_t channel;
    bool ordered;
    enum rdt_kind kind;
    int posting;
    bool is_sent;
    bool is_posted;
    bool is_delivered;
    bool is_released;
    bool is_offered;
};

struct world {
    uint64_t random;
    struct plan plans[2][MESSAGES_MAX]; /* by sender */
    int count[2];
    int sent[2];
    int delivered[2]; /* by sender */
    int released[2];
    int ordered_next[2][RDT_CHANNELS];
    uint64_t next_send_ns[2];
    uint64_t gap_ns;
    bool is_blocked[2];
};

static uint64_t draw(struct world *w, uint64_t below)
{
    uint64_t x = (w->random += 0x9E3779B97F4A7C15u);

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return below > 0 ? (x ^ (x >> 31)) % below : 0;
}

static bool chance(struct world *w, unsigned percent)
{
    return draw(w, 100) < percent;
}

static uint64_t key_of(int side, int idx)
{
    return (uint64_t)side << 40 | (uint64_t)idx << 8 | 0x5A;
}

/* ---------- what is drawn from the seed ---------- */

static void draw_link(struct world *w, struct rdt_link_config *link)
{
    static const uint64_t rates[] = {0, 0, 10000000, 100000000, 1000000000};

    *link = (struct rdt_link_config){.overhead_bytes = 28};
    if (chance(w, 70))
        link->loss = (double)draw(w, 31) / 100;
    if (chance(w, 40))
        link->duplicate = (double)draw(w, 11) / 100;
    if (chance(w, 40))
        link->reorder = (double)draw(w, 21) / 100;
    if (chance(w, 25))
        link->corrupt = (double)draw(w, 31) / 100;
    else if (chance(w, 20))
        link->burst = 1 + (double)draw(w, 3);
    link->reorder_ns = SIM_US(50) << draw(w, 8);
    link->delay_ns = SIM_US(10) << draw(w, 12);
    if (chance(w, 40))
        link->jitter_ns = draw(w, link->delay_ns + 1);
    link->rate_bps = rates[draw(w, 5)];
}

/* The slower and worse the link, the less is sent over it: 30 s must do. */
static uint64_t bytes_budget(const struct rdt_link_config *link, const struct rdt_config *endpoint)
{
    double through = (1 - link->loss) * (1 - link->corrupt);
    uint64_t most = 6000000;

    if (link->rate_bps > 0 && link->rate_bps < 100000000)
        most = link->rate_bps / 8;
    if (endpoint->cc == RDT_CC_FIXED && endpoint->fixed_window * 50 < most)
        most = endpoint->fixed_window * 50;
    return (uint64_t)((double)most * through * through) + 1;
}

static size_t draw_size(struct world *w, uint64_t budget)
{
    static const size_t special[] = {0, 1, 63, 64, 65, 1388, 1404, 1405, 1452, 65535, 65536, 65537};
    uint64_t size = chance(w, 30) ? special[draw(w, 12)] : draw(w, 16ull << draw(w, 19));

    return size < budget ? (size_t)size : (size_t)(budget / 2);
}

static void draw_plans(struct world *w, int side, uint64_t budget)
{
    w->count[side] = (int)draw(w, MESSAGES_MAX + 1);
    for (int i = 0; i < w->count[side]; i++) {
        struct plan *p = &w->plans[side][i];
        size_t len = draw_size(w, budget);

        budget -= len < budget ? len : budget;
        p->head_len = draw(w, (len < RDT_HEAD_MAX ? len : RDT_HEAD_MAX) + 1);
        p->body_len = len - p->head_len;
        p->channel = (uint16_t)draw(w, chance(w, 50) ? 2 : RDT_CHANNELS);
        p->ordered = chance(w, 40);
        p->kind = chance(w, 40) ? RDT_UPDATE : RDT_DATA;
        p->posting = (int)draw(w, 3);
        p->hold_ns = chance(w, 50) ? 0 : draw(w, SIM_MS(200));
        p->body = malloc(p->body_len + 1);
        ck_assert_ptr_nonnull(p->body);
        sim_fill(p->head, RDT_HEAD_MAX, key_of(side, i));
        sim_fill(p->body, p->body_len, ~key_of(side, i));
    }
}

static void free_plans(struct world *w)
{
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < w->count[side]; i++) {
            free(w->plans[side][i].body);
            free(w->plans[side][i].landing);
        }
    }
}

/* ---------- the two programs ---------- */

static void post(struct sim_pair *sim, struct world *w, int side, int idx)
{
    struct plan *p = &w->plans[!side][idx];
    struct rdt_landing landing = {.tag = (uint64_t)idx, .channel = p->channel, .user = p};

    landing.cap = p->head_len + p->body_len;
    p->landing = malloc(landing.cap + 1);
    ck_assert_ptr_nonnull(p->landing);
    landing.buf = p->landing;
    ck_assert_int_eq(rdt_post(sim->ep[side], sim->conn[side], &landing, sim->now_ns), 0);
    p->is_posted = true;
}

static void on_connected(struct sim_pair *sim, struct world *w, int side)
{
    for (int i = 0; i < w->count[!side]; i++) {
        if (w->plans[!side][i].posting == POST_BEFORE)
            post(sim, w, side, i);
    }
    w->next_send_ns[side] = sim->now_ns;
}

static void on_message(struct sim_pair *sim, struct world *w, int side,
                       const struct rdt_event *event)
{
    struct plan *p = &w->plans[!side][event->tag];
    const int idx = (int)event->tag;

    ck_assert_int_lt(idx, w->count[!side]);
    ck_assert(p->is_sent);
    ck_assert(!p->is_delivered);
    ck_assert_uint_eq(event->len, p->head_len + p->body_len);
    ck_assert_uint_eq(event->channel, p->channel);
    ck_assert_int_eq(event->type, p->kind);
    ck_assert_int_eq(memcmp(event->bytes, p->head, p->head_len), 0);
    ck_assert(sim_matches(event->bytes + p->head_len, p->body_len, ~key_of(!side, idx)));
    p->is_delivered = true;
    w->delivered[!side]++;
    if (p->ordered) {
        for (int i = w->ordered_next[!side][p->channel]; i < idx; i++) {
            const struct plan *before = &w->plans[!side][i];

            ck_assert(!before->ordered || before->channel != p->channel || before->is_delivered);
        }
        w->ordered_next[!side][p->channel] = idx + 1;
    }
    if (!event->pooled) {
        ck_assert(p->is_posted);
        ck_assert_ptr_eq(event->bytes, p->landing);
        ck_assert_ptr_eq(event->user, p);
        return;
    }
    ck_assert_uint_eq((uintptr_t)event->bytes % 64, 0);
    p->held = event->bytes;
    p->due_ns = sim->now_ns + p->hold_ns;
}

static void on_event(struct sim_pair *sim, int side, const struct rdt_event *event, void *ctx)
{
    struct world *w = ctx;
    struct plan *p;

    switch (event->kind) {
    case RDT_EV_CONNECTED:
        on_connected(sim, w, side);
        break;
    case RDT_EV_MESSAGE:
        on_message(sim, w, side, event);
        break;
    case RDT_EV_OFFER:
        p = &w->plans[!side][event->tag];
        ck_assert(!p->is_posted);
        ck_assert(!p->is_offered);
        p->is_offered = true;
        p->due_ns = sim->now_ns + p->hold_ns;
        break;
    case RDT_EV_RELEASED:
        p = event->user;
        ck_assert(p->is_sent);
        ck_assert(!p->is_released);
        ck_assert_int_eq(event->status, RDT_OK);
        p->is_released = true;
        w->released[side]++;
        memset(p->body, POISON, p->body_len);
        break;
    case RDT_EV_WRITABLE:
        ck_assert(w->is_blocked[side]);
        w->is_blocked[side] = false;
        w->next_send_ns[side] = sim->now_ns;
        break;
    case RDT_EV_CLOSED:
        break;
    }
}

static void send_next(struct sim_pair *sim, struct world *w, int side)
{
    struct plan *p = &w->plans[side][w->sent[side]];
    struct rdt_message message = {.head = p->head,
                                  .head_len = p->head_len,
                                  .body = p->body,
                                  .body_len = p->body_len,
                                  .channel = p->channel,
                                  .ordered = p->ordered,
                                  .kind = p->kind,
                                  .tag = (uint64_t)w->sent[side],
                                  .user = p};
    int err = rdt_send(sim->ep[side], sim->conn[side], &message, sim->now_ns);

    if (err == RDT_EAGAIN) {
        w->is_blocked[side] = true;
        return;
    }
    ck_assert_int_eq(err, 0);
    p->is_sent = true;
    w->sent[side]++;
    w->next_send_ns[side] = sim->now_ns + draw(w, w->gap_ns + 1);
}

/* Releases and posts what is due; returns when the next is. */
static uint64_t tend(struct sim_pair *sim, struct world *w, int side)
{
    uint64_t next = UINT64_MAX;

    for (int i = 0; i < w->count[!side]; i++) {
        struct plan *p = &w->plans[!side][i];

        if (p->due_ns == 0)
            continue;
        if (p->due_ns > sim->now_ns) {
            next = p->due_ns < next ? p->due_ns : next;
            continue;
        }
        p->due_ns = 0;
        if (p->held)
            rdt_release(sim->ep[side], p->held, sim->now_ns);
        else if (!p->is_posted)
            post(sim, w, side, i);
        p->held = NULL;
    }
    return next;
}

static uint64_t on_turn(struct sim_pair *sim, int side, void *ctx)
{
    struct world *w = ctx;
    uint64_t next;

    if (!sim->is_connected[side] || sim->is_closed[side])
        return UINT64_MAX;
    next = tend(sim, w, side);
    while (w->sent[side] < w->count[side] && !w->is_blocked[side] &&
           w->next_send_ns[side] <= sim->now_ns)
        send_next(sim, w, side);
    if (w->sent[side] < w->count[side] && !w->is_blocked[side] && w->next_send_ns[side] < next)
        next = w->next_send_ns[side];
    return next;
}

/* ---------- one seed ---------- */

static bool is_finished(void *ctx)
{
    const struct world *w = ctx;

    for (int side = 0; side < 2; side++) {
        if (w->delivered[side] < w->count[side] || w->released[side] < w->count[side])
            return false;
    }
    return true;
}

static void draw_endpoint(struct world *w, struct rdt_config *config)
{
    config->connections_max = 2;
    if (chance(w, 30))
        config->datagram_max = 548 + (uint32_t)draw(w, 9000);
    if (chance(w, 30))
        config->messages_max = 1 + (uint32_t)draw(w, 8);
    if (chance(w, 30))
        config->send_bytes_max = 1 + draw(w, 200000);
    if (chance(w, 30))
        config->incoming_max = 1 + (uint32_t)draw(w, 8);
    if (chance(w, 30)) {
        config->pool_message_max = 256u << draw(w, 9);
        config->pool_bytes = config->pool_message_max * (4 + draw(w, 8));
    }
    if (chance(w, 20)) {
        config->cc = RDT_CC_FIXED;
        config->fixed_window = UINT64_C(3000) << draw(w, 9);
    }
}

static struct world *world_make(uint64_t seed, struct sim_config *config)
{
    struct world *w = calloc(1, sizeof *w);

    ck_assert_ptr_nonnull(w);
    w->random = seed * 0x2545F4914F6CDD1Du;
    w->gap_ns = chance(w, 50) ? 0 : draw(w, SIM_MS(20));
    *config = (struct sim_config){.seed = seed, .start_ns = draw(w, UINT64_MAX >> 1)};
    for (int side = 0; side < 2; side++) {
        draw_link(w, &config->link[side]);
        draw_endpoint(w, &config->endpoint[side]);
    }
    for (int side = 0; side < 2; side++)
        draw_plans(w, side, bytes_budget(&config->link[side], &config->endpoint[side]));
    config->app = (struct sim_app){.on_event = on_event, .on_turn = on_turn, .ctx = w};
    return w;
}

static void check_counts(const struct sim_pair *sim, const struct world *w,
                         const struct sim_config *config)
{
    for (int side = 0; side < 2; side++) {
        struct rdt_stats stats = sim_stats(sim, side);

        ck_assert_uint_eq(stats.messages_sent, (uint64_t)w->count[side]);
        ck_assert_uint_eq(stats.messages_received, (uint64_t)w->count[!side]);
        if (config->link[!side].corrupt <= 0)
            ck_assert_uint_eq(stats.malformed + stats.corrupt, 0);
        ck_assert_uint_eq(stats.pool_full, 0);
        ck_assert_uint_eq(stats.connections, 0);
    }
}

static bool both_closed(void *ctx)
{
    const struct sim_pair *sim = ctx;

    return sim->is_closed[0] && sim->is_closed[1];
}

/* Runs one seed to the end; returns the hash of its trace. */
static uint64_t run_seed(uint64_t seed)
{
    struct sim_config config;
    struct world *w = world_make(seed, &config);
    struct sim_pair sim;
    uint64_t start_ns = config.start_ns;
    uint64_t hash;

    sim_open(&sim, &config);
    sim_connect(&sim);
    ck_assert_msg(sim_run_until(&sim, start_ns + SIM_S(30), is_finished, w),
                  "seed %llu: delivered %d/%d %d/%d, released %d/%d %d/%d, closed %d %d after 30 s",
                  (unsigned long long)seed, w->delivered[0], w->count[0], w->delivered[1],
                  w->count[1], w->released[0], w->count[0], w->released[1], w->count[1],
                  sim.is_closed[0], sim.is_closed[1]);
    sim_run(&sim, sim.now_ns + SIM_MS(300)); /* everything held is given back */
    ck_assert_int_eq(rdt_close(sim.ep[0], sim.conn[0], SIM_S(1), sim.now_ns), 0);
    ck_assert(sim_run_until(&sim, sim.now_ns + SIM_S(5), both_closed, &sim));
    ck_assert_int_eq(sim.reason[0], RDT_CLOSED_LOCAL);
    check_counts(&sim, w, &config);
    hash = sim.trace;
    sim_close(&sim);
    free_plans(w);
    free(w);
    return hash;
}

START_TEST(pair__thousand_seeds_deliver_everything)
{
    for (uint64_t i = 0; i < seed_count; i++) {
        run_seed(first_seed + i);
    }
}
END_TEST

START_TEST(pair__same_seed_same_trace)
{
    for (uint64_t i = 0; i < seed_count / 20 + 1; i++)
        ck_assert_uint_eq(run_seed(first_seed + i), run_seed(first_seed + i));
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("pair");
    TCase *tcase = tcase_create("pair");
    SRunner *runner;
    int failed;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            first_seed = strtoull(argv[i + 1], NULL, 10);
            seed_count = 1;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            seed_count = strtoull(argv[i + 1], NULL, 10);
        }
    }
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, pair__thousand_seeds_deliver_everything);
    tcase_add_test(tcase, pair__same_seed_same_trace);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
