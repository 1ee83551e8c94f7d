/* SPDX-License-Identifier: MIT */
#ifndef RDT_RDT_H
#define RDT_RDT_H

/*
 * Reliable messages over UDP: the protocol core.
 *
 * The core does no I/O.  Bytes, time and randomness come in as arguments; datagrams and events are
 * pulled out as data.  Whoever owns the socket (rdt/uring.h, a simulator, your own loop) does:
 *
 *     for each datagram received      rdt_input(ep, &arrival, now);
 *     if (now >= rdt_deadline(ep))    rdt_on_timeout(ep, now);
 *     while (rdt_next_event(ep, &ev)) react: rdt_send, rdt_post, rdt_release ...
 *     while (rdt_next_train(ep, now, buf, cap, &train)) send it
 *     sleep until rdt_deadline(ep) or the next datagram
 *
 * Time is any monotonic count of nanoseconds; the origin does not matter.  One endpoint belongs to
 * one thread; different endpoints are independent.  The library has no globals, never prints, never
 * exits, never aborts because of input and allocates only in rdt_open.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef RDT_BUILDING_LIBRARY
#define RDT_API __attribute__((visibility("default")))
#else
#define RDT_API
#endif

/* ---------- errors ---------- */

enum rdt_err {
    RDT_OK = 0,
    RDT_EAGAIN = -1,   /* full; nothing was queued; one RDT_EV_WRITABLE will follow */
    RDT_EINVAL = -2,   /* an argument is out of its documented range */
    RDT_ENOMEM = -3,   /* the allocator said no */
    RDT_ECONN = -4,    /* the handle names no connection, or one that is closing */
    RDT_EMSGSIZE = -5, /* larger than a message may be, or than the posted buffer */
    RDT_ESYS = -6,     /* a system call failed; errno says why (drivers only) */
    RDT_ELIMIT = -7,   /* a configured limit is reached (connections, posts) */
    RDT_EEXIST = -8,   /* this (channel, tag) is posted already */
    RDT_ABORTED = -9,  /* status of a release: the connection ended before the peer acknowledged */
};

RDT_API const char *rdt_strerror(int err);

/* ---------- addresses ---------- */

enum {
    RDT_ADDR_TEXT_MAX = 64, /* "[v6%scope]:port" and a NUL fit */
};

/* An IPv6 address, or an IPv4 one as ::ffff:a.b.c.d.  Port and scope in host byte order. */
struct rdt_addr {
    uint8_t ip[16];
    uint32_t scope_id;
    uint16_t port;
    uint16_t reserved; /* zero */
};

RDT_API bool rdt_addr_is_v4(const struct rdt_addr *addr);
RDT_API bool rdt_addr_equal(const struct rdt_addr *a, const struct rdt_addr *b);
RDT_API struct rdt_addr rdt_addr_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port);

/* "1.2.3.4:77" or "[fe80::1%2]:77", numeric only.  RDT_EINVAL otherwise. */
RDT_API int rdt_addr_parse(struct rdt_addr *addr, const char *text);

/* Writes the form that rdt_addr_parse reads.  buf holds RDT_ADDR_TEXT_MAX bytes. */
RDT_API void rdt_addr_format(const struct rdt_addr *addr, char *buf);

/* ---------- datagrams in and out ---------- */

/* One received datagram.  The bytes are the core's to change until rdt_input returns. */
struct rdt_arrival {
    struct rdt_addr from;
    struct rdt_addr local; /* the address it was sent to; all zero: unknown */
    void *bytes;
    size_t len;
    uint8_t ecn; /* the two ECN bits */
};

/* Datagrams for one destination: all segment_len long, only the last may be shorter (UDP GSO). */
struct rdt_train {
    struct rdt_addr to;
    struct rdt_addr local; /* send from here; all zero: any */
    size_t len;            /* bytes written to the buffer */
    size_t segment_len;
    uint8_t ecn;
};

/* ---------- configuration ---------- */

struct rdt_allocator {
    void *(*alloc)(void *ctx, size_t size); /* 64-byte aligned, or NULL */
    void (*free)(void *ctx, void *ptr);
    void *ctx;
};

enum rdt_cc {
    RDT_CC_AUTO = 0, /* what suits most paths */
    RDT_CC_FIXED = 1 /* a constant window of fixed_window bytes, for tests */
};

/* Zero in a field means the default beside it. */
struct rdt_config {
    size_t size;         /* sizeof(struct rdt_config): fields are added at the end only */
    uint8_t entropy[32]; /* from getrandom, or from a seed; all randomness comes from it */
    struct rdt_allocator allocator; /* aligned_alloc and free */
    bool listen;                    /* accept connections */
    enum rdt_cc cc;                 /* RDT_CC_AUTO */
    uint32_t connections_max;       /* 64 */
    uint32_t datagram_max;          /* 1452 bytes of UDP payload; 548 ... 65507 */
    uint32_t train_segments_max;    /* 44 datagrams */
    uint32_t train_bytes_max;       /* 65507; never below datagram_max */
    uint32_t messages_max;          /* 256 outgoing messages pending per connection */
    uint64_t send_bytes_max;   /* 1 GiB of outgoing bytes pending per connection; a single larger
                                  message is taken when nothing else is pending */
    uint32_t incoming_max;     /* 256 messages arriving or not yet released per connection */
    uint32_t posts_max;        /* 256 posted buffers per connection */
    uint32_t pool_message_max; /* 65536: larger messages need a posted buffer */
    uint64_t pool_bytes;       /* 8 MiB for messages that nobody posted, all connections */
    uint64_t fixed_window;     /* 1 MiB, RDT_CC_FIXED */
    uint64_t dead_ns;          /* 2.5 s without a valid packet: the peer is dead */
    uint64_t ping_ns;          /* 500 ms of silence: a PING */
    uint64_t handshake_ns;     /* 10 s without an answer: RDT_CLOSED_TIMEOUT */
    uint64_t max_ack_delay_ns; /* 1 ms */
};

struct rdt_endpoint; /* opaque */

/* A connection of one endpoint.  A handle outlives its connection: later calls get RDT_ECONN. */
struct rdt_conn {
    uint32_t slot;
    uint32_t generation; /* never 0: an all-zero handle names nothing */
};

/* Takes all memory it will ever need.  RDT_EINVAL, RDT_ENOMEM. */
RDT_API int rdt_open(struct rdt_endpoint **out, const struct rdt_config *config);
RDT_API void rdt_free(struct rdt_endpoint *ep);

/* ---------- the wire's side ---------- */

/* Takes one datagram.  What the wire brings is counted in the statistics, never the caller's error.
 */
RDT_API void rdt_input(struct rdt_endpoint *ep, const struct rdt_arrival *arrival, uint64_t now_ns);

/*
 * Writes the next datagrams to send into buf (cap >= datagram_max).  false: nothing to send now.
 * The bytes are final; whether they leave the machine is not the core's concern (a failed send is
 * a lost packet).
 */
RDT_API bool rdt_next_train(struct rdt_endpoint *ep, uint64_t now_ns, void *buf, size_t cap,
                            struct rdt_train *out);

/* When rdt_on_timeout wants to be called; UINT64_MAX: never, until something else happens. */
RDT_API uint64_t rdt_deadline(const struct rdt_endpoint *ep);
RDT_API void rdt_on_timeout(struct rdt_endpoint *ep, uint64_t now_ns);

/* ---------- connections ---------- */

/* Starts a handshake.  RDT_EV_CONNECTED or RDT_EV_CLOSED follows.  RDT_ELIMIT, RDT_EINVAL. */
RDT_API int rdt_connect(struct rdt_endpoint *ep, const struct rdt_addr *peer, uint64_t now_ns,
                        struct rdt_conn *out);

/*
 * Ends a connection.  With flush_ns > 0 first waits up to that long until the peer acknowledged
 * everything queued.  RDT_EV_RELEASED for what is queued and one RDT_EV_CLOSED follow; both sides
 * get one.  RDT_ECONN.
 */
RDT_API int rdt_close(struct rdt_endpoint *ep, struct rdt_conn conn, uint64_t flush_ns,
                      uint64_t now_ns);

/* Ends it now, telling the peer once.  RDT_EV_RELEASED (RDT_ABORTED) and RDT_EV_CLOSED follow. */
RDT_API int rdt_abort(struct rdt_endpoint *ep, struct rdt_conn conn, uint64_t now_ns);

/* The peer's address.  RDT_ECONN. */
RDT_API int rdt_peer(const struct rdt_endpoint *ep, struct rdt_conn conn, struct rdt_addr *out);

/* ---------- messages ---------- */

enum {
    RDT_HEAD_MAX = 64,
    RDT_CHANNELS = 16,
};
#define RDT_MESSAGE_MAX UINT32_MAX /* bytes, head and body together */

/* What a message carries; the wire tells the two apart, delivery treats them alike (budget 0). */
enum rdt_kind {
    RDT_DATA = 0,
    RDT_UPDATE = 2, /* model updates: weights and gradients */
};

/*
 * One message: head, then body.  The head is copied by rdt_send; the body is borrowed until the
 * RDT_EV_RELEASED with this `user` and must not change until then.  (An empty body is released
 * too.)  An ordered message is delivered after every earlier ordered one of its channel; an
 * unordered one as soon as it is whole.
 */
struct rdt_message {
    const void *head;
    size_t head_len; /* <= RDT_HEAD_MAX */
    const void *body;
    size_t body_len;
    uint16_t channel; /* < RDT_CHANNELS; lower channels are sent first */
    bool ordered;
    enum rdt_kind kind;
    uint64_t tag; /* the receiver finds its posted buffer by (channel, tag) */
    void *user;   /* comes back in RDT_EV_RELEASED */
};

/*
 * Queues a message.  Nothing is queued on failure: RDT_EAGAIN (messages_max or send_bytes_max
 * reached; exactly one RDT_EV_WRITABLE follows when there is room again), RDT_ECONN, RDT_EMSGSIZE,
 * RDT_EINVAL.  May be called before RDT_EV_CONNECTED.
 */
RDT_API int rdt_send(struct rdt_endpoint *ep, struct rdt_conn conn,
                     const struct rdt_message *message, uint64_t now_ns);

/* Where one message is to land.  The buffer is the core's until RDT_EV_MESSAGE, rdt_unpost or
 * RDT_EV_CLOSED. */
struct rdt_landing {
    void *buf;
    size_t cap; /* head and body of the message fit */
    uint64_t tag;
    uint16_t channel;
    void *user; /* comes back in RDT_EV_MESSAGE */
};

/*
 * Posts a buffer for the next message with this (channel, tag) that has none.  May come before the
 * message or after its RDT_EV_OFFER.  RDT_EEXIST, RDT_ELIMIT, RDT_ECONN, RDT_EINVAL; RDT_EMSGSIZE
 * when the message has been offered and is larger than cap (it stays offered). A message that turns
 * out larger than its posted buffer is offered instead; the post stays.
 */
RDT_API int rdt_post(struct rdt_endpoint *ep, struct rdt_conn conn,
                     const struct rdt_landing *landing, uint64_t now_ns);

/* Takes a post back.  RDT_EINVAL: not posted, or bytes are landing in it already. */
RDT_API int rdt_unpost(struct rdt_endpoint *ep, struct rdt_conn conn, uint16_t channel,
                       uint64_t tag);

/* Gives a pooled message (rdt_event.pooled) back.  Until then it holds the sender's credit. */
RDT_API void rdt_release(struct rdt_endpoint *ep, const void *bytes, uint64_t now_ns);

/* ---------- events ---------- */

enum rdt_event_kind {
    RDT_EV_CONNECTED, /* handshake done; `incoming` says who began */
    RDT_EV_MESSAGE,   /* a whole message */
    RDT_EV_OFFER,     /* a message larger than pool_message_max waits for a posted buffer */
    RDT_EV_RELEASED,  /* the body of a sent message is yours again, exactly once */
    RDT_EV_WRITABLE,  /* after RDT_EAGAIN: there is room again */
    RDT_EV_CLOSED, /* the last event of a connection; posted buffers are yours again.  The farewell
                      to the peer may still wait in rdt_next_train: pull it before rdt_free */
};

enum rdt_closed {
    RDT_CLOSED_LOCAL = 0,    /* rdt_close or rdt_abort here */
    RDT_CLOSED_PEER = 1,     /* the peer closed */
    RDT_CLOSED_DEAD = 2,     /* dead_ns without a valid packet */
    RDT_CLOSED_TIMEOUT = 3,  /* no answer to the handshake */
    RDT_CLOSED_PROTOCOL = 4, /* the peer broke the protocol */
    RDT_CLOSED_REFUSED = 5,  /* the peer does not accept connections, or has no room */
};

RDT_API const char *rdt_closed_name(enum rdt_closed reason);

struct rdt_event {
    enum rdt_event_kind kind;
    struct rdt_conn conn;
    struct rdt_addr peer; /* CONNECTED, CLOSED */
    bool incoming;        /* CONNECTED: the peer began */
    bool pooled;      /* MESSAGE: rdt_release(bytes) when done; else bytes is your posted buffer */
    uint16_t channel; /* MESSAGE, OFFER */
    enum rdt_kind type;     /* MESSAGE, OFFER */
    enum rdt_closed reason; /* CLOSED */
    int status;             /* RELEASED: RDT_OK (acknowledged) or RDT_ABORTED */
    uint64_t tag;           /* MESSAGE, OFFER */
    uint8_t *bytes;         /* MESSAGE: 64-byte aligned when pooled */
    size_t len;             /* MESSAGE, OFFER */
    void *user;             /* MESSAGE: of the landing; RELEASED: of the message */
};

/* Takes the oldest event.  Events wait for as long as you like; messages hold credit meanwhile. */
RDT_API bool rdt_next_event(struct rdt_endpoint *ep, struct rdt_event *out);

/* ---------- statistics ---------- */

struct rdt_stats {
    size_t size; /* set it to sizeof(struct rdt_stats) before the call */
    uint64_t datagrams_sent;
    uint64_t datagrams_received; /* valid ones */
    uint64_t bytes_sent;         /* UDP payload */
    uint64_t bytes_received;
    uint64_t payload_sent;          /* message bytes, first copies */
    uint64_t payload_retransmitted; /* message bytes, later copies */
    uint64_t payload_received;      /* message bytes, new ones */
    uint64_t datagrams_retransmitted;
    uint64_t lost;      /* own packets declared lost */
    uint64_t spurious;  /* of those, acknowledged after all */
    uint64_t duplicate; /* packets received twice */
    uint64_t reordered; /* packets received after a later one */
    uint64_t corrupt;   /* HASH wrong */
    uint64_t malformed; /* too short, unknown type or bits, lengths that do not fit */
    uint64_t stray;     /* no connection, wrong state, outside the replay window */
    uint64_t pool_full; /* packets dropped because the pool had no room */
    uint64_t ptos;
    uint64_t messages_sent; /* acknowledged whole */
    uint64_t messages_received;
    uint64_t connections; /* open now (endpoint only) */
    uint64_t rtt_min_ns;  /* 0: none measured (connection only, as all below) */
    uint64_t rtt_smoothed_ns;
    uint64_t cwnd_bytes;
    uint64_t in_flight_bytes;
    uint64_t pacing_bps; /* bytes a second; 0: not paced */
    uint64_t datagram_bytes;
};

RDT_API void rdt_endpoint_stats(const struct rdt_endpoint *ep, struct rdt_stats *out);
RDT_API int rdt_conn_stats(const struct rdt_endpoint *ep, struct rdt_conn conn,
                           struct rdt_stats *out);

#ifdef __cplusplus
}
#endif
#endif
