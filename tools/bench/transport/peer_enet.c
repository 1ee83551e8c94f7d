/* SPDX-License-Identifier: MIT */
/*
 * ENet: one peer, one channel, reliable packets, socket buffers as large as ours.  Its MTU is set
 * as high as the route and the library allow (4096); --chunk 60000 suits it best on loopback.
 */
#include "args.h"

#include <enet/enet.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNK_DEFAULT = 60000, SOCKET_BYTES = 4 << 20, PENDING_MAX = 64 };

static uint32_t pending;

static void on_free(ENetPacket *packet)
{
    (void)packet;
    pending--;
}

static void fail(const char *what)
{
    fprintf(stderr, "peer_enet: %s\n", what);
    exit(1);
}

static ENetAddress address_of(const struct args *a)
{
    ENetAddress address = {.port = a->port};

    if (enet_address_set_host(&address, a->ip))
        fail("bad address");
    return address;
}

static ENetHost *open_host(const struct args *a, bool server)
{
    ENetAddress address = address_of(a);
    ENetHost *host;

    if (enet_initialize())
        fail("enet_initialize");
    host = enet_host_create(server ? &address : NULL, 1, 1, 0, 0);
    if (!host)
        fail("enet_host_create");
    host->mtu = a->mss && a->mss < ENET_PROTOCOL_MAXIMUM_MTU ? a->mss : ENET_PROTOCOL_MAXIMUM_MTU;
    host->peers[0].mtu = (enet_uint32)host->mtu; /* copied when the host was created */
    enet_socket_set_option(host->socket, ENET_SOCKOPT_RCVBUF, SOCKET_BYTES);
    enet_socket_set_option(host->socket, ENET_SOCKOPT_SNDBUF, SOCKET_BYTES);
    return host;
}

static ENetPeer *connect_to(const struct args *a, ENetHost *host)
{
    ENetAddress address = address_of(a);
    ENetPeer *peer = enet_host_connect(host, &address, 1, 0);
    ENetEvent event;

    if (!peer || enet_host_service(host, &event, 5000) <= 0 ||
        event.type != ENET_EVENT_TYPE_CONNECT)
        fail("cannot connect");
    enet_peer_timeout(peer, 64, 20000, 60000);
    return peer;
}

static void receive(const struct args *a)
{
    ENetHost *host = open_host(a, true);
    ENetEvent event;
    double first = 0;
    double last = 0;
    uint64_t got = 0;

    while (enet_host_service(host, &event, (enet_uint32)(a->secs * 1000)) > 0 &&
           event.type != ENET_EVENT_TYPE_DISCONNECT) {
        if (event.type != ENET_EVENT_TYPE_RECEIVE)
            continue;
        last = clock_seconds();
        if (got == 0)
            first = last;
        got += event.packet->dataLength;
        enet_packet_destroy(event.packet);
        if (got >= a->bytes || last - first > a->secs)
            break;
    }
    report_receive(got, last - first);
    enet_host_flush(host);
}

static void send_all(const struct args *a)
{
    const size_t chunk = a->chunk ? a->chunk : CHUNK_DEFAULT;
    ENetHost *host = open_host(a, false);
    ENetPeer *peer = connect_to(a, host);
    uint8_t *body = calloc(1, chunk);
    uint64_t left = a->bytes;
    ENetEvent event;

    if (!body)
        fail("no memory");
    while (left > 0 || pending > 0) {
        while (left > 0 && pending < PENDING_MAX) {
            const size_t n = left < chunk ? (size_t)left : chunk;
            ENetPacket *packet = enet_packet_create(body, n, ENET_PACKET_FLAG_RELIABLE);

            packet->freeCallback = on_free;
            pending++;
            if (enet_peer_send(peer, 0, packet))
                fail("enet_peer_send");
            left -= n;
        }
        if (enet_host_service(host, &event, 1) > 0 && event.type == ENET_EVENT_TYPE_DISCONNECT)
            break;
    }
    enet_peer_disconnect_now(peer, 0);
    free(body);
}

static void answer(ENetHost *host, ENetPeer *peer, const void *bytes, size_t len)
{
    enet_peer_send(peer, 0, enet_packet_create(bytes, len, ENET_PACKET_FLAG_RELIABLE));
    enet_host_flush(host);
}

static void pong(const struct args *a)
{
    ENetHost *host = open_host(a, true);
    ENetEvent event;

    for (;;) {
        if (enet_host_service(host, &event, 1000) <= 0 || event.type != ENET_EVENT_TYPE_RECEIVE)
            continue;
        answer(host, event.peer, event.packet->data, event.packet->dataLength);
        enet_packet_destroy(event.packet);
    }
}

static void ping(const struct args *a)
{
    ENetHost *host = open_host(a, false);
    ENetPeer *peer = connect_to(a, host);
    uint8_t *body = calloc(1, a->size);
    double *samples = calloc(a->count, sizeof *samples);
    const double start = clock_seconds();
    size_t count = 0;
    ENetEvent event;

    if (!body || !samples)
        fail("no memory");
    while (count < a->count && clock_seconds() - start < a->secs) {
        const double sent = clock_seconds();
        int got;

        answer(host, peer, body, a->size);
        do
            got = enet_host_service(host, &event, 1000);
        while ((got <= 0 || event.type != ENET_EVENT_TYPE_RECEIVE) && clock_seconds() - sent < 10);
        if (got <= 0)
            break;
        samples[count++] = (clock_seconds() - sent) * 1e6;
        enet_packet_destroy(event.packet);
    }
    report_ping(samples, count);
    free(samples);
    free(body);
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
