/* SPDX-License-Identifier: MIT */
#ifndef RDT_URING_SOCKET_H
#define RDT_URING_SOCKET_H

/*
 * One UDP socket that speaks IPv6 and IPv4 (IPv4 alone where the kernel has no IPv6), and the
 * translation between rdt's addresses and trains and what sendmsg and recvmsg want.
 */

#include <netinet/in.h>
#include <rdt/rdt.h>
#include <stdalign.h>
#include <sys/socket.h>

enum {
    UDP_PAYLOAD_MAX = 65507, /* of IPv4; IPv6 could carry 20 bytes more */
    UDP_CONTROL_MAX = 128,   /* PKTINFO, TOS and GRO together overflow 64 */
    UDP_SEGMENTS_SAFE = 64,  /* what every kernel with UDP_SEGMENT accepts in one call */
};

union udp_name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct udp_socket_config {
    struct rdt_addr bind;
    uint32_t socket_bytes; /* asked for in SO_RCVBUF and SO_SNDBUF */
    bool gro;
    bool gso;
};

struct udp_socket {
    int fd;
    bool dual; /* AF_INET6, IPv4 by mapped addresses */
    bool gro;
    bool gso; /* cleared when a device turns out not to do it */
    uint64_t receive_bytes;
    struct rdt_addr local;
};

/* Arguments of one sendmsg.  Must stay where it is until the send is complete. */
struct udp_send {
    struct msghdr header;
    struct iovec bytes;
    union udp_name to;
    alignas(struct cmsghdr) uint8_t control[UDP_CONTROL_MAX];
};

/* What the control data of a received train says. */
struct udp_received {
    struct rdt_addr local; /* all zero: unknown */
    size_t segment_len;    /* 0: one datagram */
    uint8_t ecn;
};

/* RDT_ESYS with errno. */
int udp_open(struct udp_socket *s, const struct udp_socket_config *config);
void udp_close(struct udp_socket *s);

/* Fills in everything but the bytes' lifetime: they are borrowed until the send is complete. */
void udp_send_init(struct udp_send *send, const struct udp_socket *s, const struct rdt_train *train,
                   void *bytes);

/*
 * Sends the train of an initialised `send` at once, one datagram a segment, without UDP_SEGMENT.
 * Returns how many datagrams the kernel took; errno tells about the first that it did not.
 */
size_t udp_send_pieces(struct udp_send *send, const struct udp_socket *s, size_t segment_len);

/* An all-zero address when the kernel's form is neither IPv4 nor IPv6. */
struct rdt_addr udp_addr_of_name(const union udp_name *name);
socklen_t udp_name_of_addr(union udp_name *name, const struct rdt_addr *addr, bool dual);

/* Reads the control data of a received message. */
void udp_read_control(struct udp_received *out, const struct udp_socket *s, struct msghdr *message);

#endif
