/* SPDX-License-Identifier: MIT */
#ifndef RDT_URING_RECEIVER_H
#define RDT_URING_RECEIVER_H

/*
 * Received trains: completions of the multishot receive wait in a queue that is as long as there
 * are receive buffers, and come apart into datagrams.  A buffer goes back to the kernel when its
 * last datagram has been looked at.
 */

#include "ring.h"
#include "socket.h"

struct received; /* a completion in the queue */

/* The completion whose datagrams are being given out. */
struct open_train {
    struct rdt_arrival rest; /* bytes and len: what is left */
    size_t segment_len;
    uint32_t buffer;
    bool held; /* the buffer is ours */
};

struct receiver_stats {
    uint64_t completions;
    uint64_t datagrams;
    uint64_t truncated;
    uint64_t rearmed;
    uint64_t out_of_buffers;
};

struct receiver {
    struct ring *ring;
    const struct udp_socket *socket;
    bool armed; /* the multishot receive goes on */
    struct received *queue;
    uint32_t head;
    uint32_t count;
    struct open_train train;
    int fault; /* errno that ended the receive for good */
    struct receiver_stats stats;
};

/* Ring and socket are borrowed and may be opened later.  RDT_ENOMEM. */
int receiver_open(struct receiver *r, struct ring *ring, const struct udp_socket *socket,
                  uint32_t buffers);
void receiver_close(struct receiver *r);

/* Starts the receive if it is not going on and there is a buffer for it. */
void receiver_arm(struct receiver *r);

void receiver_on_received(struct receiver *r, const struct io_uring_cqe *cqe);

/* The next datagram of the open train; its bytes are good until the next call. */
bool receiver_next_datagram(struct receiver *r, struct rdt_arrival *out);

/* Opens the oldest train of the queue.  false: none.  Closes the train that was open. */
bool receiver_next_train(struct receiver *r);

/* Gives the open train's buffer back if all of it has been given out. */
void receiver_release(struct receiver *r);

bool receiver_is_empty(const struct receiver *r);

#endif
