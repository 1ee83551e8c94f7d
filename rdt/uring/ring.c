/* SPDX-License-Identifier: MIT */
/*
 * The ring is opened disabled and enabled by its first ring_enter, because SINGLE_ISSUER ties it to
 * the thread that enables it: a program may open it in one thread and hand it to another.
 */
#include "ring.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BUFFER_GROUP = 0 };

static const uint64_t timeout_max_ns = 3600ull * 1000 * 1000 * 1000;

static_assert(sizeof(struct io_uring_recvmsg_out) + RING_NAME_MAX + RING_CONTROL_MAX +
                      RING_PAYLOAD_MAX ==
                  RING_BUFFER_BYTES,
              "a buffer is the kernel's header, name, control data and payload");

static void *map(size_t len)
{
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* From what suits us best down to what every kernel with multishot recvmsg (6.0) has. */
static int open_io(struct ring *r, unsigned submissions, unsigned completions)
{
    static const unsigned tries[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
            IORING_SETUP_R_DISABLED,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
        IORING_SETUP_R_DISABLED,
    };
    int err = -EINVAL;

    for (size_t i = 0; i < sizeof tries / sizeof tries[0] && err == -EINVAL; i++) {
        struct io_uring_params params = {
            .flags = tries[i] | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
            .cq_entries = completions,
        };

        err = io_uring_queue_init_params(submissions, &r->io, &params);
    }
    return err;
}

static int open_buffers(struct ring *r, uint32_t count)
{
    struct io_uring_buf_reg registration = {.ring_entries = count, .bgid = BUFFER_GROUP};

    r->buffer_count = count;
    r->buffers_bytes = count * sizeof(struct io_uring_buf);
    r->buffers = map(r->buffers_bytes);
    r->memory = map((size_t)count * RING_BUFFER_BYTES);
    if (!r->buffers || !r->memory)
        return -ENOMEM;
    registration.ring_addr = (uint64_t)(uintptr_t)r->buffers;
    io_uring_buf_ring_init(r->buffers);
    for (uint32_t id = 0; id < count; id++)
        ring_give_back(r, id);
    return io_uring_register_buf_ring(&r->io, &registration, 0);
}

int ring_open(struct ring *r, unsigned submissions, unsigned completions, uint32_t buffer_count)
{
    int err;

    assert(buffer_count > 0);
    assert((buffer_count & (buffer_count - 1)) == 0);
    memset(r, 0, sizeof *r);
    err = open_io(r, submissions, completions);
    if (err)
        return err;
    r->disabled = true;
    r->receive_shape.msg_namelen = RING_NAME_MAX;
    r->receive_shape.msg_controllen = RING_CONTROL_MAX;
    err = open_buffers(r, buffer_count);
    if (err)
        ring_close(r);
    return err;
}

void ring_close(struct ring *r)
{
    io_uring_queue_exit(&r->io);
    if (r->buffers)
        munmap(r->buffers, r->buffers_bytes);
    if (r->memory)
        munmap(r->memory, (size_t)r->buffer_count * RING_BUFFER_BYTES);
    memset(r, 0, sizeof *r);
}

uint8_t *ring_buffer(const struct ring *r, uint32_t id)
{
    assert(id < r->buffer_count);
    return r->memory + (size_t)id * RING_BUFFER_BYTES;
}

void ring_give_back(struct ring *r, uint32_t id)
{
    io_uring_buf_ring_add(r->buffers, ring_buffer(r, id), RING_BUFFER_BYTES, (unsigned short)id,
                          io_uring_buf_ring_mask(r->buffer_count), 0);
    io_uring_buf_ring_advance(r->buffers, 1);
}

/* Requests can be queued before the ring is enabled, but not submitted. */
static int enable(struct ring *r)
{
    if (!r->disabled)
        return 0;
    /* By hand: liburing 2.3 declares io_uring_enable_rings but does not export it. */
    if (syscall(__NR_io_uring_register, r->io.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
        return -errno;
    r->disabled = false;
    return 0;
}

struct io_uring_sqe *ring_request(struct ring *r)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->io);

    if (!sqe && enable(r) == 0 && io_uring_submit(&r->io) >= 0)
        sqe = io_uring_get_sqe(&r->io);
    return sqe;
}

bool ring_arm_receive(struct ring *r, int fd)
{
    struct io_uring_sqe *sqe = ring_request(r);

    if (!sqe)
        return false;
    io_uring_prep_recvmsg_multishot(sqe, fd, &r->receive_shape, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
    io_uring_sqe_set_data64(sqe, ring_tag(RING_RECEIVE, 0));
    return true;
}

int ring_enter(struct ring *r, unsigned completions, uint64_t timeout_ns)
{
    int err = enable(r);

    if (err)
        return err;
    if (completions == 0) {
        err = io_uring_submit_and_get_events(&r->io);
    } else {
        struct io_uring_cqe *first;
        struct __kernel_timespec timeout;

        if (timeout_ns > timeout_max_ns)
            timeout_ns = timeout_max_ns;
        timeout.tv_sec = (long long)(timeout_ns / 1000000000);
        timeout.tv_nsec = (long long)(timeout_ns % 1000000000);
        err = io_uring_submit_and_wait_timeout(&r->io, &first, completions, &timeout, NULL);
    }
    /* EBUSY and EAGAIN: completions have to be taken first, or memory is short for a moment. */
    if (err >= 0 || err == -ETIME || err == -EINTR || err == -EAGAIN || err == -EBUSY)
        return 0;
    return err;
}

bool ring_has_work(const struct ring *r)
{
    const unsigned wants_enter = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;

    return io_uring_sq_ready(&r->io) > 0 || io_uring_cq_ready(&r->io) > 0 ||
           (__atomic_load_n(r->io.sq.kflags, __ATOMIC_RELAXED) & wants_enter) != 0;
}
