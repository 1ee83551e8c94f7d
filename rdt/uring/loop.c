/* SPDX-License-Identifier: MIT */
/*
 * DESIGN: one turn of the loop costs one system call.  Sends carry MSG_DONTWAIT, so each completes
 * within the call that submits it; a wait therefore asks for one completion more than there are
 * fresh sends, and submitting and sleeping is one call.  A send that the socket had no room for is
 * handed in again without MSG_DONTWAIT: its completion then means that there is room, and until
 * then no train buffer is given out, so the core holds its datagrams back instead of losing them.
 *
 * Completions are moved out of the ring as soon as they are seen: sends free their buffers,
 * receives join a queue that is exactly as long as there are receive buffers.
 */
#include "ring.h"
#include "socket.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <rdt/uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    RECEIVE_BUFFERS_DEFAULT = 32,
    RECEIVE_BUFFERS_MAX = 4096,
    SEND_BUFFERS_DEFAULT = 32,
    SEND_BUFFERS_MAX = 4096,
    SOCKET_BYTES_DEFAULT = 4 << 20,
    TRAIN_BYTES = 65536,
    TRAIN_STRIDE = TRAIN_BYTES + 192, /* a power of two would put all trains into one cache set */
    WATCHES_MAX = 8,
    TAKEN_PER_WAIT_MAX = 8, /* completions: so that acknowledgements leave between them */
    LEAVE_MS = 100,         /* rdt_uring_free waits at most that long for the kernel */
};

/* What a completion is about: user_data is the kind in the upper half, an index in the lower. */
enum completion { ON_RECEIVE, ON_SEND, ON_WAKE, ON_WATCH };

struct send_slot {
    struct udp_send send;
    size_t segment_len;
    uint32_t segments;
    bool patient; /* handed in again, waiting for room in the socket */
};

struct received {
    uint32_t buffer;
    int result;
};

/* The receive completion whose datagrams are being given out. */
struct open_train {
    struct rdt_arrival next; /* bytes and len: what is left */
    size_t segment_len;
    uint32_t buffer;
    bool held; /* the buffer is ours */
};

struct watch {
    int fd;
    bool armed;
};

struct rdt_uring {
    struct ring ring;
    struct udp_socket socket;
    bool spin;
    bool broken;

    uint8_t *send_memory;
    struct send_slot *slots;
    uint32_t slot_count;
    uint32_t *free_slots; /* a stack: the one used last is warm in the cache */
    uint32_t free_count;
    uint32_t fresh_sends; /* queued since the last wait */
    uint32_t stalled;     /* patient sends under way */

    bool receiving; /* the multishot receive is armed */
    struct received *queue;
    uint32_t queue_head;
    uint32_t queue_count;
    uint32_t take_left; /* completions that may still be given out before the next wait */
    struct open_train train;

    int wake_fd;
    bool wake_armed;
    bool woken; /* something other than a send or a receive completed */
    uint64_t wake_count;
    struct watch watches[WATCHES_MAX];
    uint32_t watch_count;

    struct rdt_uring_stats stats;
};

static uint64_t tag_of(enum completion kind, uint32_t index)
{
    return (uint64_t)kind << 32 | index;
}

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

static int open_slots(struct rdt_uring *u, uint32_t count)
{
    u->slots = calloc(count, sizeof *u->slots);
    u->free_slots = calloc(count, sizeof *u->free_slots);
    u->send_memory = mmap(NULL, (size_t)count * TRAIN_STRIDE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (u->send_memory == MAP_FAILED)
        u->send_memory = NULL;
    u->slot_count = count;
    if (!u->slots || !u->free_slots || !u->send_memory)
        return RDT_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        u->free_slots[i] = count - 1 - i;
    u->free_count = count;
    return 0;
}

static int open_ring(struct rdt_uring *u, uint32_t receive_buffers)
{
    /* Besides sends: receive, wake and watches, each at most once in the queue. */
    const unsigned requests = u->slot_count + WATCHES_MAX + 2;
    int err;

    u->queue = calloc(receive_buffers, sizeof *u->queue);
    if (!u->queue)
        return RDT_ENOMEM;
    err = ring_open(&u->ring, requests, 2 * (requests + receive_buffers), receive_buffers);
    if (err == 0)
        return 0;
    errno = -err;
    return err == -ENOMEM ? RDT_ENOMEM : RDT_ESYS;
}

static int open_parts(struct rdt_uring *u, const struct rdt_uring_config *config)
{
    const struct udp_socket_config socket_config = {
        .bind = config->bind,
        .socket_bytes = or_default(config->socket_bytes, SOCKET_BYTES_DEFAULT),
        .gro = !config->no_gro,
        .gso = !config->no_gso,
    };
    int err = open_slots(u, or_default(config->send_buffers, SEND_BUFFERS_DEFAULT));

    if (err)
        return err;
    err = udp_open(&u->socket, &socket_config);
    if (err)
        return err;
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (u->wake_fd < 0)
        return RDT_ESYS;
    return open_ring(u, or_default(config->receive_buffers, RECEIVE_BUFFERS_DEFAULT));
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

static void reap(struct rdt_uring *u);

/* Lets queued trains leave: the last one may tell the peer that the connection is over. */
static void leave(struct rdt_uring *u)
{
    for (int ms = 0; ms < LEAVE_MS && u->free_count < u->slot_count; ms += 10) {
        if (ring_enter(&u->ring, u->fresh_sends ? u->fresh_sends : 1, 10000000))
            return;
        u->fresh_sends = 0;
        reap(u);
    }
}

void rdt_uring_free(struct rdt_uring *u)
{
    if (!u)
        return;
    if (u->ring.memory) {
        leave(u);
        ring_close(&u->ring);
    }
    udp_close(&u->socket);
    if (u->wake_fd >= 0)
        close(u->wake_fd);
    if (u->send_memory)
        munmap(u->send_memory, (size_t)u->slot_count * TRAIN_STRIDE);
    free(u->queue);
    free(u->free_slots);
    free(u->slots);
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
    struct rdt_uring_stats now = u->stats;
    const size_t size = out->size < sizeof now ? out->size : sizeof now;

    assert(size >= sizeof out->size);
    now.size = out->size;
    now.receive_buffer_granted = u->socket.receive_bytes;
    now.gso = u->socket.gso;
    now.gro = u->socket.gro;
    memcpy(out, &now, size);
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

/* ---------- send ---------- */

void *rdt_uring_train_buffer(struct rdt_uring *u, size_t *cap)
{
    if (u->free_count == 0 || u->stalled > 0)
        return NULL;
    *cap = TRAIN_BYTES;
    return u->send_memory + (size_t)u->free_slots[u->free_count - 1] * TRAIN_STRIDE;
}

static void free_slot(struct rdt_uring *u, uint32_t index)
{
    assert(u->free_count < u->slot_count);
    u->free_slots[u->free_count++] = index;
}

static void count_sent(struct rdt_uring *u, const struct send_slot *slot, size_t datagrams)
{
    u->stats.trains_sent++;
    u->stats.datagrams_sent += datagrams;
    u->stats.send_errors += slot->segments - datagrams;
}

static void submit_slot(struct rdt_uring *u, uint32_t index, int flags)
{
    struct io_uring_sqe *sqe = ring_request(&u->ring);

    if (!sqe) { /* the ring is broken: the datagrams are lost, the next wait says why */
        count_sent(u, &u->slots[index], 0);
        free_slot(u, index);
        return;
    }
    io_uring_prep_sendmsg(sqe, u->socket.fd, &u->slots[index].send.header, (unsigned)flags);
    io_uring_sqe_set_data64(sqe, tag_of(ON_SEND, index));
}

void rdt_uring_send_train(struct rdt_uring *u, const struct rdt_train *train)
{
    uint32_t index;
    struct send_slot *slot;

    assert(u->free_count > 0);
    assert(train->len <= TRAIN_BYTES);
    assert(train->segment_len > 0 || train->len == 0);
    index = u->free_slots[--u->free_count];
    slot = &u->slots[index];
    slot->segment_len = train->segment_len;
    slot->segments = 1;
    if (train->len > train->segment_len)
        slot->segments = (uint32_t)((train->len + train->segment_len - 1) / train->segment_len);
    slot->patient = false;
    udp_send_init(&slot->send, &u->socket, train, u->send_memory + (size_t)index * TRAIN_STRIDE);
    if (slot->segments > 1 && !u->socket.gso) {
        count_sent(u, slot, udp_send_pieces(&slot->send, &u->socket, slot->segment_len));
        free_slot(u, index);
        return;
    }
    u->fresh_sends++;
    submit_slot(u, index, MSG_DONTWAIT);
}

/*
 * A train that failed as a whole may pass in pieces: the device cannot segment (EIO, EINVAL), the
 * kernel takes fewer segments in a call (EINVAL), or a segment is larger than the route's MTU
 * (EMSGSIZE) and has to be fragmented.
 */
static size_t send_again_in_pieces(struct rdt_uring *u, struct send_slot *slot, int error)
{
    size_t sent;

    if (slot->segments == 1 || (error != EIO && error != EINVAL && error != EMSGSIZE))
        return 0;
    sent = udp_send_pieces(&slot->send, &u->socket, slot->segment_len);
    /* Pieces pass where the train did not: it is the segmentation, not the address. */
    if (sent > 0 && error != EMSGSIZE && slot->segments <= UDP_SEGMENTS_SAFE)
        u->socket.gso = false;
    return sent;
}

static void on_sent(struct rdt_uring *u, uint32_t index, int result)
{
    struct send_slot *slot = &u->slots[index];

    if (result == -EAGAIN && !slot->patient) {
        slot->patient = true;
        u->stalled++;
        submit_slot(u, index, 0);
        return;
    }
    if (slot->patient)
        u->stalled--;
    slot->patient = false;
    count_sent(u, slot, result >= 0 ? slot->segments : send_again_in_pieces(u, slot, -result));
    free_slot(u, index);
}

/* ---------- receive ---------- */

static bool is_fatal(int error)
{
    return error == EBADF || error == EFAULT || error == EINVAL || error == ENOTSOCK ||
           error == EOPNOTSUPP;
}

static void on_received(struct rdt_uring *u, const struct io_uring_cqe *cqe)
{
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        u->receiving = false;
        u->stats.rearmed++;
    }
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        const uint32_t at = (u->queue_head + u->queue_count) % u->ring.buffer_count;

        assert(u->queue_count < u->ring.buffer_count);
        u->queue[at].buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        u->queue[at].result = cqe->res;
        u->queue_count++;
    } else if (cqe->res == -ENOBUFS) {
        u->stats.out_of_buffers++;
    } else if (cqe->res < 0 && is_fatal(-cqe->res)) {
        u->broken = true;
        errno = -cqe->res;
    }
}

static void release_train(struct rdt_uring *u)
{
    if (!u->train.held)
        return;
    ring_give_back(&u->ring, u->train.buffer);
    u->train.held = false;
}

/* Opens the oldest received train.  false: it carries nothing, or not all of what was sent. */
static bool open_train(struct rdt_uring *u)
{
    const struct received got = u->queue[u->queue_head];
    uint8_t *buffer = ring_buffer(&u->ring, got.buffer);
    struct io_uring_recvmsg_out head;
    struct udp_received meta;
    struct msghdr control = {.msg_namelen = 0};

    u->queue_head = (u->queue_head + 1) % u->ring.buffer_count;
    u->queue_count--;
    u->stats.receive_completions++;
    u->train.buffer = got.buffer;
    u->train.held = true;
    if (got.result < RING_BUFFER_BYTES - RING_PAYLOAD_MAX)
        return false;
    memcpy(&head, buffer, sizeof head);
    if (head.flags & (MSG_TRUNC | MSG_CTRUNC) || head.controllen > RING_CONTROL_MAX ||
        head.payloadlen > RING_PAYLOAD_MAX) {
        u->stats.truncated++;
        return false;
    }
    control.msg_control = buffer + sizeof head + RING_NAME_MAX;
    control.msg_controllen = head.controllen;
    udp_read_control(&meta, &u->socket, &control);
    u->train.next = (struct rdt_arrival){
        .from = udp_addr_of_name((const union udp_name *)(const void *)(buffer + sizeof head)),
        .local = meta.local,
        .bytes = buffer + RING_BUFFER_BYTES - RING_PAYLOAD_MAX,
        .len = head.payloadlen,
        .ecn = meta.ecn,
    };
    u->train.segment_len = meta.segment_len ? meta.segment_len : head.payloadlen;
    if (head.payloadlen == 0)
        u->stats.datagrams_received++; /* an empty datagram: counted here, of use to nobody */
    return head.payloadlen > 0;
}

bool rdt_uring_next_arrival(struct rdt_uring *u, struct rdt_arrival *out)
{
    struct rdt_arrival *next = &u->train.next;

    while (!u->train.held || next->len == 0) {
        release_train(u);
        if (u->queue_count == 0 || u->take_left == 0)
            return false;
        u->take_left--;
        if (!open_train(u))
            next->len = 0;
    }
    *out = *next;
    if (out->len > u->train.segment_len)
        out->len = u->train.segment_len;
    next->bytes = (uint8_t *)next->bytes + out->len;
    next->len -= out->len;
    u->stats.datagrams_received++;
    return true;
}

/* ---------- wait ---------- */

static void on_watch(struct rdt_uring *u, uint32_t index)
{
    u->watches[index].armed = false;
    u->woken = true;
}

static void reap(struct rdt_uring *u)
{
    struct io_uring_cqe *cqe;
    unsigned head;
    unsigned count = 0;

    io_uring_for_each_cqe(&u->ring.io, head, cqe)
    {
        const uint32_t index = (uint32_t)cqe->user_data;

        count++;
        switch ((enum completion)(cqe->user_data >> 32)) {
        case ON_RECEIVE:
            on_received(u, cqe);
            break;
        case ON_SEND:
            on_sent(u, index, cqe->res);
            break;
        case ON_WAKE:
            u->wake_armed = false;
            u->woken = true;
            break;
        case ON_WATCH:
            on_watch(u, index);
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
    io_uring_sqe_set_data64(sqe, tag_of(ON_WAKE, 0));
    u->wake_armed = true;
}

static void arm_watches(struct rdt_uring *u)
{
    for (uint32_t i = 0; i < u->watch_count; i++) {
        struct io_uring_sqe *sqe = u->watches[i].armed ? NULL : ring_request(&u->ring);

        if (!sqe)
            continue;
        io_uring_prep_poll_add(sqe, u->watches[i].fd, POLLIN);
        io_uring_sqe_set_data64(sqe, tag_of(ON_WATCH, i));
        u->watches[i].armed = true;
    }
}

static void arm(struct rdt_uring *u)
{
    /* Out of buffers the receive would only end again: wait until one has come back. */
    const uint32_t taken = u->queue_count + (u->train.held ? 1 : 0);

    if (!u->receiving && taken < u->ring.buffer_count)
        u->receiving = ring_arm_receive(&u->ring, u->socket.fd, tag_of(ON_RECEIVE, 0));
    arm_wake(u);
    arm_watches(u);
}

static int enter(struct rdt_uring *u, unsigned completions, uint64_t timeout_ns)
{
    int err = ring_enter(&u->ring, completions, timeout_ns);

    u->stats.submits++;
    u->fresh_sends = 0;
    if (err) {
        errno = -err;
        return RDT_ESYS;
    }
    reap(u);
    return 0;
}

/* Watches the ring's shared memory: no system call until there is something to get. */
static int spin_until(struct rdt_uring *u, uint64_t until_ns)
{
    int err = enter(u, 0, 0);

    while (!err && !u->woken && u->queue_count == 0 && rdt_uring_now(u) < until_ns) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (ring_has_work(&u->ring))
            err = enter(u, 0, 0);
    }
    return err;
}

int rdt_uring_wait(struct rdt_uring *u, uint64_t until_ns)
{
    uint64_t now;
    int err = 0;

    if (u->train.held && u->train.next.len == 0)
        release_train(u);
    arm(u);
    u->woken = false;
    if (u->train.held || u->queue_count > 0)
        until_ns = 0; /* there is something to take already */
    now = until_ns ? rdt_uring_now(u) : 0;
    if (now >= until_ns) {
        if (ring_has_work(&u->ring))
            err = enter(u, 0, 0);
    } else if (u->spin) {
        err = spin_until(u, until_ns);
    } else {
        err = enter(u, u->fresh_sends + 1, until_ns - now);
    }
    u->take_left = TAKEN_PER_WAIT_MAX;
    if (!err && u->broken)
        err = RDT_ESYS;
    return err;
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
    if (!send_trains(u, ep, now) && u->stalled == 0)
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
