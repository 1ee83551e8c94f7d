/* SPDX-License-Identifier: MIT */
/* What a program asks the system before it opens an endpoint: the route's MTU, and randomness. */
#include "socket.h"

#include <rdt/uring.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    IPV4_UDP_HEADERS = 28,
    IPV6_UDP_HEADERS = 48,
    DATAGRAM_DEFAULT = 1452, /* fits IPv6 over Ethernet */
    DATAGRAM_MIN = 548,      /* what every IPv4 host must take */
};

uint32_t rdt_uring_route_datagram(const struct rdt_addr *peer)
{
    const bool v4 = rdt_addr_is_v4(peer);
    const int headers = v4 ? IPV4_UDP_HEADERS : IPV6_UDP_HEADERS;
    union udp_name name;
    const socklen_t len = udp_name_of_addr(&name, peer, !v4);
    int mtu = 0;
    socklen_t mtu_len = sizeof mtu;
    int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return DATAGRAM_DEFAULT;
    /* Connecting a UDP socket looks the route up and sends nothing. */
    if (connect(fd, &name.any, len) < 0 ||
        getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &mtu_len) < 0)
        mtu = DATAGRAM_DEFAULT + headers;
    close(fd);
    if (mtu - headers < DATAGRAM_MIN)
        return DATAGRAM_MIN;
    return mtu - headers > UDP_PAYLOAD_MAX ? UDP_PAYLOAD_MAX : (uint32_t)(mtu - headers);
}

int rdt_uring_entropy(uint8_t entropy[32])
{
    /* Up to 256 bytes come whole or not at all. */
    return getrandom(entropy, 32, 0) == 32 ? 0 : RDT_ESYS;
}
