/* SPDX-License-Identifier: MIT */
#ifndef RDT_URING_RING_H
#define RDT_URING_RING_H

/*
 * The ring and its receive buffers: set-up with what this kernel offers, the multishot receive, and
 * waiting.  Knows nothing of datagrams.
 */

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RING_NAME_MAX = 48, /* so that the payload, behind the kernel's header, is 64-byte aligned */
    RING_CONTROL_MAX = 128,
    RING_PAYLOAD_MAX = 65536,
    RING_BUFFER_BYTES = 192 + RING_PAYLOAD_MAX,
};

/* What a completion is about: user_data is this in the upper half, an index in the lower. */
enum ring_kind { RING_RECEIVE, RING_SEND, RING_WAKE, RING_WATCH };

static inline uint64_t ring_tag(enum ring_kind kind, uint32_t index)
{
    return (uint64_t)kind << 32 | index;
}

struct ring {
    struct io_uring io;
    struct io_uring_buf_ring *buffers; /* those the kernel may fill */
    size_t buffers_bytes;
    uint8_t *memory;
    uint32_t buffer_count;
    struct msghdr receive_shape; /* lives as long as the multishot receive */
    bool disabled;               /* until the thread that will use it comes along */
};

/* 0 or a negative errno.  Any thread may open it; the first to call ring_enter owns it. */
int ring_open(struct ring *r, unsigned submissions, unsigned completions, uint32_t buffer_count);
void ring_close(struct ring *r);

uint8_t *ring_buffer(const struct ring *r, uint32_t id);
void ring_give_back(struct ring *r, uint32_t id);

/* Room for one request; submits what is queued when there is none.  NULL: the ring is broken. */
struct io_uring_sqe *ring_request(struct ring *r);

/* Queues the receive that goes on until its completion lacks IORING_CQE_F_MORE. */
bool ring_arm_receive(struct ring *r, int fd);

/*
 * Submits what is queued; then waits until `completions` are there or timeout_ns passed.  0
 * completions: takes what is ready without waiting.  0 or a negative errno; running out of time and
 * signals are 0.
 */
int ring_enter(struct ring *r, unsigned completions, uint64_t timeout_ns);

/* Whether ring_enter(r, 0, 0) would find or do anything.  No system call. */
bool ring_has_work(const struct ring *r);

#endif
