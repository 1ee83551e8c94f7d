/* SPDX-License-Identifier: MIT */
/* The multishot receive ends for many harmless reasons: an empty datagram, no buffer left. */
#include "receiver.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct received {
    uint32_t buffer;
    int result;
};

int receiver_open(struct receiver *r, struct ring *ring, const struct udp_socket *socket,
                  uint32_t buffers)
{
    memset(r, 0, sizeof *r);
    r->ring = ring;
    r->socket = socket;
    r->queue = calloc(buffers, sizeof *r->queue);
    return r->queue ? 0 : RDT_ENOMEM;
}

void receiver_close(struct receiver *r)
{
    free(r->queue);
    memset(r, 0, sizeof *r);
}

void receiver_arm(struct receiver *r)
{
    const uint32_t taken = r->count + (r->train.held ? 1 : 0);

    if (!r->armed && taken < r->ring->buffer_count)
        r->armed = ring_arm_receive(r->ring, r->socket->fd);
}

static bool is_fatal(int error)
{
    return error == EBADF || error == EFAULT || error == EINVAL || error == ENOTSOCK ||
           error == EOPNOTSUPP;
}

void receiver_on_received(struct receiver *r, const struct io_uring_cqe *cqe)
{
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        r->armed = false;
        r->stats.rearmed++;
    }
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        struct received *slot = &r->queue[(r->head + r->count) % r->ring->buffer_count];

        assert(r->count < r->ring->buffer_count);
        slot->buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        slot->result = cqe->res;
        r->count++;
    } else if (cqe->res == -ENOBUFS) {
        r->stats.out_of_buffers++;
    } else if (cqe->res < 0 && is_fatal(-cqe->res)) {
        r->fault = -cqe->res;
    }
}

static void give_back(struct receiver *r)
{
    if (r->train.held)
        ring_give_back(r->ring, r->train.buffer);
    r->train.held = false;
    r->train.rest.len = 0;
}

void receiver_release(struct receiver *r)
{
    if (r->train.rest.len == 0)
        give_back(r);
}

/* Reads the kernel's header, name and control data.  The train stays empty when they are amiss. */
static void read_train(struct receiver *r, const struct received *got)
{
    uint8_t *buffer = ring_buffer(r->ring, got->buffer);
    struct io_uring_recvmsg_out head;
    struct udp_received meta;
    struct msghdr control = {.msg_namelen = 0};

    if (got->result < RING_BUFFER_BYTES - RING_PAYLOAD_MAX)
        return;
    memcpy(&head, buffer, sizeof head);
    if (head.flags & (MSG_TRUNC | MSG_CTRUNC) || head.controllen > RING_CONTROL_MAX ||
        head.payloadlen > RING_PAYLOAD_MAX) {
        r->stats.truncated++;
        return;
    }
    control.msg_control = buffer + sizeof head + RING_NAME_MAX;
    control.msg_controllen = head.controllen;
    udp_read_control(&meta, r->socket, &control);
    r->train.rest = (struct rdt_arrival){
        .from = udp_addr_of_name((const union udp_name *)(const void *)(buffer + sizeof head)),
        .local = meta.local,
        .bytes = buffer + RING_BUFFER_BYTES - RING_PAYLOAD_MAX,
        .len = head.payloadlen,
        .ecn = meta.ecn,
    };
    r->train.segment_len = meta.segment_len ? meta.segment_len : head.payloadlen;
    if (head.payloadlen == 0)
        r->stats.datagrams++; /* an empty datagram is counted here and of use to nobody */
}

bool receiver_next_train(struct receiver *r)
{
    const struct received *got = &r->queue[r->head];

    give_back(r);
    if (r->count == 0)
        return false;
    r->head = (r->head + 1) % r->ring->buffer_count;
    r->count--;
    r->stats.completions++;
    r->train.buffer = got->buffer;
    r->train.held = true;
    read_train(r, got);
    return true;
}

bool receiver_next_datagram(struct receiver *r, struct rdt_arrival *out)
{
    struct rdt_arrival *rest = &r->train.rest;

    if (rest->len == 0)
        return false;
    *out = *rest;
    if (out->len > r->train.segment_len)
        out->len = r->train.segment_len;
    rest->bytes = (uint8_t *)rest->bytes + out->len;
    rest->len -= out->len;
    r->stats.datagrams++;
    return true;
}

bool receiver_is_empty(const struct receiver *r)
{
    return r->count == 0 && r->train.rest.len == 0;
}
