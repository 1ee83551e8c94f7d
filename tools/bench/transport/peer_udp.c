/* SPDX-License-Identifier: MIT */
/*
 * Raw UDP, not reliable: the ceiling of anything that is built on it.  Plain blocking calls, bulk
 * with UDP_SEGMENT and UDP_GRO.  --mode spin: ping and pong do not sleep.
 */
#include "args.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { DATAGRAM_MAX = 65507, SEGMENTS_MAX = 64, SOCKET_BYTES = 4 << 20 };

static uint8_t bytes[65536];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void set(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof value) < 0)
        fail("setsockopt");
}

static int open_socket(const struct args *a, bool server)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0 || inet_pton(AF_INET, a->ip, &name.sin_addr) != 1)
        fail("socket");
    set(fd, SOL_SOCKET, SO_RCVBUF, SOCKET_BYTES);
    set(fd, SOL_SOCKET, SO_SNDBUF, SOCKET_BYTES);
    if (server ? bind(fd, (struct sockaddr *)&name, sizeof name)
               : connect(fd, (struct sockaddr *)&name, sizeof name))
        fail(a->ip);
    return fd;
}

static void receive_within(int fd, double secs)
{
    struct timeval t = {.tv_sec = (time_t)secs};

    t.tv_usec = (suseconds_t)((secs - (double)t.tv_sec) * 1e6);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) < 0)
        fail("SO_RCVTIMEO");
}

/* Until half a second after the last arrival: what was lost never comes. */
static void receive(const struct args *a)
{
    int fd = open_socket(a, true);
    double first = 0;
    double last = 0;
    uint64_t got = 0;
    ssize_t n;

    set(fd, SOL_UDP, UDP_GRO, 1);
    receive_within(fd, a->secs + 10);
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        last = clock_seconds();
        if (got == 0) {
            first = last;
            receive_within(fd, 0.5);
        }
        got += (uint64_t)n;
        if (got >= a->bytes || last - first > a->secs)
            break;
    }
    report_receive(got, last - first);
}

static void send_all(const struct args *a)
{
    const size_t mss = a->mss ? a->mss : DATAGRAM_MAX;
    size_t segments = DATAGRAM_MAX / mss;
    int fd = open_socket(a, false);
    const double start = clock_seconds();

    if (segments > SEGMENTS_MAX)
        segments = SEGMENTS_MAX;
    if (segments > 1)
        set(fd, SOL_UDP, UDP_SEGMENT, (int)mss);
    for (uint64_t sent = 0; sent < a->bytes && clock_seconds() - start < a->secs;) {
        ssize_t n = send(fd, bytes, segments * mss, 0);

        if (n > 0)
            sent += (uint64_t)n;
        else if (errno != ENOBUFS && errno != EAGAIN && errno != ECONNREFUSED)
            fail("send");
    }
}

static ssize_t take(int fd, struct sockaddr_in *from, bool spin)
{
    socklen_t len = sizeof *from;
    ssize_t n;

    do
        n = recvfrom(fd, bytes, sizeof bytes, spin ? MSG_DONTWAIT : 0, (struct sockaddr *)from,
                     &len);
    while (n < 0 && errno == EAGAIN && spin);
    return n;
}

static void pong(const struct args *a)
{
    int fd = open_socket(a, true);
    const bool spin = args_mode_has(a, "spin");
    struct sockaddr_in from;

    for (;;) {
        ssize_t n = take(fd, &from, spin);

        if (n >= 0 && sendto(fd, bytes, (size_t)n, 0, (struct sockaddr *)&from, sizeof from) < 0)
            fail("sendto");
    }
}

static void ping(const struct args *a)
{
    int fd = open_socket(a, false);
    const bool spin = args_mode_has(a, "spin");
    double *samples = calloc(a->count, sizeof *samples);
    const double start = clock_seconds();
    struct sockaddr_in from;
    size_t count = 0;

    if (!samples)
        fail("memory");
    receive_within(fd, 1);
    while (count < a->count && clock_seconds() - start < a->secs) {
        const double sent = clock_seconds();

        if (send(fd, bytes, a->size, 0) < 0 || take(fd, &from, spin) < 0)
            continue; /* lost: not a sample */
        samples[count++] = (clock_seconds() - sent) * 1e6;
    }
    report_ping(samples, count);
    free(samples);
}

int main(int argc, char **argv)
{
    const struct args a = args_parse(argc, argv);

    if (args_role_is(&a, "recv"))
        receive(&a);
    else if (args_role_is(&a, "send"))
        send_all(&a);
    else if (args_role_is(&a, "pong"))
        pong(&a);
    else
        ping(&a);
    return 0;
}
