/* SPDX-License-Identifier: MIT */
/* Glue between the driver, the endpoint and the simulated link. */
#include "host.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { SCRATCH_BYTES = 65536 };

static void fail(const char *what, int err)
{
    fprintf(stderr, "rdt-bench: %s: %s\n", what,
            err == RDT_ESYS ? strerror(errno) : rdt_strerror(err));
    exit(1);
}

/* ---------- open and close ---------- */

static struct rdt_addr parse_address(const struct args *args)
{
    char text[RDT_ADDR_TEXT_MAX * 2];
    struct rdt_addr addr;
    const bool v6 = strchr(args->ip, ':') != NULL;

    snprintf(text, sizeof text, v6 ? "[%s]:%u" : "%s:%u", args->ip, args->port);
    if (rdt_addr_parse(&addr, text)) {
        fprintf(stderr, "rdt-bench: --ip: not a numeric address: %s\n", args->ip);
        exit(2);
    }
    return addr;
}

static void open_links(struct host *h, const struct args *args)
{
    struct rdt_link_config config;
    char why[160];
    int err;

    if (rdt_link_parse(&config, args->impair, why, sizeof why)) {
        fprintf(stderr, "rdt-bench: --impair: %s\n", why);
        exit(2);
    }
    h->scratch = malloc(SCRATCH_BYTES);
    err = h->scratch ? rdt_link_open(&h->out, &config, 0) : RDT_ENOMEM;
    config.seed ^= UINT64_C(0x5851f42d4c957f2d); /* the way back has a fate of its own */
    if (!err)
        err = rdt_link_open(&h->in, &config, 0);
    if (err)
        fail("--impair", err);
}

void host_open(struct host *h, const struct args *args, bool listen)
{
    struct rdt_uring_config driver = {
        .size = sizeof driver,
        .no_gso = args_mode_has(args, "no-gso"),
        .no_gro = args_mode_has(args, "no-gro"),
        .spin = args_mode_has(args, "spin"),
    };
    struct rdt_config config = {
        .size = sizeof config,
        .listen = listen,
        .cc = args->window ? RDT_CC_FIXED : RDT_CC_AUTO,
        .fixed_window = args->window,
        .connections_max = 4,
    };
    int err;

    memset(h, 0, sizeof *h);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* the default lets timers be 50 us late */
    h->address = parse_address(args);
    if (listen)
        driver.bind = h->address;
    config.datagram_max = args->mss ? args->mss : rdt_uring_route_datagram(&h->address);
    err = rdt_uring_entropy(config.entropy);
    if (err)
        fail("getrandom", err);
    err = rdt_uring_open(&h->u, &driver);
    if (err)
        fail("cannot open the socket and its ring", err);
    err = rdt_open(&h->ep, &config);
    if (err)
        fail("rdt_open", err);
    if (args->impair)
        open_links(h, args);
}

void host_close(struct host *h)
{
    if (!h->out)
        rdt_uring_turn(h->u, h->ep, 0, false); /* what the endpoint still has to say: goodbye */
    rdt_link_free(h->out);
    rdt_link_free(h->in);
    free(h->scratch);
    rdt_free(h->ep);
    rdt_uring_free(h->u);
}

void host_print_stats(const struct host *h, struct rdt_conn conn)
{
    struct rdt_stats s = {.size = sizeof s};
    struct rdt_uring_stats d = {.size = sizeof d};

    if (rdt_conn_stats(h->ep, conn, &s))
        rdt_endpoint_stats(h->ep, &s);
    rdt_uring_stats(h->u, &d);
#define SHOW(field) printf(" " #field "=%" PRIu64, s.field)
    printf("STATS");
    SHOW(datagrams_sent), SHOW(datagrams_received), SHOW(bytes_sent), SHOW(bytes_received);
    SHOW(payload_sent), SHOW(payload_retransmitted), SHOW(payload_received);
    SHOW(datagrams_retransmitted), SHOW(lost), SHOW(spurious), SHOW(duplicate), SHOW(reordered);
    SHOW(corrupt), SHOW(malformed), SHOW(stray), SHOW(pool_full), SHOW(ptos);
    SHOW(messages_sent), SHOW(messages_received), SHOW(rtt_min_ns), SHOW(rtt_smoothed_ns);
    SHOW(cwnd_bytes), SHOW(in_flight_bytes), SHOW(pacing_bps), SHOW(datagram_bytes);
#undef SHOW
#define SHOW(field) printf(" " #field "=%" PRIu64, d.field)
    printf("\nDRIVER");
    SHOW(receive_completions), SHOW(datagrams_received), SHOW(trains_sent), SHOW(datagrams_sent);
    SHOW(send_errors), SHOW(truncated), SHOW(rearmed), SHOW(out_of_buffers), SHOW(submits);
    SHOW(receive_buffer_granted);
#undef SHOW
    printf(" gso=%d gro=%d\n", d.gso, d.gro);
    fflush(stdout);
}

/* ---------- turns ---------- */

uint64_t host_now(const struct host *h)
{
    return rdt_uring_now(h->u);
}

/* Takes the trains apart: the link decides about each datagram. */
static void fill_link(struct host *h, uint64_t now)
{
    struct rdt_train train;

    while (rdt_next_train(h->ep, now, h->scratch, SCRATCH_BYTES, &train)) {
        for (size_t at = 0; at < train.len; at += train.segment_len) {
            const size_t left = train.len - at;
            const struct rdt_arrival one = {
                .from = train.to,
                .local = train.local,
                .bytes = h->scratch + at,
                .len = left < train.segment_len ? left : train.segment_len,
                .ecn = train.ecn,
            };

            rdt_link_put(h->out, &one, now);
        }
    }
}

/* false: datagrams are due, but all buffers are under way. */
static bool drain_link(struct host *h, uint64_t now)
{
    for (;;) {
        size_t cap;
        void *buffer = rdt_uring_train_buffer(h->u, &cap);
        struct rdt_arrival one;
        struct rdt_train train;

        if (!buffer)
            return false;
        if (!rdt_link_next(h->out, now, &one))
            return true;
        memcpy(buffer, one.bytes, one.len);
        train = (struct rdt_train){.to = one.from,
                                   .local = one.local,
                                   .len = one.len,
                                   .segment_len = one.len,
                                   .ecn = one.ecn};
        rdt_uring_send_train(h->u, &train);
    }
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int impaired_turn(struct host *h, uint64_t until_ns)
{
    uint64_t now = host_now(h);
    struct rdt_arrival one;
    int err;

    if (now >= rdt_deadline(h->ep)) {
        rdt_on_timeout(h->ep, now);
        until_ns = 0;
    }
    fill_link(h, now);
    if (!drain_link(h, now))
        until_ns = 0;
    until_ns = earliest(until_ns, rdt_deadline(h->ep));
    until_ns = earliest(until_ns, rdt_link_deadline(h->out));
    until_ns = earliest(until_ns, rdt_link_deadline(h->in));
    err = rdt_uring_wait(h->u, until_ns);
    now = host_now(h);
    while (!err && rdt_uring_next_arrival(h->u, &one))
        rdt_link_put(h->in, &one, now);
    while (rdt_link_next(h->in, now, &one))
        rdt_input(h->ep, &one, now);
    return err;
}

void host_turn(struct host *h, uint64_t until_ns)
{
    int err = h->out ? impaired_turn(h, until_ns) : rdt_uring_turn(h->u, h->ep, until_ns, true);

    if (err)
        fail("the ring", err);
}

struct rdt_conn host_connect(struct host *h)
{
    struct rdt_conn conn;
    struct rdt_event event = {.kind = RDT_EV_CLOSED};
    int err = rdt_connect(h->ep, &h->address, host_now(h), &conn);

    if (err)
        fail("rdt_connect", err);
    do
        host_turn(h, UINT64_MAX);
    while (!rdt_next_event(h->ep, &event));
    if (event.kind != RDT_EV_CONNECTED) {
        fprintf(stderr, "rdt-bench: cannot connect: %s\n", rdt_closed_name(event.reason));
        exit(1);
    }
    return conn;
}
