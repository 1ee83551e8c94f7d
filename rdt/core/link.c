/* SPDX-License-Identifier: MIT */

/*
 * The simulated link.
 *
 * DESIGN: a datagram's fate is drawn when it is put, always from the same number of draws, so it
 * depends on how many were put before and on nothing else; only the queue of a limited rate looks
 * at the time.  What survives waits in a heap ordered by (due, arrival).
 */

#include <rdt/link.h>

#include "prng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    IN_FLIGHT_DEFAULT = 65536,
    HEAP_FIRST = 64,
    IP_UDP_BYTES = 28,
    CORRUPT_BITS_MAX = 4,
};

static const uint64_t reorder_default_ns = 1000000;
static const uint64_t queue_default_least = 65536;

struct parcel {
    uint64_t due_ns;
    uint64_t order;
    struct rdt_arrival datagram; /* bytes: malloc'ed, ours */
};

/* What chance says about one datagram: every draw there is, whether it matters or not. */
struct fate {
    bool lost;
    bool held_back;
    bool twice;
    bool corrupt;
    uint64_t corrupt_seed;
    double jitter; /* 0..1 */
};

struct rdt_link {
    struct rdt_link_config config;
    struct rdt_link_stats stats;
    struct parcel *heap;
    size_t count;
    size_t cap;
    size_t in_flight_max;
    void *lent; /* bytes of the last rdt_link_next */
    uint64_t random;
    uint64_t orders;
    uint64_t free_ns;     /* when the rate has let everything through */
    uint64_t last_due_ns; /* nothing that is not held back overtakes this */
    bool in_burst;
};

/* ---------- chance ---------- */

static double draw(struct rdt_link *link)
{
    return (double)(prng_splitmix64(&link->random) >> 11) * 0x1p-53;
}

/* Gilbert's model: in a burst everything is lost; entering makes the long-run rate come out. */
static bool draw_loss(struct rdt_link *link)
{
    const struct rdt_link_config *c = &link->config;
    const double u = draw(link);
    double leave;

    if (c->burst <= 1 || c->loss >= 1) {
        link->in_burst = false;
        return u < c->loss;
    }
    leave = 1 / c->burst;
    if (link->in_burst)
        link->in_burst = u >= leave;
    else
        link->in_burst = u < c->loss * leave / (1 - c->loss);
    return link->in_burst;
}

static struct fate draw_fate(struct rdt_link *link)
{
    struct fate fate;

    fate.lost = draw_loss(link);
    fate.held_back = draw(link) < link->config.reorder;
    fate.twice = draw(link) < link->config.duplicate;
    fate.corrupt = draw(link) < link->config.corrupt;
    fate.corrupt_seed = prng_splitmix64(&link->random);
    fate.jitter = draw(link);
    return fate;
}

/* Flips one to four bits, all different. */
static void corrupt(uint8_t *bytes, size_t len, uint64_t seed)
{
    const uint64_t bits = (uint64_t)len * 8;
    uint64_t flipped[CORRUPT_BITS_MAX];
    uint64_t count = 1 + prng_splitmix64(&seed) % CORRUPT_BITS_MAX;

    if (count > bits)
        count = bits;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = prng_splitmix64(&seed) % bits;

        for (uint64_t j = 0; j < i; j++) {
            if (flipped[j] == bit) {
                bit = (bit + 1) % bits;
                j = UINT64_MAX; /* compare with all again */
            }
        }
        flipped[i] = bit;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* ---------- the heap ---------- */

static bool is_before(const struct parcel *a, const struct parcel *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static bool heap_reserve(struct rdt_link *link)
{
    const size_t cap = link->cap > 0 ? link->cap * 2 : HEAP_FIRST;
    struct parcel *heap;

    if (link->count < link->cap)
        return true;
    heap = realloc(link->heap, cap * sizeof *heap);
    if (!heap)
        return false;
    link->heap = heap;
    link->cap = cap;
    return true;
}

static void heap_push(struct rdt_link *link, const struct parcel *parcel)
{
    size_t at = link->count++;

    while (at > 0 && is_before(parcel, &link->heap[(at - 1) / 2])) {
        link->heap[at] = link->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    link->heap[at] = *parcel;
}

static struct parcel heap_pop(struct rdt_link *link)
{
    const struct parcel top = link->heap[0];
    const struct parcel last = link->heap[--link->count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= link->count)
            break;
        if (child + 1 < link->count && is_before(&link->heap[child + 1], &link->heap[child]))
            child++;
        if (!is_before(&link->heap[child], &last))
            break;
        link->heap[at] = link->heap[child];
        at = child;
    }
    if (link->count > 0)
        link->heap[at] = last;
    return top;
}

/* ---------- opening ---------- */

static bool is_share(double value)
{
    return value >= 0 && value <= 1; /* false for a NaN */
}

static bool is_valid(const struct rdt_link_config *c)
{
    return is_share(c->loss) && is_share(c->reorder) && is_share(c->duplicate) &&
           is_share(c->corrupt) && c->burst >= 0;
}

int rdt_link_open(struct rdt_link **out, const struct rdt_link_config *config,
                  uint32_t in_flight_max)
{
    struct rdt_link *link;

    assert(out);
    assert(config);
    if (!is_valid(config))
        return RDT_EINVAL;
    link = calloc(1, sizeof *link);
    if (!link)
        return RDT_ENOMEM;
    link->config = *config;
    link->random = config->seed;
    link->in_flight_max = in_flight_max > 0 ? in_flight_max : IN_FLIGHT_DEFAULT;
    *out = link;
    return RDT_OK;
}

void rdt_link_free(struct rdt_link *link)
{
    if (!link)
        return;
    for (size_t i = 0; i < link->count; i++)
        free(link->heap[i].datagram.bytes);
    free(link->heap);
    free(link->lent);
    free(link);
}

void rdt_link_set(struct rdt_link *link, const struct rdt_link_config *config)
{
    assert(is_valid(config));
    link->config = *config;
}

/* ---------- in ---------- */

/* Waits in the queue of a limited rate.  false: there is no room in it. */
static bool transmit(struct rdt_link *link, size_t len, uint64_t now_ns, uint64_t *out_ns)
{
    const struct rdt_link_config *c = &link->config;
    const uint64_t bytes = len + c->overhead_bytes;
    uint64_t queue = c->queue_bytes;

    *out_ns = now_ns;
    if (c->rate_bps == 0)
        return true;
    if (queue == 0) {
        queue = c->rate_bps / 80;
        if (queue < queue_default_least)
            queue = queue_default_least;
    }
    if (link->free_ns > now_ns) {
        const double waiting = (double)(link->free_ns - now_ns) * (double)c->rate_bps / 8e9;

        if (waiting + (double)bytes > (double)queue)
            return false;
        *out_ns = link->free_ns;
    }
    *out_ns += bytes * 8 * 1000000000u / c->rate_bps;
    link->free_ns = *out_ns;
    return true;
}

/* Copies a datagram into the heap.  false: no memory, or too much in flight. */
static bool store(struct rdt_link *link, const struct rdt_arrival *datagram, uint64_t due_ns,
                  const struct fate *fate)
{
    struct parcel parcel = {
        .due_ns = due_ns,
        .order = link->orders,
        .datagram = *datagram,
    };

    if (link->count >= link->in_flight_max || !heap_reserve(link))
        return false;
    parcel.datagram.bytes = malloc(datagram->len > 0 ? datagram->len : 1);
    if (!parcel.datagram.bytes)
        return false;
    if (datagram->len > 0)
        memcpy(parcel.datagram.bytes, datagram->bytes, datagram->len);
    if (fate->corrupt && datagram->len > 0)
        corrupt(parcel.datagram.bytes, datagram->len, fate->corrupt_seed);
    link->orders++;
    heap_push(link, &parcel);
    return true;
}

void rdt_link_put(struct rdt_link *link, const struct rdt_arrival *datagram, uint64_t now_ns)
{
    const struct rdt_link_config *c = &link->config;
    const struct fate fate = draw_fate(link);
    struct rdt_link_stats *stats = &link->stats;
    uint64_t due_ns;

    stats->put++;
    stats->bytes_put += datagram->len;
    if (c->mtu > 0 && datagram->len + IP_UDP_BYTES > c->mtu) {
        stats->too_big++;
        return;
    }
    if (fate.lost) {
        stats->lost++;
        return;
    }
    if (!transmit(link, datagram->len, now_ns, &due_ns)) {
        stats->queue_dropped++;
        return;
    }
    due_ns += c->delay_ns + (uint64_t)(fate.jitter * (double)c->jitter_ns);
    if (due_ns < link->last_due_ns)
        due_ns = link->last_due_ns;
    if (fate.held_back)
        due_ns += c->reorder_ns > 0 ? c->reorder_ns : reorder_default_ns;
    else
        link->last_due_ns = due_ns;
    if (!store(link, datagram, due_ns, &fate)) {
        stats->queue_dropped++;
        return;
    }
    stats->corrupted += fate.corrupt && datagram->len > 0;
    stats->reordered += fate.held_back;
    if (fate.twice && store(link, datagram, due_ns, &fate))
        stats->duplicated++;
}

/* ---------- out ---------- */

bool rdt_link_next(struct rdt_link *link, uint64_t now_ns, struct rdt_arrival *out)
{
    free(link->lent);
    link->lent = NULL;
    if (link->count == 0 || link->heap[0].due_ns > now_ns)
        return false;
    *out = heap_pop(link).datagram;
    link->lent = out->bytes;
    link->stats.delivered++;
    link->stats.bytes_delivered += out->len;
    return true;
}

uint64_t rdt_link_deadline(const struct rdt_link *link)
{
    return link->count > 0 ? link->heap[0].due_ns : UINT64_MAX;
}

void rdt_link_stats(const struct rdt_link *link, struct rdt_link_stats *out)
{
    const size_t size = out->size < sizeof link->stats ? out->size : sizeof link->stats;
    const size_t said = out->size;

    memcpy(out, &link->stats, size);
    out->size = said;
}
