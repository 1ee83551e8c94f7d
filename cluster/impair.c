/* SPDX-License-Identifier: MIT */
#include <cluster/impair.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 2, IN = 0, OUT = 1, TRAIN_SEGMENTS_MAX = 44 };

struct peer {
    struct rdt_addr addr;
    struct rdt_link *links[WAYS];
    uint64_t heard_ns;
    bool held; /* `next` was taken out of the OUT link and did not fit the last train */
    struct rdt_arrival next;
};

struct impair {
    struct rdt_link_config config;
    uint64_t ordinal; /* of the next new peer */
    size_t count;
    struct peer peers[IMPAIR_PEERS_MAX];
};

/* splitmix64's finish: seeds that differ in one bit make unrelated streams. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void close_links(struct peer *peer)
{
    for (int way = 0; way < WAYS; way++) {
        rdt_link_free(peer->links[way]);
        peer->links[way] = NULL;
    }
    peer->held = false;
}

static int open_links(struct impair *impair, struct peer *peer)
{
    uint64_t ordinal = impair->ordinal++;
    int err = 0;

    for (unsigned way = 0; way < WAYS && err == 0; way++) {
        struct rdt_link_config config = impair->config;

        config.seed = mix(config.seed + mix(2 * ordinal + way + 1));
        err = rdt_link_open(&peer->links[way], &config, 0);
    }
    if (err)
        close_links(peer);
    return err;
}

int impair_open(struct impair **out, const struct rdt_link_config *config)
{
    struct impair *impair = calloc(1, sizeof *impair);
    struct rdt_link *probe;
    int err;

    if (!impair)
        return RDT_ENOMEM;
    err = rdt_link_open(&probe, config, 0);
    if (err) {
        free(impair);
        return err;
    }
    rdt_link_free(probe);
    impair->config = *config;
    *out = impair;
    return 0;
}

void impair_free(struct impair *impair)
{
    if (!impair)
        return;
    for (size_t i = 0; i < impair->count; i++)
        close_links(&impair->peers[i]);
    free(impair);
}

/* The peer of an address, new or known; NULL: no memory for its links. */
static struct peer *find_peer(struct impair *impair, const struct rdt_addr *addr, uint64_t now_ns)
{
    struct peer *peer = NULL;

    for (size_t i = 0; i < impair->count; i++) {
        struct peer *known = &impair->peers[i];

        if (rdt_addr_equal(&known->addr, addr) && known->links[IN]) {
            known->heard_ns = now_ns;
            return known;
        }
        if (!peer || known->heard_ns < peer->heard_ns)
            peer = known;
    }
    if (impair->count < IMPAIR_PEERS_MAX)
        peer = &impair->peers[impair->count++];
    close_links(peer);
    peer->addr = *addr;
    peer->heard_ns = now_ns;
    return open_links(impair, peer) == 0 ? peer : NULL;
}

void impair_in(struct impair *impair, const struct rdt_arrival *arrival, uint64_t now_ns)
{
    struct peer *peer = find_peer(impair, &arrival->from, now_ns);

    if (peer)
        rdt_link_put(peer->links[IN], arrival, now_ns);
}

bool impair_next_in(struct impair *impair, uint64_t now_ns, struct rdt_arrival *out)
{
    for (size_t i = 0; i < impair->count; i++) {
        struct peer *peer = &impair->peers[i];

        if (peer->links[IN] && rdt_link_next(peer->links[IN], now_ns, out))
            return true;
    }
    return false;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): an arrival's bytes are not const */
void impair_out(struct impair *impair, const struct rdt_train *train, uint8_t *bytes,
                uint64_t now_ns)
{
    struct peer *peer = find_peer(impair, &train->to, now_ns);

    for (size_t at = 0; peer && at < train->len; at += train->segment_len) {
        size_t left = train->len - at;
        struct rdt_arrival datagram = {
            .from = train->to, /* the link carries addresses through; this is the way out */
            .local = train->local,
            .bytes = bytes + at,
            .len = left < train->segment_len ? left : train->segment_len,
            .ecn = train->ecn,
        };

        rdt_link_put(peer->links[OUT], &datagram, now_ns);
    }
}

/* Appends the datagram to the train if a train may be so: equal segments, the last may be shorter.
 */
static bool append(struct rdt_train *train, uint8_t *buf, size_t cap,
                   const struct rdt_arrival *next)
{
    if (train->len == 0) {
        *train = (struct rdt_train){
            .to = next->from, .local = next->local, .segment_len = next->len, .ecn = next->ecn};
    } else if (train->len % train->segment_len != 0 || next->len > train->segment_len ||
               next->ecn != train->ecn || !rdt_addr_equal(&train->local, &next->local) ||
               train->len / train->segment_len >= TRAIN_SEGMENTS_MAX) {
        return false;
    }
    if (next->len > cap - train->len)
        return false;
    memcpy(buf + train->len, next->bytes, next->len);
    train->len += next->len;
    return true;
}

static bool fill_train(struct peer *peer, uint64_t now_ns, uint8_t *buf, size_t cap,
                       struct rdt_train *out)
{
    struct rdt_train train = {.len = 0};

    while (peer->held || rdt_link_next(peer->links[OUT], now_ns, &peer->next)) {
        peer->held = false;
        if (peer->next.len == 0 || peer->next.len > cap)
            continue;
        if (!append(&train, buf, cap, &peer->next)) {
            peer->held = true; /* its bytes stay until the next call on the link */
            break;
        }
    }
    if (train.len == 0)
        return false;
    *out = train;
    return true;
}

bool impair_next_train(struct impair *impair, uint64_t now_ns, void *buf, size_t cap,
                       struct rdt_train *out)
{
    for (size_t i = 0; i < impair->count; i++) {
        struct peer *peer = &impair->peers[i];

        if (peer->links[OUT] && fill_train(peer, now_ns, buf, cap, out))
            return true;
    }
    return false;
}

uint64_t impair_deadline(const struct impair *impair)
{
    uint64_t deadline = UINT64_MAX;

    for (size_t i = 0; i < impair->count; i++) {
        const struct peer *peer = &impair->peers[i];

        if (peer->held)
            return 0;
        for (int way = 0; way < WAYS && peer->links[way]; way++) {
            uint64_t at = rdt_link_deadline(peer->links[way]);

            deadline = at < deadline ? at : deadline;
        }
    }
    return deadline;
}
