/* SPDX-License-Identifier: MIT */

/*
 * A program of somebody else's: it knows only what rdt installs.  Two endpoints in one process hand
 * each other their datagrams; a message goes across.
 */

#include <rdt/link.h>
#include <rdt/rdt.h>
#ifdef WITH_URING
#include <rdt/uring.h>
#endif

#include <stdio.h>
#include <string.h>

static struct rdt_endpoint *open_endpoint(bool listen, uint8_t entropy)
{
    struct rdt_config config = {.size = sizeof config, .listen = listen};
    struct rdt_endpoint *ep = NULL;

    memset(config.entropy, entropy, sizeof config.entropy);
    if (rdt_open(&ep, &config) != RDT_OK)
        return NULL;
    return ep;
}

/* Carries everything one endpoint has to send to the other. */
static void carry(struct rdt_endpoint *from, struct rdt_endpoint *to, uint16_t port, uint64_t now)
{
    static uint8_t buf[65536];
    struct rdt_train train;

    while (rdt_next_train(from, now, buf, sizeof buf, &train)) {
        for (size_t at = 0; at < train.len; at += train.segment_len) {
            struct rdt_arrival arrival = {.from = rdt_addr_v4(127, 0, 0, 1, port)};

            arrival.bytes = buf + at;
            arrival.len = train.len - at < train.segment_len ? train.len - at : train.segment_len;
            rdt_input(to, &arrival, now);
        }
    }
}

static bool took_message(struct rdt_endpoint *ep, const char *expected, uint64_t now)
{
    struct rdt_event event;
    bool right = false;

    while (rdt_next_event(ep, &event)) {
        if (event.kind != RDT_EV_MESSAGE)
            continue;
        right = event.len == strlen(expected) && memcmp(event.bytes, expected, event.len) == 0;
        rdt_release(ep, event.bytes, now);
    }
    return right;
}

int main(void)
{
    static const char text[] = "built by a foreign project";
    const struct rdt_message message = {.body = text, .body_len = strlen(text)};
    const struct rdt_addr peer = rdt_addr_v4(127, 0, 0, 1, 2);
    struct rdt_endpoint *client = open_endpoint(false, 1);
    struct rdt_endpoint *server = open_endpoint(true, 2);
    struct rdt_conn conn;
    bool done = false;

    if (!client || !server || rdt_connect(client, &peer, 1, &conn) != RDT_OK ||
        rdt_send(client, conn, &message, 1) != RDT_OK)
        return 1;
#ifdef WITH_URING
    if (rdt_uring_route_datagram(&peer) == 0)
        return 1;
#endif
    for (uint64_t now = 1; now < 2000000000 && !done; now += 1000000) {
        rdt_on_timeout(client, now);
        rdt_on_timeout(server, now);
        carry(client, server, 1, now);
        carry(server, client, 2, now);
        done = took_message(server, text, now);
    }
    rdt_free(client);
    rdt_free(server);
    puts(done ? text : "no message came");
    return done ? 0 : 1;
}
