/* SPDX-License-Identifier: MIT */
/*
 * What is to be sent, in which order, and again; see outbox.h.
 */
#include "outbox.h"

#include <assert.h>
#include <string.h>

#include "pool.h"

#define NIL UINT32_MAX

size_t outbox_bytes(const struct outbox_config *config)
{
    size_t per_message =
        sizeof(struct outmsg) + 2 * OUTBOX_EXTENTS * sizeof(struct extent) + sizeof(uint32_t);

    return config->messages_max * per_message;
}

void outbox_init(struct outbox *outbox, void *memory, const struct outbox_config *config)
{
    const uint32_t count = config->messages_max;

    memset(outbox, 0, sizeof *outbox);
    outbox->messages = memory;
    outbox->extents = (struct extent *)(void *)(outbox->messages + count);
    outbox->free_slots = (uint32_t *)(void *)(outbox->extents + 2 * (size_t)OUTBOX_EXTENTS * count);
    outbox->capacity = count;
    outbox->bytes_max = config->bytes_max;
    for (unsigned i = 0; i < RDT_CHANNELS; i++) {
        outbox->ready[i] = (struct outlist){NIL, NIL};
        outbox->waiting[i] = (struct outlist){NIL, NIL};
    }
    for (unsigned lane = 0; lane < MESSAGE_LANES; lane++)
        outbox->lanes[lane] = (struct outlist){NIL, NIL};
}

/* A slot; there must be one. */
static uint32_t take_slot(struct outbox *outbox)
{
    struct extent *extents;
    uint32_t slot;

    if (outbox->free_count > 0)
        return outbox->free_slots[--outbox->free_count];
    assert(outbox->touched < outbox->capacity);
    slot = outbox->touched++;
    extents = outbox->extents + 2 * (size_t)OUTBOX_EXTENTS * slot;
    outbox->messages[slot].generation = 0;
    extents_init(&outbox->messages[slot].acked, extents, OUTBOX_EXTENTS);
    extents_init(&outbox->messages[slot].lost, extents + OUTBOX_EXTENTS, OUTBOX_EXTENTS);
    return slot;
}

/* ---------- lists ---------- */

static void list_push_back(struct outbox *outbox, struct outlist *list, uint32_t slot)
{
    struct outmsg *m = &outbox->messages[slot];

    m->prev = list->tail;
    m->next = NIL;
    if (list->tail != NIL)
        outbox->messages[list->tail].next = slot;
    else
        list->head = slot;
    list->tail = slot;
}

static void list_push_front(struct outbox *outbox, struct outlist *list, uint32_t slot)
{
    struct outmsg *m = &outbox->messages[slot];

    m->prev = NIL;
    m->next = list->head;
    if (list->head != NIL)
        outbox->messages[list->head].prev = slot;
    else
        list->tail = slot;
    list->head = slot;
}

static void list_unlink(struct outbox *outbox, struct outlist *list, uint32_t slot)
{
    const struct outmsg *m = &outbox->messages[slot];

    if (m->prev != NIL)
        outbox->messages[m->prev].next = m->next;
    else
        list->head = m->next;
    if (m->next != NIL)
        outbox->messages[m->next].prev = m->prev;
    else
        list->tail = m->prev;
}

static void lane_push(struct outbox *outbox, struct outlist *list, uint32_t slot)
{
    struct outmsg *m = &outbox->messages[slot];

    m->lane_prev = list->tail;
    m->lane_next = NIL;
    if (list->tail != NIL)
        outbox->messages[list->tail].lane_next = slot;
    else
        list->head = slot;
    list->tail = slot;
}

static void lane_unlink(struct outbox *outbox, struct outlist *list, uint32_t slot)
{
    const struct outmsg *m = &outbox->messages[slot];

    if (m->lane_prev != NIL)
        outbox->messages[m->lane_prev].lane_next = m->lane_next;
    else
        list->head = m->lane_next;
    if (m->lane_next != NIL)
        outbox->messages[m->lane_next].lane_prev = m->lane_prev;
    else
        list->tail = m->lane_prev;
}

static void ready_push(struct outbox *outbox, uint32_t slot, bool front)
{
    struct outmsg *m = &outbox->messages[slot];
    struct outlist *list = &outbox->ready[m->channel];

    assert(!m->is_ready);
    if (front)
        list_push_front(outbox, list, slot);
    else
        list_push_back(outbox, list, slot);
    m->is_ready = true;
    outbox->ready_channels |= 1u << m->channel;
}

static void ready_unlink(struct outbox *outbox, uint32_t slot)
{
    struct outmsg *m = &outbox->messages[slot];

    if (!m->is_ready)
        return;
    list_unlink(outbox, &outbox->ready[m->channel], slot);
    m->is_ready = false;
    if (outbox->ready[m->channel].head == NIL)
        outbox->ready_channels &= ~(1u << m->channel);
}

static void waiting_unlink(struct outbox *outbox, uint32_t slot)
{
    const unsigned channel = outbox->messages[slot].channel;

    list_unlink(outbox, &outbox->waiting[channel], slot);
    if (outbox->waiting[channel].head == NIL)
        outbox->waiting_channels &= ~(1u << channel);
}

static bool has_work(const struct outmsg *m)
{
    if (m->len == 0)
        return !m->empty_sent;
    return m->lost.count > 0 || m->sent < m->granted;
}

/* ---------- beginning ---------- */

static uint64_t cost_of(const struct outbox *outbox, const struct outmsg *m)
{
    return pool_cost(m->len < outbox->peer_message_max ? m->len : outbox->peer_message_max);
}

static bool lane_is_full(const struct outbox *outbox, const struct outmsg *m)
{
    const struct outlist *lane = &outbox->lanes[message_lane(m->channel, m->ordered)];

    return m->id - outbox->messages[lane->head].id >= MESSAGE_WINDOW;
}

/* Begins what the credit covers, in the order of channels; the first that it does not cover holds
 * up the rest, or small messages would starve large ones. */
static void begin_waiting(struct outbox *outbox)
{
    uint32_t channels = outbox->peer_message_max > 0 ? outbox->waiting_channels : 0;

    while (channels != 0) {
        unsigned channel = (unsigned)__builtin_ctz(channels);
        uint32_t slot = outbox->waiting[channel].head;
        struct outmsg *m = &outbox->messages[slot];
        uint64_t cost = cost_of(outbox, m);

        if (outbox->messages_begun == outbox->messages_limit)
            return;
        if (cost > outbox->credit_limit - outbox->credit_spent)
            return;
        if (lane_is_full(outbox, m)) {
            channels &= ~(1u << channel);
            continue;
        }
        waiting_unlink(outbox, slot);
        if (outbox->waiting[channel].head == NIL)
            channels &= ~(1u << channel);
        outbox->messages_begun++;
        outbox->credit_spent += cost;
        m->state = OUTMSG_BEGUN;
        m->granted = m->len < outbox->peer_message_max ? m->len : outbox->peer_message_max;
        ready_push(outbox, slot, false);
    }
}

void outbox_open(struct outbox *outbox, uint32_t peer_message_max)
{
    outbox->peer_message_max = peer_message_max;
}

void outbox_credit(struct outbox *outbox, uint64_t credit_limit, uint32_t messages_limit)
{
    if (credit_limit > outbox->credit_limit)
        outbox->credit_limit = credit_limit;
    if ((int32_t)(messages_limit - outbox->messages_limit) > 0)
        outbox->messages_limit = messages_limit;
    begin_waiting(outbox);
}

void outbox_grant(struct outbox *outbox, unsigned lane, uint32_t id, uint32_t upto)
{
    uint32_t slot = lane < MESSAGE_LANES ? outbox->lanes[lane].head : NIL;

    while (slot != NIL && outbox->messages[slot].id != id)
        slot = outbox->messages[slot].lane_next;
    if (slot != NIL && outbox->messages[slot].state == OUTMSG_BEGUN) {
        struct outmsg *m = &outbox->messages[slot];

        if (upto > m->granted)
            m->granted = upto < m->len ? upto : m->len;
        if (!m->is_ready && has_work(m))
            ready_push(outbox, slot, false);
    }
}

/* ---------- queueing ---------- */

int outbox_check(const struct rdt_message *message)
{
    if (message->channel >= RDT_CHANNELS || message->head_len > RDT_HEAD_MAX)
        return RDT_EINVAL;
    if (message->kind != RDT_DATA && message->kind != RDT_UPDATE)
        return RDT_EINVAL;
    if ((message->head_len > 0 && !message->head) || (message->body_len > 0 && !message->body))
        return RDT_EINVAL;
    if (message->body_len > RDT_MESSAGE_MAX - message->head_len)
        return RDT_EMSGSIZE;
    return 0;
}

static bool has_room(const struct outbox *outbox, uint64_t len)
{
    if (outbox->free_count == 0 && outbox->touched == outbox->capacity)
        return false;
    return outbox->unfinished == 0 || outbox->pending_bytes + len <= outbox->bytes_max;
}

int outbox_put(struct outbox *outbox, const struct rdt_message *message)
{
    const uint32_t len = (uint32_t)(message->head_len + message->body_len);
    const unsigned lane = message_lane(message->channel, message->ordered);
    struct outmsg *m;
    uint32_t slot;

    if (!has_room(outbox, len)) {
        outbox->wants_writable = true;
        outbox->refused_len = len;
        return RDT_EAGAIN;
    }
    slot = take_slot(outbox);
    m = &outbox->messages[slot];
    m->body = message->body;
    m->user = message->user;
    m->tag = message->tag;
    m->len = len;
    m->head_len = (uint32_t)message->head_len;
    m->id = outbox->next_id[lane]++;
    m->sent = 0;
    m->granted = 0;
    m->generation++;
    m->channel = message->channel;
    m->state = OUTMSG_WAITING;
    m->ordered = message->ordered;
    m->update = message->kind == RDT_UPDATE;
    m->is_ready = false;
    m->empty_sent = false;
    m->empty_repeat = false;
    m->acked.count = 0;
    m->lost.count = 0;
    if (message->head_len > 0)
        memcpy(m->head, message->head, message->head_len);
    lane_push(outbox, &outbox->lanes[lane], slot);
    list_push_back(outbox, &outbox->waiting[m->channel], slot);
    outbox->waiting_channels |= 1u << m->channel;
    outbox->unfinished++;
    outbox->pending_bytes += len;
    begin_waiting(outbox);
    return 0;
}

/* ---------- sending ---------- */

bool outbox_has_work(const struct outbox *outbox)
{
    return outbox->ready_channels != 0;
}

/* Takes up to `room` bytes of payload out of what is to be sent. */
static struct extent take_bytes(struct outmsg *m, size_t room, bool *repeat)
{
    struct extent part;

    if (m->len == 0) {
        *repeat = m->empty_repeat;
        m->empty_sent = true;
        m->empty_repeat = true;
        return (struct extent){0, 0};
    }
    *repeat = m->lost.count > 0;
    if (*repeat)
        part = m->lost.at[0];
    else
        part = (struct extent){.first = m->sent, .end = m->granted};
    if (room > CHUNK_LEN_MAX)
        room = CHUNK_LEN_MAX;
    if (part.end - part.first > room)
        part.end = part.first + (uint32_t)room;
    if (*repeat)
        extents_remove(&m->lost, part);
    else
        m->sent = part.end;
    return part;
}

bool outbox_next(struct outbox *outbox, const struct piece_want *want, struct piece *out)
{
    const bool any = want->channel == RDT_CHANNELS;
    unsigned channel = want->channel;
    struct outmsg *m;
    struct extent part;
    enum rdt_kind kind;
    uint32_t slot;

    if (outbox->ready_channels == 0)
        return false;
    if (any)
        channel = (unsigned)__builtin_ctz(outbox->ready_channels);
    slot = outbox->ready[channel].head;
    if (slot == NIL)
        return false;
    m = &outbox->messages[slot];
    kind = m->update ? RDT_UPDATE : RDT_DATA;
    if ((!any && kind != want->kind) ||
        want->room < chunk_header_bytes(kind) + (m->len > 0 ? 1 : 0))
        return false;
    part = take_bytes(m, want->room - chunk_header_bytes(kind), &out->repeat);
    out->slot = slot;
    out->generation = m->generation;
    out->channel = (uint16_t)channel;
    out->chunk = (struct chunk){.tag = m->tag,
                                .message_id = m->id,
                                .message_len = m->len,
                                .offset = part.first,
                                .len = (uint16_t)(part.end - part.first),
                                .ordered = m->ordered,
                                .kind = kind};
    if (m->lost.count > 0)
        return true; /* it stays in front */
    ready_unlink(outbox, slot);
    if (has_work(m))
        ready_push(outbox, slot, false);
    return true;
}

void outbox_copy(const struct outbox *outbox, const struct piece *piece, uint8_t *to)
{
    const struct outmsg *m = &outbox->messages[piece->slot];
    size_t at = piece->chunk.offset;
    size_t left = piece->chunk.len;

    if (at < m->head_len) {
        size_t part = m->head_len - at < left ? m->head_len - at : left;

        memcpy(to, m->head + at, part);
        to += part;
        at += part;
        left -= part;
    }
    if (left > 0)
        memcpy(to, m->body + (at - m->head_len), left);
}

/* ---------- what became of it ---------- */

static struct outmsg *find(struct outbox *outbox, struct sent_span span)
{
    struct outmsg *m = &outbox->messages[span.slot];

    assert(span.slot < outbox->capacity);
    if (m->generation != span.generation || m->state != OUTMSG_BEGUN)
        return NULL;
    return m;
}

static void finish(struct outbox *outbox, uint32_t slot)
{
    struct outmsg *m = &outbox->messages[slot];

    ready_unlink(outbox, slot);
    if (m->state == OUTMSG_WAITING)
        waiting_unlink(outbox, slot);
    lane_unlink(outbox, &outbox->lanes[message_lane(m->channel, m->ordered)], slot);
    m->state = OUTMSG_DONE;
    outbox->unfinished--;
    outbox->pending_bytes -= m->len;
}

bool outbox_acked(struct outbox *outbox, struct sent_span span)
{
    struct extent part = {.first = span.offset, .end = span.offset + span.len};
    struct outmsg *m = find(outbox, span);
    uint32_t fresh;

    if (!m)
        return false;
    if (m->len > 0) {
        if (!extents_add(&m->acked, part, &fresh)) {
            outbox_lost(outbox, span); /* no room to remember it: it goes once more */
            return false;
        }
        if (m->lost.count > 0)
            extents_remove(&m->lost, part);
        if (m->acked.at[0].first > 0 || m->acked.at[0].end < m->len) {
            if (m->is_ready && !has_work(m))
                ready_unlink(outbox, span.slot);
            return false;
        }
    }
    finish(outbox, span.slot);
    begin_waiting(outbox); /* the lane may have been full */
    return true;
}

void outbox_lost(struct outbox *outbox, struct sent_span span)
{
    struct extent part = {.first = span.offset, .end = span.offset + span.len};
    struct outmsg *m = find(outbox, span);
    struct extent gap;

    if (!m)
        return;
    if (m->len == 0)
        m->empty_sent = false;
    while (part.first < part.end && extents_next_gap(&m->acked, part, &gap)) {
        extents_add_coarse(&m->lost, gap);
        part.first = gap.end;
    }
    if (!has_work(m))
        return;
    ready_unlink(outbox, span.slot);
    ready_push(outbox, span.slot, true);
}

uint32_t outbox_abort_next(struct outbox *outbox)
{
    for (unsigned lane = 0; lane < MESSAGE_LANES; lane++) {
        uint32_t slot = outbox->lanes[lane].head;

        if (slot != NIL) {
            finish(outbox, slot);
            return slot;
        }
    }
    return NIL;
}

void outbox_free(struct outbox *outbox, uint32_t slot)
{
    assert(outbox->messages[slot].state == OUTMSG_DONE);
    outbox->messages[slot].state = OUTMSG_FREE;
    outbox->free_slots[outbox->free_count++] = slot;
}

bool outbox_take_writable(struct outbox *outbox)
{
    if (!outbox->wants_writable || !has_room(outbox, outbox->refused_len))
        return false;
    outbox->wants_writable = false;
    return true;
}
