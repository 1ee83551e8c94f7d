/* SPDX-License-Identifier: MIT */
/*
 * Endpoints on their drivers over real loopback sockets, each side in a thread of its own (T48: run
 * it under the thread sanitizer).  The server answers every message with its bytes inverted.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <rdt/uring.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t second = 1000000000;
static const uint64_t patience_ns = UINT64_C(30) * 1000000000;

enum {
#if defined(__SANITIZE_THREAD__)
    LARGE = 4 << 20, /* every byte costs twenty times as much */
#else
    LARGE = 64 << 20,
#endif
    CHANNEL = 1,
    POOLED_MAX = 65536,
};

struct peer {
    struct rdt_uring *u;
    struct rdt_endpoint *ep;
};

struct shape {
    bool v4;
    uint32_t datagram_max;
    struct rdt_uring_config client;
    struct rdt_uring_config server;
};

/* ---------- helpers ---------- */

static struct rdt_addr loopback(bool v4, uint16_t port)
{
    struct rdt_addr addr = {.port = port};

    if (v4)
        return rdt_addr_v4(127, 0, 0, 1, port);
    addr.ip[15] = 1;
    return addr;
}

static struct peer open_peer(struct rdt_uring_config driver, struct rdt_addr bind,
                             uint32_t datagram_max, bool listen)
{
    struct rdt_config config = {
        .size = sizeof config,
        .listen = listen,
        .datagram_max = datagram_max,
        .dead_ns =
            patience_ns, /* a sanitizer takes seconds to invert 64 MiB on the loop's thread */
    };
    struct peer p = {.u = NULL};

    driver.size = sizeof driver;
    driver.bind = bind;
    ck_assert_int_eq(rdt_uring_entropy(config.entropy), 0);
    ck_assert_int_eq(rdt_uring_open(&p.u, &driver), 0);
    ck_assert_int_eq(rdt_open(&p.ep, &config), 0);
    return p;
}

static void close_peer(struct peer *p)
{
    rdt_free(p->ep);
    rdt_uring_free(p->u);
}

static uint64_t now(const struct peer *p)
{
    return rdt_uring_now(p->u);
}

static uint8_t pattern(uint64_t tag, size_t at)
{
    return (uint8_t)(tag * 31 + at * 7 + at / 251);
}

static uint8_t *new_body(uint64_t tag, size_t len)
{
    uint8_t *body = malloc(len + 1);

    ck_assert_ptr_nonnull(body);
    for (size_t i = 0; i < len; i++)
        body[i] = pattern(tag, i);
    return body;
}

static bool is_inverse(const uint8_t *bytes, uint64_t tag, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] + pattern(tag, i) != UINT8_MAX)
            return false;
    return true;
}

/* ---------- the server ---------- */

struct server {
    struct peer peer;
    atomic_bool stop;
    uint32_t outstanding; /* answers not released yet */
    uint64_t closed;
    enum rdt_closed reason;
    const char *fault;
};

static void answer(struct server *s, const struct rdt_event *event)
{
    struct rdt_message message = {
        .body_len = event->len, .channel = event->channel, .tag = event->tag};
    uint8_t *body = malloc(event->len + 1);

    for (size_t i = 0; i < event->len; i++)
        body[i] = (uint8_t)~event->bytes[i];
    if (event->pooled)
        rdt_release(s->peer.ep, event->bytes, now(&s->peer));
    else
        free(event->user);
    message.body = body;
    message.user = body;
    if (rdt_send(s->peer.ep, event->conn, &message, now(&s->peer))) {
        s->fault = "rdt_send";
        free(body);
        return;
    }
    s->outstanding++;
}

static void take_offer(struct server *s, const struct rdt_event *event)
{
    uint8_t *buf = malloc(event->len);
    const struct rdt_landing landing = {
        .buf = buf, .cap = event->len, .tag = event->tag, .channel = event->channel, .user = buf};

    if (rdt_post(s->peer.ep, event->conn, &landing, now(&s->peer))) {
        s->fault = "rdt_post";
        free(buf);
    }
}

static void on_server_event(struct server *s, const struct rdt_event *event)
{
    switch (event->kind) {
    case RDT_EV_MESSAGE:
        answer(s, event);
        break;
    case RDT_EV_OFFER:
        take_offer(s, event);
        break;
    case RDT_EV_RELEASED:
        free(event->user);
        s->outstanding--;
        break;
    case RDT_EV_CLOSED:
        s->closed++;
        s->reason = event->reason;
        break;
    case RDT_EV_CONNECTED:
    case RDT_EV_WRITABLE:
        break;
    }
}

static void *serve(void *argument)
{
    struct server *s = argument;
    struct rdt_event event;

    while (!atomic_load(&s->stop) || s->outstanding > 0) {
        if (rdt_uring_turn(s->peer.u, s->peer.ep, UINT64_MAX, true)) {
            s->fault = "rdt_uring_turn";
            break;
        }
        while (rdt_next_event(s->peer.ep, &event))
            on_server_event(s, &event);
    }
    return NULL;
}

/* ---------- the client ---------- */

struct client {
    struct peer peer;
    struct rdt_conn conn;
    bool connected;
    bool closed;
    uint32_t answers;
    uint32_t released;
};

static void on_client_event(struct client *c, const struct rdt_event *event, const size_t *sizes)
{
    switch (event->kind) {
    case RDT_EV_CONNECTED:
        c->connected = true;
        break;
    case RDT_EV_MESSAGE:
        ck_assert_uint_eq(event->len, sizes[event->tag]);
        ck_assert(is_inverse(event->bytes, event->tag, event->len));
        c->answers++;
        if (event->pooled)
            rdt_release(c->peer.ep, event->bytes, now(&c->peer));
        else
            free(event->user);
        break;
    case RDT_EV_OFFER:
        ck_abort_msg("a posted message was offered");
    case RDT_EV_RELEASED:
        ck_assert_int_eq(event->status, RDT_OK);
        free(event->user);
        c->released++;
        break;
    case RDT_EV_CLOSED:
        c->closed = true;
        break;
    case RDT_EV_WRITABLE:
        break;
    }
}

static void client_turn(struct client *c, const size_t *sizes)
{
    struct rdt_event event;

    ck_assert_int_eq(rdt_uring_turn(c->peer.u, c->peer.ep, now(&c->peer) + second, true), 0);
    while (rdt_next_event(c->peer.ep, &event))
        on_client_event(c, &event, sizes);
}

/* Answers too large for the pool need a buffer; the client knows them, so it posts ahead. */
static void ask(struct client *c, uint64_t tag, size_t len)
{
    uint8_t *body = new_body(tag, len);
    const struct rdt_message message = {
        .body_len = len, .channel = CHANNEL, .tag = tag, .body = body, .user = body};

    if (len > POOLED_MAX) {
        uint8_t *buf = malloc(len);
        const struct rdt_landing landing = {
            .buf = buf, .cap = len, .tag = tag, .channel = CHANNEL, .user = buf};

        ck_assert_int_eq(rdt_post(c->peer.ep, c->conn, &landing, now(&c->peer)), 0);
    }
    ck_assert_int_eq(rdt_send(c->peer.ep, c->conn, &message, now(&c->peer)), 0);
}

/* Closes the connection and ends the server's thread. */
static void hang_up(struct client *c, struct server *s, pthread_t thread)
{
    ck_assert_int_eq(rdt_close(c->peer.ep, c->conn, second, now(&c->peer)), 0);
    for (uint64_t until = now(&c->peer) + patience_ns; !c->closed && now(&c->peer) < until;)
        client_turn(c, NULL);
    ck_assert(c->closed);
    atomic_store(&s->stop, true);
    rdt_uring_wake(s->peer.u);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_msg(!s->fault, "the server failed in %s", s->fault);
    ck_assert_uint_eq(s->closed, 1);
    ck_assert_int_eq(s->reason, RDT_CLOSED_PEER);
}

static void talk(const struct shape *shape, const size_t *sizes, uint32_t count)
{
    struct server s = {
        .peer = open_peer(shape->server, loopback(shape->v4, 0), shape->datagram_max, true)};
    struct client c = {
        .peer = open_peer(shape->client, loopback(shape->v4, 0), shape->datagram_max, false)};
    struct rdt_addr to = rdt_uring_local(s.peer.u);
    pthread_t thread;
    uint32_t asked = 0;
    const uint64_t until = now(&c.peer) + patience_ns;

    ck_assert_int_eq(pthread_create(&thread, NULL, serve, &s), 0);
    ck_assert_int_eq(rdt_connect(c.peer.ep, &to, now(&c.peer), &c.conn), 0);
    while (c.answers < count || c.released < count) {
        for (; asked < count && asked - c.answers < 100; asked++)
            ask(&c, asked, sizes[asked]);
        client_turn(&c, sizes);
        ck_assert_msg(now(&c.peer) < until && !c.closed, "%u of %u answers", c.answers, count);
    }
    ck_assert(c.connected);
    hang_up(&c, &s, thread);
    close_peer(&c.peer);
    close_peer(&s.peer);
}

/* ---------- tests ---------- */

static const size_t every_size[] = {0,     1,       63,      64,      65,       1400,  1404,
                                    1405,  1428,    1429,    1452,    1453,     65000, 65535,
                                    65536, 65537,   100000,  1 << 20, 0,        5,     99999,
                                    3,     3 << 20, 1 << 16, 1 << 17, LARGE + 1};

static void every_size_both_ways(struct shape shape)
{
    talk(&shape, every_size, sizeof every_size / sizeof every_size[0]);
}

START_TEST(pair__T48_messages_of_every_size_both_ways_ipv4)
{
    every_size_both_ways((struct shape){.v4 = true});
}
END_TEST

START_TEST(pair__T48_messages_of_every_size_both_ways_ipv6)
{
    every_size_both_ways((struct shape){.v4 = false});
}
END_TEST

START_TEST(pair__large_datagrams)
{
    every_size_both_ways((struct shape){.v4 = true, .datagram_max = 65507});
}
END_TEST

START_TEST(pair__small_datagrams)
{
    static const size_t sizes[] = {0, 1, 548, 10000, 1 << 20, 70000, 4 << 20};

    talk(&(struct shape){.v4 = true, .datagram_max = 548}, sizes, 7);
}
END_TEST

START_TEST(pair__without_offloads)
{
    static const size_t sizes[] = {0, 1, 65536, 1 << 20, 70000, 8 << 20};

    talk(&(struct shape){.v4 = true,
                         .client = {.no_gso = true, .no_gro = true},
                         .server = {.no_gso = true, .no_gro = true}},
         sizes, 6);
}
END_TEST

START_TEST(pair__few_buffers_and_a_small_socket)
{
    static const size_t sizes[] = {1 << 20, 70000, 8 << 20};
    const struct rdt_uring_config tight = {
        .receive_buffers = 1, .send_buffers = 1, .socket_bytes = 65536};

    talk(&(struct shape){.v4 = true, .client = tight, .server = tight}, sizes, 3);
}
END_TEST

START_TEST(pair__spinning)
{
    static const size_t sizes[] = {1, 1 << 20, 70000, 3};

    talk(&(struct shape){.v4 = true, .client = {.spin = true}, .server = {.spin = true}}, sizes, 4);
}
END_TEST

START_TEST(pair__ten_thousand_small_messages)
{
    size_t *sizes = calloc(10000, sizeof *sizes);

    for (size_t i = 0; i < 10000; i++)
        sizes[i] = i % 200;
    talk(&(struct shape){.v4 = true}, sizes, 10000);
    free(sizes);
}
END_TEST

/* ICMP says "port unreachable" to every handshake packet until somebody listens. */
START_TEST(pair__T50_the_peer_comes_later)
{
    struct peer placeholder =
        open_peer((struct rdt_uring_config){.size = 0}, loopback(true, 0), 0, true);
    struct rdt_addr to = rdt_uring_local(placeholder.u);
    struct client c = {
        .peer = open_peer((struct rdt_uring_config){.size = 0}, loopback(true, 0), 0, false)};
    static const size_t sizes[] = {1000};
    struct server s = {.outstanding = 0};
    pthread_t thread;
    uint64_t until;

    close_peer(&placeholder);
    ck_assert_int_eq(rdt_connect(c.peer.ep, &to, now(&c.peer), &c.conn), 0);
    for (until = now(&c.peer) + second / 2; now(&c.peer) < until;) {
        ck_assert_int_eq(rdt_uring_turn(c.peer.u, c.peer.ep, until, true), 0);
        ck_assert(!rdt_next_event(c.peer.ep, &(struct rdt_event){.len = 0}));
    }
    s.peer = open_peer((struct rdt_uring_config){.size = 0}, to, 0, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, &s), 0);
    ask(&c, 0, sizes[0]);
    for (until = now(&c.peer) + patience_ns; c.answers == 0 && now(&c.peer) < until;)
        client_turn(&c, sizes);
    ck_assert_uint_eq(c.answers, 1);
    hang_up(&c, &s, thread);
    close_peer(&c.peer);
    close_peer(&s.peer);
}
END_TEST

static int plain_socket(struct rdt_addr to)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    name.sin_port = htons(to.port);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

/* Sends every length, random and zero, and counts nothing back. */
static void send_garbage(int fd)
{
    uint8_t bytes[1600];

    for (size_t len = 0; len < sizeof bytes; len += len < 64 ? 1 : 97) {
        for (size_t i = 0; i < len; i++)
            bytes[i] = (uint8_t)rand();
        ck_assert_int_eq(send(fd, bytes, len, 0), (ssize_t)len);
        memset(bytes, 0, len);
        ck_assert_int_eq(send(fd, bytes, len, 0), (ssize_t)len);
    }
}

START_TEST(pair__T56_garbage_is_counted_and_not_answered)
{
    struct server s = {
        .peer = open_peer((struct rdt_uring_config){.size = 0}, loopback(true, 0), 0, true)};
    struct client c = {
        .peer = open_peer((struct rdt_uring_config){.size = 0}, loopback(true, 0), 0, false)};
    struct rdt_addr to = rdt_uring_local(s.peer.u);
    static const size_t sizes[] = {10, 1 << 20};
    int fd = plain_socket(to);
    pthread_t thread;
    struct rdt_stats stats = {.size = sizeof stats};
    uint8_t reply;

    srand(7);
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, &s), 0);
    ck_assert_int_eq(rdt_connect(c.peer.ep, &to, now(&c.peer), &c.conn), 0);
    for (uint32_t i = 0; i < 2; i++) {
        send_garbage(fd);
        ask(&c, i, sizes[i]);
        for (uint64_t until = now(&c.peer) + patience_ns; c.answers <= i && now(&c.peer) < until;)
            client_turn(&c, sizes);
        ck_assert_uint_eq(c.answers, i + 1);
    }
    ck_assert_int_eq(recv(fd, &reply, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    hang_up(&c, &s, thread);
    rdt_endpoint_stats(s.peer.ep, &stats);
    /* 65 + 16 lengths, twice, twice; the empty ones end in the driver. */
    ck_assert_uint_ge(stats.malformed + stats.corrupt + stats.stray, 4 * (64 + 15));
    close(fd);
    close_peer(&c.peer);
    close_peer(&s.peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pair");
    TCase *tc = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, pair__T48_messages_of_every_size_both_ways_ipv4);
    tcase_add_test(tc, pair__T48_messages_of_every_size_both_ways_ipv6);
    tcase_add_test(tc, pair__large_datagrams);
    tcase_add_test(tc, pair__small_datagrams);
    tcase_add_test(tc, pair__without_offloads);
    tcase_add_test(tc, pair__few_buffers_and_a_small_socket);
    tcase_add_test(tc, pair__spinning);
    tcase_add_test(tc, pair__ten_thousand_small_messages);
    tcase_add_test(tc, pair__T50_the_peer_comes_later);
    tcase_add_test(tc, pair__T56_garbage_is_counted_and_not_answered);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
