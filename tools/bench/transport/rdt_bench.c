/* SPDX-License-Identifier: MIT */
/*
 * rdt-bench: bulk transfer and ping-pong over rdt, with the command line and the result lines of
 * its peers in this directory.
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_DEFAULT = 1 << 20,
    CHUNKS_AHEAD = 8, /* posted by the receiver, pending at the sender */
    BULK_CHANNEL = 1,
    PING_CHANNEL = 0,
    GIVE_UP_S = 10, /* a receiver nobody connects to */
};

static const uint64_t second = 1000000000;
static const uint64_t linger_ns = 300000000; /* for the last acknowledgement */

static uint64_t ns_of(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

static void *take_memory(size_t size)
{
    void *p = calloc(1, size);

    if (!p) {
        fprintf(stderr, "rdt-bench: no memory for %zu bytes\n", size);
        exit(1);
    }
    return p;
}

/* Ends the connection and keeps turning until that is done, or for a moment. */
static void say_goodbye(struct host *h, struct rdt_conn conn)
{
    const uint64_t until = host_now(h) + linger_ns;
    struct rdt_event event;

    if (rdt_close(h->ep, conn, linger_ns, host_now(h)))
        return;
    while (host_now(h) < until) {
        host_turn(h, until);
        while (rdt_next_event(h->ep, &event))
            if (event.kind == RDT_EV_CLOSED)
                return;
    }
}

/* ---------- bulk ---------- */

struct receiver {
    struct host host;
    struct rdt_conn conn;
    uint8_t *buffers;
    size_t chunk;
    uint64_t posted; /* the next tag */
    uint64_t first_ns;
    uint64_t bytes;
    bool connected;
    bool closed;
};

static void post_next(struct receiver *r, void *buf)
{
    const struct rdt_landing landing = {
        .buf = buf, .cap = r->chunk, .tag = r->posted++, .channel = BULK_CHANNEL, .user = buf};
    int err = rdt_post(r->host.ep, r->conn, &landing, host_now(&r->host));

    if (err == RDT_OK || err == RDT_ECONN)
        return;
    fprintf(stderr, "rdt-bench: rdt_post: %s (is --chunk the same on both sides?)\n",
            rdt_strerror(err));
    exit(1);
}

static void on_receiver_event(struct receiver *r, const struct rdt_event *event)
{
    switch (event->kind) {
    case RDT_EV_CONNECTED:
        if (r->connected)
            break;
        r->connected = true;
        r->conn = event->conn;
        for (size_t i = 0; i < CHUNKS_AHEAD; i++)
            post_next(r, r->buffers + i * r->chunk);
        break;
    case RDT_EV_MESSAGE:
        if (event->pooled)
            rdt_release(r->host.ep, event->bytes, host_now(&r->host));
        else
            post_next(r, event->user);
        break;
    case RDT_EV_OFFER: /* the first messages may come with the handshake, before our posts */
        if (event->len <= r->chunk && event->tag < r->posted)
            break;
        fprintf(stderr, "rdt-bench: a message of %zu bytes: --chunk differs\n", event->len);
        exit(1);
    case RDT_EV_CLOSED:
        r->closed = r->closed || (r->connected && event->conn.slot == r->conn.slot &&
                                  event->conn.generation == r->conn.generation);
        break;
    case RDT_EV_RELEASED:
    case RDT_EV_WRITABLE:
        break;
    }
}

/* Message bytes that are here, those of unfinished messages too. */
static uint64_t bytes_arrived(const struct receiver *r)
{
    struct rdt_stats stats = {.size = sizeof stats};

    rdt_endpoint_stats(r->host.ep, &stats);
    return stats.payload_received;
}

static int receive(const struct args *args)
{
    struct receiver r = {.chunk = args->chunk ? args->chunk : CHUNK_DEFAULT};
    struct rdt_event event;
    uint64_t until;
    uint64_t now;

    host_open(&r.host, args, true);
    r.buffers = take_memory(r.chunk * CHUNKS_AHEAD);
    until = host_now(&r.host) + ns_of(args->secs) + GIVE_UP_S * second;
    do {
        host_turn(&r.host, until);
        while (rdt_next_event(r.host.ep, &event))
            on_receiver_event(&r, &event);
        r.bytes = bytes_arrived(&r);
        now = host_now(&r.host);
        if (r.first_ns == 0 && r.bytes > 0) {
            r.first_ns = now;
            until = now + ns_of(args->secs);
        }
    } while (now < until && !r.closed && r.bytes < args->bytes);
    report_receive(r.bytes, r.first_ns ? (double)(now - r.first_ns) / 1e9 : 0);
    if (args->stats)
        host_print_stats(&r.host, r.conn);
    if (r.connected && !r.closed)
        say_goodbye(&r.host, r.conn);
    host_close(&r.host);
    free(r.buffers);
    return r.bytes >= args->bytes ? 0 : 1;
}

struct sender {
    struct host host;
    struct rdt_conn conn;
    uint8_t *body; /* every message carries the same bytes */
    size_t chunk;
    uint64_t left; /* bytes not queued yet */
    uint64_t tag;
    uint32_t pending;
    bool closed;
};

static void queue_more(struct sender *s)
{
    while (s->left > 0 && s->pending < CHUNKS_AHEAD) {
        const struct rdt_message message = {
            .body = s->body,
            .body_len = s->left < s->chunk ? s->left : s->chunk,
            .channel = BULK_CHANNEL,
            .tag = s->tag,
        };

        if (rdt_send(s->host.ep, s->conn, &message, host_now(&s->host)))
            return;
        s->left -= message.body_len;
        s->tag++;
        s->pending++;
    }
}

static int send_all(const struct args *args)
{
    struct sender s = {.chunk = args->chunk ? args->chunk : CHUNK_DEFAULT, .left = args->bytes};
    struct rdt_event event;
    uint64_t until;

    host_open(&s.host, args, false);
    s.body = take_memory(s.chunk);
    s.conn = host_connect(&s.host);
    until = host_now(&s.host) + ns_of(args->secs) + linger_ns;
    queue_more(&s);
    while (s.pending > 0 && !s.closed && host_now(&s.host) < until) {
        host_turn(&s.host, until);
        while (rdt_next_event(s.host.ep, &event)) {
            s.pending -= event.kind == RDT_EV_RELEASED;
            s.closed = s.closed || event.kind == RDT_EV_CLOSED;
        }
        queue_more(&s);
    }
    if (args->stats) /* before the connection is gone, and its counters with it */
        host_print_stats(&s.host, s.conn);
    if (!s.closed)
        say_goodbye(&s.host, s.conn);
    host_close(&s.host);
    free(s.body);
    return s.left == 0 && s.pending == 0 ? 0 : 1;
}

/* ---------- ping-pong ---------- */

/* Sends every message back.  The answer borrows the message's own bytes from the pool. */
static _Noreturn void pong(const struct args *args)
{
    struct host h;
    struct rdt_event event;

    host_open(&h, args, true);
    for (;;) {
        host_turn(&h, UINT64_MAX);
        while (rdt_next_event(h.ep, &event)) {
            const struct rdt_message echo = {.body = event.bytes,
                                             .body_len = event.len,
                                             .channel = PING_CHANNEL,
                                             .tag = event.tag,
                                             .user = event.bytes};

            if (event.kind == RDT_EV_RELEASED)
                rdt_release(h.ep, event.user, host_now(&h));
            else if (event.kind == RDT_EV_MESSAGE &&
                     rdt_send(h.ep, event.conn, &echo, host_now(&h)))
                rdt_release(h.ep, event.bytes, host_now(&h));
        }
    }
}

/* false: the connection is gone, or it takes too long. */
static bool one_round(struct host *h, struct rdt_conn conn, const struct rdt_message *message)
{
    const uint64_t until = host_now(h) + GIVE_UP_S * second;
    struct rdt_event event;
    bool answered = false;

    if (rdt_send(h->ep, conn, message, host_now(h)))
        return false;
    while (!answered && host_now(h) < until) {
        host_turn(h, until);
        while (rdt_next_event(h->ep, &event)) {
            if (event.kind == RDT_EV_CLOSED)
                return false;
            if (event.kind != RDT_EV_MESSAGE)
                continue;
            answered = answered || event.tag == message->tag;
            rdt_release(h->ep, event.bytes, host_now(h));
        }
    }
    return answered;
}

static int ping(const struct args *args)
{
    struct host h;
    struct rdt_conn conn;
    double *samples = take_memory(args->count * sizeof *samples);
    uint8_t *body = take_memory(args->size);
    struct rdt_message message = {.body = body, .body_len = args->size, .channel = PING_CHANNEL};
    size_t count = 0;
    double start;

    host_open(&h, args, false);
    conn = host_connect(&h);
    start = clock_seconds();
    while (count < args->count && clock_seconds() - start < args->secs) {
        const double sent = clock_seconds();

        message.tag = count;
        if (!one_round(&h, conn, &message))
            break;
        samples[count++] = (clock_seconds() - sent) * 1e6;
    }
    report_ping(samples, count);
    if (args->stats)
        host_print_stats(&h, conn);
    say_goodbye(&h, conn);
    host_close(&h);
    free(body);
    free(samples);
    return count > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct args args = args_parse(argc, argv);

    if (args_role_is(&args, "recv"))
        return receive(&args);
    if (args_role_is(&args, "send"))
        return send_all(&args);
    if (args_role_is(&args, "pong"))
        pong(&args);
    return ping(&args);
}
