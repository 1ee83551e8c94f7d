/* SPDX-License-Identifier: MIT */
/*
 * Everything that is peculiar to a UDP socket on Linux: the two address families, control data and
 * segmentation offload.  A dual-stack socket takes IPv6 control data for both families (the kernel
 * maps IPv4 addresses), except for the TOS byte, which belongs to the family of the packet.
 */
#include "socket.h"

#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

enum {
    ECN_MASK = 3,
    PIECES_MAX = 64, /* of one sendmmsg */
};

/* ---------- addresses ---------- */

static bool is_unknown(const struct rdt_addr *addr)
{
    static const uint8_t zero[16];

    return memcmp(addr->ip, zero, sizeof zero) == 0;
}

static bool is_link_local(const uint8_t ip[16])
{
    return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

/* A datagram sent to a group came to an address that no answer can come from. */
static bool is_group(const struct rdt_addr *addr)
{
    if (rdt_addr_is_v4(addr))
        return addr->ip[12] >= 224;
    return addr->ip[0] == 0xff;
}

struct rdt_addr udp_addr_of_name(const union udp_name *name)
{
    struct rdt_addr addr = {.port = 0};

    if (name->any.sa_family == AF_INET) {
        uint8_t v4[4];

        memcpy(v4, &name->v4.sin_addr, sizeof v4);
        return rdt_addr_v4(v4[0], v4[1], v4[2], v4[3], ntohs(name->v4.sin_port));
    }
    if (name->any.sa_family == AF_INET6) {
        memcpy(addr.ip, &name->v6.sin6_addr, sizeof addr.ip);
        addr.scope_id = name->v6.sin6_scope_id;
        addr.port = ntohs(name->v6.sin6_port);
    }
    return addr;
}

socklen_t udp_name_of_addr(union udp_name *name, const struct rdt_addr *addr, bool dual)
{
    memset(name, 0, sizeof *name);
    if (dual) {
        name->v6.sin6_family = AF_INET6;
        name->v6.sin6_port = htons(addr->port);
        name->v6.sin6_scope_id = addr->scope_id;
        memcpy(&name->v6.sin6_addr, addr->ip, sizeof addr->ip);
        return sizeof name->v6;
    }
    name->v4.sin_family = AF_INET;
    name->v4.sin_port = htons(addr->port);
    memcpy(&name->v4.sin_addr, addr->ip + 12, 4);
    return sizeof name->v4;
}

/* ---------- open ---------- */

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

/* More than the system's limit where we may, the limit where we may not. */
static void ask_for_room(int fd, int forced, int plain, uint32_t bytes)
{
    int value = bytes > INT32_MAX / 2 ? INT32_MAX / 2 : (int)bytes;

    if (set_option(fd, SOL_SOCKET, forced, value) < 0)
        set_option(fd, SOL_SOCKET, plain, value);
}

/* Only what an answer cannot do without is an error: an old kernel may lack the rest. */
static int set_options(struct udp_socket *s, const struct udp_socket_config *config)
{
    int granted = 0;
    socklen_t len = sizeof granted;

    if (s->dual) {
        if (set_option(s->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) < 0)
            return RDT_ESYS;
        set_option(s->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        set_option(s->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DONT);
    } else if (set_option(s->fd, IPPROTO_IP, IP_PKTINFO, 1) < 0) {
        return RDT_ESYS;
    }
    set_option(s->fd, IPPROTO_IP, IP_RECVTOS, 1);
    /* Until the path MTU is probed for, a route narrower than the datagrams must fragment. */
    set_option(s->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    ask_for_room(s->fd, SO_RCVBUFFORCE, SO_RCVBUF, config->socket_bytes);
    ask_for_room(s->fd, SO_SNDBUFFORCE, SO_SNDBUF, config->socket_bytes);
    if (getsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &granted, &len) == 0)
        s->receive_bytes = (uint64_t)granted / 2; /* the kernel doubles it for its own needs */
    s->gro = config->gro && set_option(s->fd, SOL_UDP, UDP_GRO, 1) == 0;
    /* Setting "no segments" changes nothing and fails where the kernel knows no segments. */
    s->gso = config->gso && set_option(s->fd, SOL_UDP, UDP_SEGMENT, 0) == 0;
    return 0;
}

static int bind_to(struct udp_socket *s, const struct rdt_addr *addr)
{
    union udp_name name;
    socklen_t len = udp_name_of_addr(&name, addr, s->dual);

    if (bind(s->fd, &name.any, len) < 0)
        return RDT_ESYS;
    len = sizeof name;
    if (getsockname(s->fd, &name.any, &len) < 0)
        return RDT_ESYS;
    s->local = udp_addr_of_name(&name);
    return 0;
}

/* The family: both if there is IPv6, else IPv4 if the address wanted allows it. */
static int create(struct udp_socket *s, const struct rdt_addr *bind_addr)
{
    const int type = SOCK_DGRAM | SOCK_CLOEXEC;

    s->dual = true;
    s->fd = socket(AF_INET6, type, 0);
    if (s->fd >= 0) {
        if (set_option(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) == 0)
            return 0;
        close(s->fd);
    }
    if (!is_unknown(bind_addr) && !rdt_addr_is_v4(bind_addr))
        return RDT_ESYS;
    s->dual = false;
    s->fd = socket(AF_INET, type, 0);
    return s->fd < 0 ? RDT_ESYS : 0;
}

/* IPv6 may be compiled in and yet switched off: then binding to it fails. */
static bool can_retry_as_v4(const struct udp_socket *s, const struct rdt_addr *addr)
{
    return s->dual && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) &&
           (is_unknown(addr) || rdt_addr_is_v4(addr));
}

int udp_open(struct udp_socket *s, const struct udp_socket_config *config)
{
    int err;
    int saved;

    memset(s, 0, sizeof *s);
    err = create(s, &config->bind);
    if (err)
        return err;
    err = bind_to(s, &config->bind);
    if (err && can_retry_as_v4(s, &config->bind)) {
        close(s->fd);
        s->dual = false;
        s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (s->fd < 0)
            return RDT_ESYS;
        err = bind_to(s, &config->bind);
    }
    if (!err)
        err = set_options(s, config);
    if (!err)
        return 0;
    saved = errno;
    udp_close(s);
    errno = saved;
    return err;
}

void udp_close(struct udp_socket *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* ---------- send ---------- */

/* A writer of control messages into the fixed room of a udp_send. */
static void add_control(struct msghdr *header, int level, int type, const void *data, size_t len)
{
    struct cmsghdr *c =
        (struct cmsghdr *)(void *)((uint8_t *)header->msg_control + header->msg_controllen);

    assert(header->msg_controllen + CMSG_SPACE(len) <= UDP_CONTROL_MAX);
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    header->msg_controllen += CMSG_SPACE(len);
}

static void add_source(struct msghdr *header, const struct rdt_addr *local, bool dual)
{
    if (dual) {
        struct in6_pktinfo info = {.ipi6_ifindex = 0};

        memcpy(&info.ipi6_addr, local->ip, sizeof local->ip);
        if (is_link_local(local->ip))
            info.ipi6_ifindex = local->scope_id;
        add_control(header, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    } else {
        struct in_pktinfo info = {.ipi_ifindex = 0};

        memcpy(&info.ipi_spec_dst, local->ip + 12, 4);
        add_control(header, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    }
}

void udp_send_init(struct udp_send *send, const struct udp_socket *s, const struct rdt_train *train,
                   void *bytes)
{
    struct msghdr *h = &send->header;

    memset(h, 0, sizeof *h);
    memset(send->control, 0, sizeof send->control);
    send->bytes = (struct iovec){.iov_base = bytes, .iov_len = train->len};
    h->msg_name = &send->to;
    h->msg_namelen = udp_name_of_addr(&send->to, &train->to, s->dual);
    h->msg_iov = &send->bytes;
    h->msg_iovlen = 1;
    h->msg_control = send->control;
    if (!is_unknown(&train->local))
        add_source(h, &train->local, s->dual);
    if (train->ecn & ECN_MASK) {
        int tos = train->ecn & ECN_MASK;

        if (rdt_addr_is_v4(&train->to))
            add_control(h, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
        else
            add_control(h, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof tos);
    }
    /* Last, so that udp_send_pieces can cut it off. */
    if (train->len > train->segment_len && s->gso) {
        uint16_t segment = (uint16_t)train->segment_len;

        add_control(h, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
    }
    if (h->msg_controllen == 0)
        h->msg_control = NULL;
}

/* Drops the UDP_SEGMENT that udp_send_init put last. */
static void without_segments(struct msghdr *header)
{
    const size_t space = CMSG_SPACE(sizeof(uint16_t));
    const struct cmsghdr *last;

    if (header->msg_controllen < space)
        return;
    last = (const struct cmsghdr *)(const void *)((const uint8_t *)header->msg_control +
                                                  header->msg_controllen - space);
    if (last->cmsg_level != SOL_UDP || last->cmsg_type != UDP_SEGMENT ||
        last->cmsg_len != CMSG_LEN(sizeof(uint16_t)))
        return;
    header->msg_controllen -= space;
    if (header->msg_controllen == 0)
        header->msg_control = NULL;
}

size_t udp_send_pieces(struct udp_send *send, const struct udp_socket *s, size_t segment_len)
{
    struct mmsghdr batch[PIECES_MAX];
    struct iovec piece[PIECES_MAX];
    uint8_t *at = send->bytes.iov_base;
    size_t left = send->bytes.iov_len;
    size_t sent = 0;

    assert(segment_len > 0);
    without_segments(&send->header);
    while (left > 0) {
        unsigned count = 0;
        int taken;

        for (; count < PIECES_MAX && left > 0; count++) {
            piece[count].iov_base = at;
            piece[count].iov_len = left < segment_len ? left : segment_len;
            batch[count].msg_hdr = send->header;
            batch[count].msg_hdr.msg_iov = &piece[count];
            at += piece[count].iov_len;
            left -= piece[count].iov_len;
        }
        taken = sendmmsg(s->fd, batch, count, MSG_DONTWAIT);
        if (taken > 0)
            sent += (size_t)taken;
        if (taken < (int)count)
            break;
    }
    return sent;
}

/* ---------- receive ---------- */

static void read_v6(struct udp_received *out, const struct cmsghdr *c)
{
    if (c->cmsg_type == IPV6_PKTINFO && c->cmsg_len >= CMSG_LEN(sizeof(struct in6_pktinfo))) {
        struct in6_pktinfo info;

        memcpy(&info, CMSG_DATA(c), sizeof info);
        memcpy(out->local.ip, &info.ipi6_addr, sizeof out->local.ip);
        if (is_link_local(out->local.ip))
            out->local.scope_id = (uint32_t)info.ipi6_ifindex;
    } else if (c->cmsg_type == IPV6_TCLASS && c->cmsg_len >= CMSG_LEN(sizeof(int))) {
        int value;

        memcpy(&value, CMSG_DATA(c), sizeof value);
        out->ecn = (uint8_t)(value & ECN_MASK);
    }
}

static void read_v4(struct udp_received *out, const struct cmsghdr *c)
{
    if (c->cmsg_type == IP_PKTINFO && c->cmsg_len >= CMSG_LEN(sizeof(struct in_pktinfo))) {
        struct in_pktinfo info;
        uint8_t ip[4];

        memcpy(&info, CMSG_DATA(c), sizeof info);
        memcpy(ip, &info.ipi_addr, sizeof ip);
        out->local = rdt_addr_v4(ip[0], ip[1], ip[2], ip[3], 0);
    } else if (c->cmsg_type == IP_TOS && c->cmsg_len >= CMSG_LEN(1)) {
        out->ecn = *CMSG_DATA(c) & ECN_MASK;
    }
}

void udp_read_control(struct udp_received *out, const struct udp_socket *s, struct msghdr *message)
{
    memset(out, 0, sizeof *out);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == IPPROTO_IPV6) {
            read_v6(out, c);
        } else if (c->cmsg_level == IPPROTO_IP) {
            read_v4(out, c);
        } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO &&
                   c->cmsg_len >= CMSG_LEN(sizeof(int))) {
            int segment;

            memcpy(&segment, CMSG_DATA(c), sizeof segment);
            out->segment_len = segment > 0 ? (size_t)segment : 0;
        }
    }
    if (is_group(&out->local))
        memset(&out->local, 0, sizeof out->local);
    if (!is_unknown(&out->local))
        out->local.port = s->local.port;
}
