/* SPDX-License-Identifier: MIT */
/*
 * What arrives, where it lands and when it is delivered; see inbox.h.
 */
#include "inbox.h"

#include <assert.h>
#include <string.h>

#define NIL UINT32_MAX

enum {
    LANE_WORDS = MESSAGE_WINDOW / 64,
};

static uint32_t buckets_for(uint32_t count)
{
    uint32_t buckets = 4;

    while (buckets < 2 * count)
        buckets *= 2;
    return buckets;
}

size_t inbox_bytes(const struct inbox_config *config)
{
    size_t per_message =
        sizeof(struct inmsg) + INBOX_EXTENTS * sizeof(struct extent) + sizeof(uint32_t);
    size_t per_post = sizeof(struct post) + sizeof(uint32_t);

    return MESSAGE_LANES * LANE_WORDS * sizeof(uint64_t) + config->incoming_max * per_message +
           config->posts_max * per_post +
           ((size_t)buckets_for(config->incoming_max) + buckets_for(config->posts_max)) *
               sizeof(uint32_t);
}

void inbox_init(struct inbox *inbox, void *memory, const struct inbox_config *config)
{
    uint64_t *words = memory;

    memset(inbox, 0, sizeof *inbox);
    inbox->config = *config;
    for (unsigned lane = 0; lane < MESSAGE_LANES; lane++, words += LANE_WORDS)
        inbox->lanes[lane].finished = words;
    inbox->messages = (struct inmsg *)(void *)words;
    inbox->posts = (struct post *)(void *)(inbox->messages + config->incoming_max);
    inbox->extents = (struct extent *)(void *)(inbox->posts + config->posts_max);
    inbox->free_messages =
        (uint32_t *)(void *)(inbox->extents + (size_t)INBOX_EXTENTS * config->incoming_max);
    inbox->free_posts = inbox->free_messages + config->incoming_max;
    inbox->message_buckets = inbox->free_posts + config->posts_max;
    inbox->message_mask = buckets_for(config->incoming_max) - 1;
    inbox->post_buckets = inbox->message_buckets + inbox->message_mask + 1;
    inbox->post_mask = buckets_for(config->posts_max) - 1;
    memset(inbox->message_buckets, 0xff, (inbox->message_mask + 1) * sizeof(uint32_t));
    memset(inbox->post_buckets, 0xff, (inbox->post_mask + 1) * sizeof(uint32_t));
    inbox->unposted = (struct inlist){NIL, NIL};
    inbox->grants = (struct inlist){NIL, NIL};
    inbox->messages_limit = config->incoming_max;
    credit_init(&inbox->credit, config->bank, config->credit_base);
}

/* ---------- slots, lists and tables ---------- */

static uint32_t take_message_slot(struct inbox *inbox)
{
    uint32_t slot;

    if (inbox->free_message_count > 0)
        return inbox->free_messages[--inbox->free_message_count];
    if (inbox->touched_messages == inbox->config.incoming_max)
        return NIL;
    slot = inbox->touched_messages++;
    inbox->messages[slot].state = INMSG_FREE;
    extents_init(&inbox->messages[slot].got, inbox->extents + (size_t)INBOX_EXTENTS * slot,
                 INBOX_EXTENTS);
    return slot;
}

static void free_message_slot(struct inbox *inbox, uint32_t slot)
{
    inbox->messages[slot].state = INMSG_FREE;
    inbox->free_messages[inbox->free_message_count++] = slot;
    inbox->messages_limit++;
}

static uint32_t *message_bucket(struct inbox *inbox, unsigned lane, uint32_t id)
{
    return &inbox->message_buckets[(id + lane * 0x9E3779B1u) & inbox->message_mask];
}

static uint32_t find_message(struct inbox *inbox, unsigned lane, uint32_t id)
{
    uint32_t slot = *message_bucket(inbox, lane, id);

    while (slot != NIL) {
        const struct inmsg *m = &inbox->messages[slot];

        if (m->id == id && message_lane(m->channel, m->ordered) == lane)
            break;
        slot = m->hash_next;
    }
    return slot;
}

static void hide_message(struct inbox *inbox, uint32_t slot)
{
    const struct inmsg *m = &inbox->messages[slot];
    uint32_t *at = message_bucket(inbox, message_lane(m->channel, m->ordered), m->id);

    while (*at != slot)
        at = &inbox->messages[*at].hash_next;
    *at = m->hash_next;
}

static void unposted_push(struct inbox *inbox, uint32_t slot)
{
    struct inmsg *m = &inbox->messages[slot];

    m->prev = inbox->unposted.tail;
    m->next = NIL;
    if (m->prev != NIL)
        inbox->messages[m->prev].next = slot;
    else
        inbox->unposted.head = slot;
    inbox->unposted.tail = slot;
}

static void unposted_unlink(struct inbox *inbox, uint32_t slot)
{
    const struct inmsg *m = &inbox->messages[slot];

    if (m->prev != NIL)
        inbox->messages[m->prev].next = m->next;
    else
        inbox->unposted.head = m->next;
    if (m->next != NIL)
        inbox->messages[m->next].prev = m->prev;
    else
        inbox->unposted.tail = m->prev;
}

static void grant_push(struct inbox *inbox, uint32_t slot)
{
    struct inmsg *m = &inbox->messages[slot];

    m->grant_prev = inbox->grants.tail;
    m->grant_next = NIL;
    if (m->grant_prev != NIL)
        inbox->messages[m->grant_prev].grant_next = slot;
    else
        inbox->grants.head = slot;
    inbox->grants.tail = slot;
    m->grant_listed = true;
    inbox->grant_count++;
}

static void grant_unlink(struct inbox *inbox, uint32_t slot)
{
    struct inmsg *m = &inbox->messages[slot];

    if (!m->grant_listed)
        return;
    if (m->grant_prev != NIL)
        inbox->messages[m->grant_prev].grant_next = m->grant_next;
    else
        inbox->grants.head = m->grant_next;
    if (m->grant_next != NIL)
        inbox->messages[m->grant_next].grant_prev = m->grant_prev;
    else
        inbox->grants.tail = m->grant_prev;
    m->grant_listed = false;
    inbox->grant_count--;
}

/* ---------- posts ---------- */

static uint32_t *post_bucket(struct inbox *inbox, unsigned channel, uint64_t tag)
{
    uint64_t mixed = (tag ^ channel) * 0x9E3779B97F4A7C15u;

    return &inbox->post_buckets[(uint32_t)(mixed >> 32) & inbox->post_mask];
}

/* Where the post is linked from; the link is NIL when there is none. */
static uint32_t *find_post(struct inbox *inbox, unsigned channel, uint64_t tag)
{
    uint32_t *at = post_bucket(inbox, channel, tag);

    while (*at != NIL) {
        const struct rdt_landing *landing = &inbox->posts[*at].landing;

        if (landing->channel == channel && landing->tag == tag)
            break;
        at = &inbox->posts[*at].hash_next;
    }
    return at;
}

static struct rdt_landing take_post(struct inbox *inbox, uint32_t *at)
{
    uint32_t slot = *at;

    *at = inbox->posts[slot].hash_next;
    inbox->free_posts[inbox->free_post_count++] = slot;
    return inbox->posts[slot].landing;
}

static uint64_t part_in_pool(const struct inbox *inbox, const struct inmsg *m)
{
    return m->len < inbox->config.message_max ? m->len : inbox->config.message_max;
}

/* A message lands in a posted buffer: all of it may come, and it holds no pool memory. */
static void land(struct inbox *inbox, uint32_t slot, const struct rdt_landing *landing)
{
    struct inmsg *m = &inbox->messages[slot];

    assert(landing->cap >= m->len);
    m->bytes = landing->buf;
    m->user = landing->user;
    m->pooled = false;
    credit_return(&inbox->credit, inbox->config.bank, m->cost);
    if (m->granted < m->len) {
        m->granted = m->len;
        grant_push(inbox, slot);
        inbox->grant_fresh = true;
    }
}

/* A message that has begun to arrive moves from the pool to a posted buffer. */
static void move(struct inbox *inbox, uint32_t slot, const struct rdt_landing *landing)
{
    struct inmsg *m = &inbox->messages[slot];
    uint8_t *from = m->bytes;

    for (uint32_t i = 0; i < m->got.count; i++) {
        const struct extent *part = &m->got.at[i];

        assert(landing->buf); /* bytes have come, so cap is not 0 */
        memcpy((uint8_t *)landing->buf + part->first, from + part->first, part->end - part->first);
    }
    unposted_unlink(inbox, slot);
    pool_give(inbox->config.pool, from);
    land(inbox, slot, landing);
}

int inbox_post(struct inbox *inbox, const struct rdt_landing *landing)
{
    uint32_t slot;

    if (landing->channel >= RDT_CHANNELS || (!landing->buf && landing->cap > 0))
        return RDT_EINVAL;
    if (*find_post(inbox, landing->channel, landing->tag) != NIL)
        return RDT_EEXIST;
    for (slot = inbox->unposted.head; slot != NIL; slot = inbox->messages[slot].next) {
        struct inmsg *m = &inbox->messages[slot];

        if (m->channel != landing->channel || m->tag != landing->tag)
            continue;
        if (m->len <= landing->cap) {
            move(inbox, slot, landing);
            return 0;
        }
        if (m->offered)
            return RDT_EMSGSIZE;
    }
    if (inbox->free_post_count > 0)
        slot = inbox->free_posts[--inbox->free_post_count];
    else if (inbox->touched_posts < inbox->config.posts_max)
        slot = inbox->touched_posts++;
    else
        return RDT_ELIMIT;
    inbox->posts[slot].landing = *landing;
    inbox->posts[slot].hash_next = *post_bucket(inbox, landing->channel, landing->tag);
    *post_bucket(inbox, landing->channel, landing->tag) = slot;
    return 0;
}

int inbox_unpost(struct inbox *inbox, uint16_t channel, uint64_t tag)
{
    uint32_t *at = find_post(inbox, channel, tag);

    if (*at == NIL)
        return RDT_EINVAL;
    take_post(inbox, at);
    return 0;
}

/* ---------- lanes ---------- */

static bool lane_bit(const struct inlane *lane, uint32_t id)
{
    return (lane->finished[id % MESSAGE_WINDOW / 64] >> (id % 64)) & 1;
}

static bool is_finished(const struct inlane *lane, uint32_t id)
{
    if ((int32_t)(id - lane->base) < 0)
        return true;
    return (int32_t)(id - lane->high) < 0 && lane_bit(lane, id);
}

static void deliver(struct inbox *inbox, uint32_t slot)
{
    hide_message(inbox, slot);
    inbox->messages[slot].state = INMSG_DELIVERED;
    events_push(inbox->config.events, (struct event_note){.kind = RDT_EV_MESSAGE,
                                                          .connection = inbox->config.connection,
                                                          .subject = slot});
}

/* Marks a message finished and delivers what can be. */
static void finish(struct inbox *inbox, uint32_t slot)
{
    struct inmsg *m = &inbox->messages[slot];
    const unsigned number = message_lane(m->channel, m->ordered);
    struct inlane *lane = &inbox->lanes[number];
    const bool ordered = m->ordered;

    m->state = INMSG_WHOLE;
    if (m->pooled)
        unposted_unlink(inbox, slot);
    grant_unlink(inbox, slot);
    inbox->messages_whole++;
    for (; (int32_t)(m->id - lane->high) >= 0; lane->high++)
        lane->finished[lane->high % MESSAGE_WINDOW / 64] &= ~(1ull << (lane->high % 64));
    lane->finished[m->id % MESSAGE_WINDOW / 64] |= 1ull << (m->id % 64);
    if (!ordered)
        deliver(inbox, slot);
    for (; lane->base != lane->high && lane_bit(lane, lane->base); lane->base++) {
        if (ordered)
            deliver(inbox, find_message(inbox, number, lane->base));
    }
}

/* ---------- chunks ---------- */

/* Room for the bytes of a new message; false: there is none. */
static bool find_room(struct inbox *inbox, uint32_t slot)
{
    struct inmsg *m = &inbox->messages[slot];
    struct pool_owner owner = {.connection = inbox->config.connection, .message = slot};
    uint32_t *at = find_post(inbox, m->channel, m->tag);

    m->cost = pool_cost(part_in_pool(inbox, m));
    if (m->cost > inbox->credit.limit - inbox->credit.begun)
        return false;
    m->granted = (uint32_t)part_in_pool(inbox, m);
    if (*at != NIL && inbox->posts[*at].landing.cap >= m->len) {
        struct rdt_landing landing = take_post(inbox, at);

        inbox->credit.begun += m->cost;
        land(inbox, slot, &landing);
        return true;
    }
    m->bytes = pool_take(inbox->config.pool, m->granted, owner);
    if (!m->bytes)
        return false;
    inbox->credit.begun += m->cost;
    m->pooled = true;
    unposted_push(inbox, slot);
    return true;
}

/* The slot of a message that is new, NIL when there is no room. */
static uint32_t begin(struct inbox *inbox, unsigned channel, const struct chunk *chunk)
{
    uint32_t slot = take_message_slot(inbox);
    uint32_t *bucket;
    struct inmsg *m;

    if (slot == NIL)
        return NIL;
    m = &inbox->messages[slot];
    m->user = NULL;
    m->tag = chunk->tag;
    m->grant_version = 0;
    m->len = chunk->message_len;
    m->received = 0;
    m->id = chunk->message_id;
    m->channel = (uint16_t)channel;
    m->ordered = chunk->ordered;
    m->update = chunk->kind == RDT_UPDATE;
    m->pooled = false;
    m->offered = false;
    m->grant_listed = false;
    m->got.count = 0;
    if (!find_room(inbox, slot)) {
        inbox->free_messages[inbox->free_message_count++] = slot;
        return NIL;
    }
    m->state = INMSG_ARRIVING;
    inbox->messages_begun++;
    bucket = message_bucket(inbox, message_lane(channel, m->ordered), m->id);
    m->hash_next = *bucket;
    *bucket = slot;
    if (m->pooled && m->granted < m->len) {
        m->offered = true;
        events_push(inbox->config.events,
                    (struct event_note){.kind = RDT_EV_OFFER,
                                        .connection = inbox->config.connection,
                                        .subject = slot});
    }
    return slot;
}

static bool contradicts(const struct inmsg *m, const struct chunk *chunk)
{
    return m->len != chunk->message_len || m->tag != chunk->tag ||
           m->update != (chunk->kind == RDT_UPDATE);
}

enum inbox_verdict inbox_chunk(struct inbox *inbox, unsigned channel, const struct chunk *chunk)
{
    const unsigned lane = message_lane(channel, chunk->ordered);
    struct extent part = {.first = chunk->offset, .end = chunk->offset + chunk->len};
    uint32_t fresh;
    uint32_t slot;
    struct inmsg *m;

    if (is_finished(&inbox->lanes[lane], chunk->message_id))
        return INBOX_TAKEN;
    if (chunk->message_id - inbox->lanes[lane].base >= MESSAGE_WINDOW)
        return INBOX_MALFORMED;
    slot = find_message(inbox, lane, chunk->message_id);
    if (slot == NIL)
        slot = begin(inbox, channel, chunk);
    if (slot == NIL)
        return INBOX_FULL;
    m = &inbox->messages[slot];
    if (contradicts(m, chunk) || part.end > m->granted)
        return INBOX_MALFORMED;
    if (!extents_add(&m->got, part, &fresh))
        return INBOX_FULL;
    if (fresh > 0)
        memcpy(m->bytes + part.first, chunk->payload, chunk->len);
    m->received += fresh;
    inbox->bytes_new += fresh;
    if (m->received == m->len)
        finish(inbox, slot);
    return INBOX_TAKEN;
}

/* ---------- the application's side ---------- */

bool inbox_is_offered(const struct inbox *inbox, uint32_t slot)
{
    return inbox->messages[slot].state == INMSG_ARRIVING && inbox->messages[slot].pooled;
}

void inbox_fill_event(struct inbox *inbox, uint32_t slot, struct rdt_event *event)
{
    struct inmsg *m = &inbox->messages[slot];

    event->channel = m->channel;
    event->type = m->update ? RDT_UPDATE : RDT_DATA;
    event->tag = m->tag;
    event->len = m->len;
    if (event->kind != RDT_EV_MESSAGE)
        return;
    assert(m->state == INMSG_DELIVERED);
    event->bytes = m->bytes;
    event->pooled = m->pooled;
    event->user = m->user;
    m->state = INMSG_TAKEN;
    if (!m->pooled)
        free_message_slot(inbox, slot);
}

static void give_back(struct inbox *inbox, uint32_t slot)
{
    struct inmsg *m = &inbox->messages[slot];

    pool_give(inbox->config.pool, m->bytes);
    credit_return(&inbox->credit, inbox->config.bank, m->cost);
}

void inbox_release(struct inbox *inbox, uint32_t slot)
{
    assert(inbox->messages[slot].state == INMSG_TAKEN);
    give_back(inbox, slot);
    free_message_slot(inbox, slot);
}

void inbox_close(struct inbox *inbox)
{
    for (uint32_t slot = 0; slot < inbox->touched_messages; slot++) {
        struct inmsg *m = &inbox->messages[slot];

        if (m->state != INMSG_ARRIVING && m->state != INMSG_WHOLE)
            continue;
        if (m->pooled)
            give_back(inbox, slot);
        m->state = INMSG_FREE; /* not for reuse: an RDT_EV_OFFER may still name it */
    }
    inbox->unposted = (struct inlist){NIL, NIL};
    inbox->grants = (struct inlist){NIL, NIL};
    inbox->grant_count = 0;
    inbox->grant_fresh = false;
}

void inbox_fini(struct inbox *inbox)
{
    for (uint32_t slot = 0; slot < inbox->touched_messages; slot++) {
        const struct inmsg *m = &inbox->messages[slot];

        if (m->state == INMSG_TAKEN)
            pool_owner(inbox->config.pool, m->bytes)->connection = POOL_NO_OWNER;
    }
    credit_fini(&inbox->credit, inbox->config.bank);
}

/* ---------- grants ---------- */

void inbox_list_grants(struct inbox *inbox, struct ack *ack, size_t most, uint64_t version)
{
    uint32_t left = inbox->grant_count < ACK_GRANTS_MAX ? inbox->grant_count : ACK_GRANTS_MAX;

    if (left > most)
        left = (uint32_t)most;
    ack->grant_count = (uint16_t)left;
    for (; left > 0; left--) {
        uint32_t slot = inbox->grants.head;
        struct inmsg *m = &inbox->messages[slot];

        ack->grants[ack->grant_count - left] = (struct ack_grant){
            .message_id = m->id,
            .upto = m->granted,
            .channel = (uint16_t)(m->channel | (m->ordered ? LANE_ORDERED_BIT : 0))};
        m->grant_version = version;
        grant_unlink(inbox, slot);
        grant_push(inbox, slot); /* the next block begins with those that found no place here */
    }
    inbox->grant_fresh = false;
}

void inbox_grants_known(struct inbox *inbox, uint64_t version)
{
    uint32_t slot = inbox->grants.head;

    while (slot != NIL) {
        const uint32_t next = inbox->messages[slot].grant_next;

        if (inbox->messages[slot].grant_version == version)
            grant_unlink(inbox, slot);
        slot = next;
    }
}
