/* SPDX-License-Identifier: MIT */
/*
 * One message from here to there, of any size.
 *
 *     hello listen 127.0.0.1:7700 > copy          waits for one message and prints it
 *     hello send 127.0.0.1:7700 < file            sends what it reads
 */
#include <rdt/rdt.h>
#include <rdt/uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, int err)
{
    if (err == RDT_ESYS)
        perror(what);
    else
        fprintf(stderr, "%s: %s\n", what, rdt_strerror(err));
    exit(1);
}

/* The protocol, and the socket it runs over. */
struct node {
    struct rdt_endpoint *ep;
    struct rdt_uring *u;
};

static struct node open_node(struct rdt_addr bind, bool listen)
{
    struct rdt_config config = {.size = sizeof config, .listen = listen};
    struct rdt_uring_config driver = {.size = sizeof driver, .bind = bind};
    struct node n;
    int err = rdt_uring_entropy(config.entropy);

    if (err)
        die("entropy", err);
    err = rdt_open(&n.ep, &config);
    if (err)
        die("rdt_open", err);
    err = rdt_uring_open(&n.u, &driver);
    if (err)
        die("rdt_uring_open", err);
    return n;
}

static void close_node(struct node *n)
{
    rdt_uring_turn(n->u, n->ep, 0, false); /* what the endpoint still has to say: goodbye */
    rdt_free(n->ep);
    rdt_uring_free(n->u);
}

/* The next event, however long it takes. */
static struct rdt_event wait_for_event(struct node *n)
{
    struct rdt_event event;

    while (!rdt_next_event(n->ep, &event)) {
        int err = rdt_uring_turn(n->u, n->ep, UINT64_MAX, true);

        if (err)
            die("rdt_uring_turn", err);
    }
    return event;
}

/* ---------- listen ---------- */

/* A message larger than the pool takes waits until it is told where to land. */
static void accept_offer(struct node *n, const struct rdt_event *event)
{
    void *buf = malloc(event->len);
    struct rdt_landing landing = {
        .buf = buf, .cap = event->len, .channel = event->channel, .tag = event->tag, .user = buf};
    int err = buf ? rdt_post(n->ep, event->conn, &landing, rdt_uring_now(n->u)) : RDT_ENOMEM;

    if (err)
        die("a large message", err);
}

static void print_message(struct node *n, const struct rdt_event *event)
{
    fwrite(event->bytes, 1, event->len, stdout);
    fflush(stdout);
    if (event->pooled)
        rdt_release(n->ep, event->bytes, rdt_uring_now(n->u));
    else
        free(event->user);
}

static void listen_at(struct rdt_addr addr)
{
    struct node n = open_node(addr, true);

    for (;;) {
        struct rdt_event event = wait_for_event(&n);

        if (event.kind == RDT_EV_OFFER)
            accept_offer(&n, &event);
        else if (event.kind == RDT_EV_MESSAGE)
            print_message(&n, &event);
        else if (event.kind == RDT_EV_CLOSED)
            break;
    }
    close_node(&n);
}

/* ---------- send ---------- */

static void send_to(struct rdt_addr addr, const void *bytes, size_t len)
{
    struct node n = open_node((struct rdt_addr){.port = 0}, false);
    struct rdt_message message = {.body = bytes, .body_len = len};
    struct rdt_conn conn;
    bool delivered = false;
    int err = rdt_connect(n.ep, &addr, rdt_uring_now(n.u), &conn);

    if (!err)
        err = rdt_send(n.ep, conn, &message, rdt_uring_now(n.u));
    if (err)
        die("send", err);
    for (;;) {
        struct rdt_event event = wait_for_event(&n);

        if (event.kind == RDT_EV_CLOSED)
            break;
        if (event.kind == RDT_EV_RELEASED && event.status == RDT_OK) {
            delivered = true; /* and the bytes are ours again */
            rdt_close(n.ep, conn, 0, rdt_uring_now(n.u));
        }
    }
    close_node(&n);
    if (!delivered)
        die("send", RDT_ABORTED);
}

static void *read_all(size_t *len)
{
    size_t cap = 1 << 16;
    char *bytes = malloc(cap);
    size_t n;

    *len = 0;
    while (bytes && (n = fread(bytes + *len, 1, cap - *len, stdin)) > 0) {
        *len += n;
        if (*len == cap)
            bytes = realloc(bytes, cap *= 2);
    }
    if (!bytes)
        die("standard input", RDT_ENOMEM);
    return bytes;
}

int main(int argc, char **argv)
{
    struct rdt_addr addr;

    if (argc != 3 || rdt_addr_parse(&addr, argv[2])) {
        fprintf(stderr, "usage: %s listen|send ADDRESS:PORT\n", argv[0]);
        return 2;
    }
    if (strcmp(argv[1], "listen") == 0) {
        listen_at(addr);
    } else {
        size_t len;
        void *bytes = read_all(&len);

        send_to(addr, bytes, len);
        free(bytes);
    }
    return 0;
}
