/* SPDX-License-Identifier: MIT */
/*
 * DESIGN: one turn of the loop costs one system call.  Every fresh send completes within the call
 * that submits it (see sender.c), so a wait asks for one completion more than there are fresh
 * sends: submitting and sleeping is one call.  Completions are moved out of the ring as soon as
 * they are seen, into the sender's free slots and the receiver's queue.
 */
#include "receiver.h"
#include "sender.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <rdt/uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    RECEIVE_BUFFERS_DEFAULT = 16,
    RECEIVE_BUFFERS_MAX = 4096,
    SEND_BUFFERS_DEFAULT = 16,
    SEND_BUFFERS_MAX = 4096,
    SOCKET_BYTES_DEFAULT = 4 << 20,
    WATCHES_MAX = 8,
    SPIN_NS = 50000,          /* a wait that short is not worth a sleep */
    PROBE_WAITS = 16,         /* so often a wait is tried for being short */
    TAKEN_PER_WAIT = 1 << 19, /* bytes: so that acknowledgements leave between them */
    LEAVE_ROUNDS = 10,        /* how often rdt_uring_free waits for the kernel ... */
    LEAVE_NS = 10000000,      /* ... and how long each time */
};

struct watch {
    int fd;
    bool armed;
};

struct rdt_uring {
    struct ring ring;
    struct udp_socket socket;
    struct sender sender;
    struct receiver receiver;
    bool ring_is_open;
    bool spin;      /* always */
    bool may_spin;  /* there is another processor for the peer */
    bool was_short; /* the last wait: the next one may be, too */
    uint32_t waits;
    size_t taken; /* bytes given out since the last wait */

    int wake_fd;
    bool wake_armed;
    bool woken;          /* by rdt_uring_wake or a watched descriptor */
    uint64_t wake_count; /* where the kernel puts what it reads from wake_fd */
    struct watch watches[WATCHES_MAX];
    uint32_t watch_count;
    uint64_t submits;
};

/* ---------- open and free ---------- */

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static bool is_valid(const struct rdt_uring_config *c)
{
    if (c->receive_buffers & (c->receive_buffers - 1))
        return false;
    return c->receive_buffers <= RECEIVE_BUFFERS_MAX && c->send_buffers <= SEND_BUFFERS_MAX;
}

static int open_ring(struct rdt_uring *u, uint32_t receive_buffers)
{
    /* Besides sends: receive, wake and watches, each at most once in the queue. */
    const unsigned requests = u->sender.slot_count + WATCHES_MAX + 2;
    int err = ring_open(&u->ring, requests, 2 * (requests + receive_buffers), receive_buffers);

    if (err) {
        errno = -err;
        return err == -ENOMEM ? RDT_ENOMEM : RDT_ESYS;
    }
    u->ring_is_open = true;
    return 0;
}

static int open_parts(struct rdt_uring *u, const struct rdt_uring_config *config)
{
    const uint32_t send_buffers = or_default(config->send_buffers, SEND_BUFFERS_DEFAULT);
    const uint32_t receive_buffers = or_default(config->receive_buffers, RECEIVE_BUFFERS_DEFAULT);
    const struct udp_socket_config socket_config = {
        .bind = config->bind,
        .socket_bytes = or_default(config->socket_bytes, SOCKET_BYTES_DEFAULT),
        .gro = !config->no_gro,
        .gso = !config->no_gso,
    };
    int err = sender_open(&u->sender, &u->ring, &u->socket, send_buffers);

    if (!err)
        err = receiver_open(&u->receiver, &u->ring, &u->socket, receive_buffers);
    if (!err)
        err = udp_open(&u->socket, &socket_config);
    if (err)
        return err;
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (u->wake_fd < 0)
        return RDT_ESYS;
    return open_ring(u, receive_buffers);
}

int rdt_uring_open(struct rdt_uring **out, const struct rdt_uring_config *config)
{
    struct rdt_uring_config own = {.size = 0};
    struct rdt_uring *u;
    int err;
    int saved;

    assert(out);
    assert(config);
    if (config->size < sizeof config->size)
        return RDT_EINVAL;
    memcpy(&own, config, config->size < sizeof own ? config->size : sizeof own);
    if (!is_valid(&own))
        return RDT_EINVAL;
    u = calloc(1, sizeof *u);
    if (!u)
        return RDT_ENOMEM;
    u->spin = own.spin;
    u->may_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    u->socket.fd = -1;
    u->wake_fd = -1;
    err = open_parts(u, &own);
    if (err == 0) {
        *out = u;
        return 0;
    }
    saved = errno;
    rdt_uring_free(u);
    errno = saved;
    return err;
}

static int enter(struct rdt_uring *u, unsigned completions, uint64_t timeout_ns);

/* Lets queued trains leave: the last one may tell the peer that the connection is over. */
static void leave(struct rdt_uring *u)
{
    for (int i = 0; i < LEAVE_ROUNDS && !sender_is_idle(&u->sender); i++)
        if (enter(u, or_default(u->sender.fresh, 1), LEAVE_NS))
            return;
}

void rdt_uring_free(struct rdt_uring *u)
{
    if (!u)
        return;
    if (u->ring_is_open) {
        leave(u);
        ring_close(&u->ring);
    }
    udp_close(&u->socket);
    if (u->wake_fd >= 0)
        close(u->wake_fd);
    receiver_close(&u->receiver);
    sender_close(&u->sender);
    free(u);
}

/* ---------- small answers ---------- */

uint64_t rdt_uring_now(const struct rdt_uring *u)
{
    struct timespec t;

    (void)u;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct rdt_addr rdt_uring_local(const struct rdt_uring *u)
{
    return u->socket.local;
}

void rdt_uring_stats(const struct rdt_uring *u, struct rdt_uring_stats *out)
{
    const struct rdt_uring_stats now = {
        .size = out->size,
        .receive_completions = u->receiver.stats.completions,
        .datagrams_received = u->receiver.stats.datagrams,
        .trains_sent = u->sender.stats.trains,
        .datagrams_sent = u->sender.stats.datagrams,
        .send_errors = u->sender.stats.errors,
        .truncated = u->receiver.stats.truncated,
        .rearmed = u->receiver.stats.rearmed,
        .out_of_buffers = u->receiver.stats.out_of_buffers,
        .submits = u->submits,
        .receive_buffer_granted = u->socket.receive_bytes,
        .gso = u->socket.gso,
        .gro = u->socket.gro,
    };

    assert(out->size >= sizeof out->size);
    memcpy(out, &now, out->size < sizeof now ? out->size : sizeof now);
}

void rdt_uring_wake(struct rdt_uring *u)
{
    const int saved = errno; /* a signal handler must not change it */
    const uint64_t one = 1;
    ssize_t n;

    do
        n = write(u->wake_fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
    errno = saved;
}

int rdt_uring_watch(struct rdt_uring *u, int fd)
{
    if (u->watch_count == WATCHES_MAX)
        return RDT_ELIMIT;
    u->watches[u->watch_count++] = (struct watch){.fd = fd};
    return 0;
}

/* ---------- send and receive ---------- */

void *rdt_uring_train_buffer(struct rdt_uring *u, size_t *cap)
{
    return sender_buffer(&u->sender, cap);
}

void rdt_uring_send_train(struct rdt_uring *u, const struct rdt_train *train)
{
    sender_send(&u->sender, train);
}

bool rdt_uring_next_arrival(struct rdt_uring *u, struct rdt_arrival *out)
{
    while (!receiver_next_datagram(&u->receiver, out)) {
        receiver_release(&u->receiver);
        if (u->taken >= TAKEN_PER_WAIT || !receiver_next_train(&u->receiver))
            return false;
    }
    u->taken += out->len;
    return true;
}

/* ---------- wait ---------- */

static void reap(struct rdt_uring *u)
{
    struct io_uring_cqe *cqe;
    unsigned head;
    unsigned count = 0;

    io_uring_for_each_cqe(&u->ring.io, head, cqe)
    {
        const uint32_t index = (uint32_t)cqe->user_data;

        count++;
        switch ((enum ring_kind)(cqe->user_data >> 32)) {
        case RING_RECEIVE:
            receiver_on_received(&u->receiver, cqe);
            break;
        case RING_SEND:
            sender_on_sent(&u->sender, index, cqe->res);
            break;
        case RING_WAKE:
            u->wake_armed = false;
            u->woken = true;
            break;
        case RING_WATCH:
            u->watches[index].armed = false;
            u->woken = true;
            break;
        }
    }
    io_uring_cq_advance(&u->ring.io, count);
}

static void arm_wake(struct rdt_uring *u)
{
    struct io_uring_sqe *sqe = u->wake_armed ? NULL : ring_request(&u->ring);

    if (!sqe)
        return;
    io_uring_prep_read(sqe, u->wake_fd, &u->wake_count, sizeof u->wake_count, 0);
    io_uring_sqe_set_data64(sqe, ring_tag(RING_WAKE, 0));
    u->wake_armed = true;
}

static void arm_watches(struct rdt_uring *u)
{
    for (uint32_t i = 0; i < u->watch_count; i++) {
        struct io_uring_sqe *sqe = u->watches[i].armed ? NULL : ring_request(&u->ring);

        if (!sqe)
            continue;
        io_uring_prep_poll_add(sqe, u->watches[i].fd, POLLIN);
        io_uring_sqe_set_data64(sqe, ring_tag(RING_WATCH, i));
        u->watches[i].armed = true;
    }
}

static int enter(struct rdt_uring *u, unsigned completions, uint64_t timeout_ns)
{
    int err = ring_enter(&u->ring, completions, timeout_ns);

    u->submits++;
    u->sender.fresh = 0;
    if (err) {
        errno = -err;
        return RDT_ESYS;
    }
    reap(u);
    return 0;
}

static bool has_come(const struct rdt_uring *u)
{
    return u->woken || !receiver_is_empty(&u->receiver);
}

/* Watches the ring's shared memory: no system call until there is something to get. */
static int spin_until(struct rdt_uring *u, uint64_t until_ns)
{
    int err = enter(u, 0, 0);

    while (!err && !has_come(u) && rdt_uring_now(u) < until_ns) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (ring_has_work(&u->ring))
            err = enter(u, 0, 0);
    }
    return err;
}

/*
 * Falling asleep and being woken costs both sides more than a short wait does, and makes a short
 * wait long.  So a wait after a short one, and now and then another, watches for a moment before it
 * sleeps; after a long one the next sleeps at once.
 */
static int sleep_until(struct rdt_uring *u, uint64_t start_ns, uint64_t until_ns)
{
    const uint64_t short_ns = start_ns + SPIN_NS;
    uint64_t now = start_ns;
    int err = 0;

    if (u->may_spin && (u->was_short || u->waits++ % PROBE_WAITS == 0)) {
        err = spin_until(u, short_ns < until_ns ? short_ns : until_ns);
        now = rdt_uring_now(u);
    }
    if (!err && !has_come(u) && now < until_ns) {
        err = enter(u, u->sender.fresh + 1, until_ns - now);
        now = rdt_uring_now(u);
    }
    u->was_short = has_come(u) && now < short_ns;
    return err;
}

int rdt_uring_wait(struct rdt_uring *u, uint64_t until_ns)
{
    uint64_t now;
    int err = 0;

    receiver_release(&u->receiver);
    receiver_arm(&u->receiver);
    arm_wake(u);
    arm_watches(u);
    u->woken = false;
    if (!receiver_is_empty(&u->receiver))
        until_ns = 0; /* there is something to take already */
    now = until_ns ? rdt_uring_now(u) : 0;
    if (now >= until_ns) {
        if (ring_has_work(&u->ring))
            err = enter(u, 0, 0);
    } else if (u->spin) {
        err = spin_until(u, until_ns);
    } else {
        err = sleep_until(u, now, until_ns);
    }
    u->taken = 0;
    if (err || u->receiver.fault == 0)
        return err;
    errno = u->receiver.fault;
    return RDT_ESYS;
}

/* ---------- all of it ---------- */

/* false: there is more to send than there are buffers. */
static bool send_trains(struct rdt_uring *u, struct rdt_endpoint *ep, uint64_t now)
{
    for (;;) {
        size_t cap;
        struct rdt_train train;
        void *buffer = rdt_uring_train_buffer(u, &cap);

        if (!buffer)
            return false;
        if (!rdt_next_train(ep, now, buffer, cap, &train))
            return true;
        rdt_uring_send_train(u, &train);
    }
}

int rdt_uring_turn(struct rdt_uring *u, struct rdt_endpoint *ep, uint64_t until_ns, bool sleep)
{
    struct rdt_arrival arrival;
    uint64_t now = rdt_uring_now(u);
    uint64_t deadline;
    int err;

    if (now >= rdt_deadline(ep)) {
        rdt_on_timeout(ep, now);
        sleep = false; /* it may have made events */
    }
    if (!send_trains(u, ep, now) && u->sender.stalled == 0)
        sleep = false;
    deadline = rdt_deadline(ep);
    if (deadline > until_ns)
        deadline = until_ns;
    err = rdt_uring_wait(u, sleep ? deadline : 0);
    if (err)
        return err;
    now = rdt_uring_now(u);
    while (rdt_uring_next_arrival(u, &arrival))
        rdt_input(ep, &arrival, now);
    return 0;
}
