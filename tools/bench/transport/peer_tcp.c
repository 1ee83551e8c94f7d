/* SPDX-License-Identifier: MIT */
/* Kernel TCP.  --mode names the congestion control (cubic), whatever the system's default is. */
#include "args.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { CALL_BYTES = 262144 };

static uint8_t bytes[CALL_BYTES];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int open_socket(const struct args *a, struct sockaddr_in *name)
{
    const char *control = *a->mode ? a->mode : "cubic";
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int mss = (int)a->mss;
    int on = 1;

    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(a->port)};
    if (fd < 0 || inet_pton(AF_INET, a->ip, &name->sin_addr) != 1)
        fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (mss && setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss) < 0)
        fail("TCP_MAXSEG");
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) < 0)
        fail(control);
    return fd;
}

static int accept_one(const struct args *a)
{
    struct sockaddr_in name;
    int listener = open_socket(a, &name);
    int on = 1;
    int fd;

    if (bind(listener, (struct sockaddr *)&name, sizeof name) < 0 || listen(listener, 1) < 0)
        fail(a->ip);
    fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int connect_one(const struct args *a)
{
    struct sockaddr_in name;
    int fd = open_socket(a, &name);

    if (connect(fd, (struct sockaddr *)&name, sizeof name) < 0)
        fail(a->ip);
    return fd;
}

static void receive(const struct args *a)
{
    int fd = accept_one(a);
    struct timeval limit = {.tv_sec = (time_t)a->secs + 1};
    double first = 0;
    double last = 0;
    uint64_t got = 0;
    ssize_t n;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        last = clock_seconds();
        if (got == 0)
            first = last;
        got += (uint64_t)n;
        if (got >= a->bytes || last - first > a->secs)
            break;
    }
    report_receive(got, last - first);
}

static void send_all(const struct args *a)
{
    int fd = connect_one(a);
    const size_t chunk = a->chunk && a->chunk < CALL_BYTES ? a->chunk : CALL_BYTES;

    for (uint64_t left = a->bytes; left > 0;) {
        ssize_t n = send(fd, bytes, left < chunk ? left : chunk, MSG_NOSIGNAL);

        if (n <= 0)
            break;
        left -= (uint64_t)n;
    }
    shutdown(fd, SHUT_WR);
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        continue;
}

static void pong(const struct args *a)
{
    int fd = accept_one(a);
    ssize_t n;

    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
            break;
}

static void ping(const struct args *a)
{
    int fd = connect_one(a);
    double *samples = calloc(a->count, sizeof *samples);
    const double start = clock_seconds();
    size_t count = 0;

    if (!samples)
        fail("memory");
    while (count < a->count && clock_seconds() - start < a->secs) {
        const double sent = clock_seconds();

        if (send(fd, bytes, a->size, MSG_NOSIGNAL) < 0 ||
            recv(fd, bytes, a->size, MSG_WAITALL) != (ssize_t)a->size)
            break;
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
