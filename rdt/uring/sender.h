/* SPDX-License-Identifier: MIT */
#ifndef RDT_URING_SENDER_H
#define RDT_URING_SENDER_H

/*
 * Trains on their way out: buffers, the arguments of their sendmsg, and what to do when the kernel
 * does not take one.
 */

#include "ring.h"
#include "socket.h"

struct send_slot;

struct sender_stats {
    uint64_t trains;
    uint64_t datagrams;
    uint64_t errors; /* datagrams that never left */
};

struct sender {
    struct ring *ring;
    struct udp_socket *socket;
    uint8_t *memory;
    struct send_slot *slots;
    uint32_t slot_count;
    uint32_t *free_slots; /* a stack: the one used last is warm in the cache */
    uint32_t free_count;
    uint32_t fresh;   /* queued since the last ring_enter, each done within it; reset by the loop */
    uint32_t stalled; /* waiting for room in the socket */
    struct sender_stats stats;
};

/* Ring and socket are borrowed and may be opened later.  RDT_ENOMEM. */
int sender_open(struct sender *s, struct ring *ring, struct udp_socket *socket, uint32_t slots);
void sender_close(struct sender *s);

/* NULL: all are under way, or the socket is full. */
void *sender_buffer(const struct sender *s, size_t *cap);

/* Queues what was written to the last sender_buffer. */
void sender_send(struct sender *s, const struct rdt_train *train);

void sender_on_sent(struct sender *s, uint32_t index, int result);

bool sender_is_idle(const struct sender *s);

#endif
