/* SPDX-License-Identifier: MIT */
/*
 * DESIGN: sends carry MSG_DONTWAIT, so each completes within the system call that submits it.  One
 * that finds the socket full is handed in again without the flag: its completion then means that
 * there is room, and until then no buffer is given out, so the core holds its datagrams back
 * instead of losing them.
 */
#include "sender.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    TRAIN_BYTES = 65536,
    TRAIN_STRIDE = TRAIN_BYTES + 192, /* a power of two would put all trains into one cache set */
};

struct send_slot {
    struct udp_send send;
    size_t segment_len;
    uint32_t segments;
    bool patient; /* handed in again, waiting for room in the socket */
};

int sender_open(struct sender *s, struct ring *ring, struct udp_socket *socket, uint32_t slots)
{
    void *memory = mmap(NULL, (size_t)slots * TRAIN_STRIDE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(s, 0, sizeof *s);
    s->ring = ring;
    s->socket = socket;
    s->memory = memory == MAP_FAILED ? NULL : memory;
    s->slots = calloc(slots, sizeof *s->slots);
    s->free_slots = calloc(slots, sizeof *s->free_slots);
    s->slot_count = slots;
    if (!s->memory || !s->slots || !s->free_slots) {
        sender_close(s);
        return RDT_ENOMEM;
    }
    for (uint32_t i = 0; i < slots; i++)
        s->free_slots[i] = slots - 1 - i;
    s->free_count = slots;
    return 0;
}

void sender_close(struct sender *s)
{
    if (s->memory)
        munmap(s->memory, (size_t)s->slot_count * TRAIN_STRIDE);
    free(s->free_slots);
    free(s->slots);
    memset(s, 0, sizeof *s);
}

void *sender_buffer(const struct sender *s, size_t *cap)
{
    if (s->free_count == 0 || s->stalled > 0)
        return NULL;
    *cap = TRAIN_BYTES;
    return s->memory + (size_t)s->free_slots[s->free_count - 1] * TRAIN_STRIDE;
}

static void free_slot(struct sender *s, uint32_t index)
{
    assert(s->free_count < s->slot_count);
    s->free_slots[s->free_count++] = index;
}

static void count_sent(struct sender *s, const struct send_slot *slot, size_t datagrams)
{
    s->stats.trains++;
    s->stats.datagrams += datagrams;
    s->stats.errors += slot->segments - datagrams;
}

static void submit(struct sender *s, uint32_t index, int flags)
{
    struct io_uring_sqe *sqe = ring_request(s->ring);

    if (!sqe) { /* the ring is broken: the datagrams are lost, the next ring_enter says why */
        count_sent(s, &s->slots[index], 0);
        free_slot(s, index);
        return;
    }
    io_uring_prep_sendmsg(sqe, s->socket->fd, &s->slots[index].send.header, (unsigned)flags);
    io_uring_sqe_set_data64(sqe, ring_tag(RING_SEND, index));
}

void sender_send(struct sender *s, const struct rdt_train *train)
{
    uint32_t index;
    struct send_slot *slot;

    assert(s->free_count > 0);
    assert(train->len <= TRAIN_BYTES);
    assert(train->segment_len > 0 || train->len == 0);
    index = s->free_slots[--s->free_count];
    slot = &s->slots[index];
    slot->segment_len = train->segment_len;
    slot->segments = 1;
    if (train->len > train->segment_len)
        slot->segments = (uint32_t)((train->len + train->segment_len - 1) / train->segment_len);
    slot->patient = false;
    udp_send_init(&slot->send, s->socket, train, s->memory + (size_t)index * TRAIN_STRIDE);
    if (slot->segments > 1 && !s->socket->gso) {
        count_sent(s, slot, udp_send_pieces(&slot->send, s->socket, slot->segment_len));
        free_slot(s, index);
        return;
    }
    s->fresh++;
    submit(s, index, MSG_DONTWAIT);
}

/*
 * A train that failed as a whole may pass in pieces: the device cannot segment (EIO, EINVAL), the
 * kernel takes fewer segments in a call (EINVAL), or a segment is larger than the route's MTU
 * (EMSGSIZE) and has to be fragmented.
 */
static size_t send_again_in_pieces(struct sender *s, struct send_slot *slot, int error)
{
    size_t sent;

    if (slot->segments == 1 || (error != EIO && error != EINVAL && error != EMSGSIZE))
        return 0;
    sent = udp_send_pieces(&slot->send, s->socket, slot->segment_len);
    /* Pieces pass where the train did not: it is the segmentation, not the address. */
    if (sent > 0 && error != EMSGSIZE && slot->segments <= UDP_SEGMENTS_SAFE)
        s->socket->gso = false;
    return sent;
}

void sender_on_sent(struct sender *s, uint32_t index, int result)
{
    struct send_slot *slot = &s->slots[index];

    if (result == -EAGAIN && !slot->patient) {
        slot->patient = true;
        s->stalled++;
        submit(s, index, 0);
        return;
    }
    if (slot->patient)
        s->stalled--;
    slot->patient = false;
    count_sent(s, slot, result >= 0 ? slot->segments : send_again_in_pieces(s, slot, -result));
    free_slot(s, index);
}

bool sender_is_idle(const struct sender *s)
{
    return s->free_count == s->slot_count;
}
