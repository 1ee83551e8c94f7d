/* SPDX-License-Identifier: MIT */

/* Records of the packets sent on one connection. */

#include "sent.h"

#include <assert.h>
#include <string.h>

enum {
    CAPACITY_MIN = 64, /* one word of bits */
};

size_t sent_bytes(uint32_t capacity)
{
    return capacity * sizeof(struct sent_record) + 2 * (size_t)capacity / 8;
}

void sent_init(struct sent *sent, void *memory, uint32_t capacity, uint64_t first_seq)
{
    uint8_t *bits = (uint8_t *)memory + capacity * sizeof(struct sent_record);

    assert(capacity >= CAPACITY_MIN);
    assert((capacity & (capacity - 1)) == 0);
    memset(bits, 0, 2 * (size_t)capacity / 8);
    *sent = (struct sent){
        .records = memory,
        .in_flight_bits = (void *)bits,
        .lost_bits = (void *)(bits + capacity / 8),
        .capacity = capacity,
        .next_seq = first_seq,
        .oldest = first_seq,
        .floor = first_seq,
    };
}

static struct sent_record *record_of(const struct sent *sent, uint64_t seq)
{
    return &sent->records[seq & (sent->capacity - 1)];
}

static uint64_t *word_of(const struct sent *sent, uint64_t *bits, uint64_t seq)
{
    return &bits[(seq & (sent->capacity - 1)) / 64];
}

static uint64_t bit_of(uint64_t seq)
{
    return (uint64_t)1 << seq % 64;
}

/* The lowest SEQ of first .. last - 1 whose bit is set; `last` when there is none. */
static uint64_t next_bit(const struct sent *sent, uint64_t *bits, uint64_t first, uint64_t last)
{
    while (first < last) {
        const uint64_t word = *word_of(sent, bits, first) >> first % 64;

        if (word != 0) {
            const uint64_t seq = first + (unsigned)__builtin_ctzll(word);

            return seq < last ? seq : last;
        }
        first += 64 - first % 64;
    }
    return last;
}

/* The lowest SEQ whose record is still in the ring, not counting the next one to be written. */
static uint64_t ring_first(const struct sent *sent)
{
    return sent->next_seq > sent->capacity ? sent->next_seq - sent->capacity : 0;
}

bool sent_has_room(const struct sent *sent)
{
    return sent->next_seq - sent->oldest < sent->capacity;
}

static struct sent_record *take(struct sent *sent, uint64_t now_ns)
{
    struct sent_record *record = record_of(sent, sent->next_seq);

    assert(sent_has_room(sent));
    *record = (struct sent_record){.seq = sent->next_seq, .sent_ns = now_ns};
    *word_of(sent, sent->lost_bits, sent->next_seq) &= ~bit_of(sent->next_seq);
    if (sent->oldest == sent->next_seq)
        sent->oldest++;
    sent->next_seq++;
    return record;
}

struct sent_record *sent_add(struct sent *sent, uint32_t bytes, uint64_t now_ns)
{
    const bool first = sent->oldest == sent->next_seq;
    struct sent_record *record = take(sent, now_ns);

    if (first)
        sent->oldest = record->seq;
    *word_of(sent, sent->in_flight_bits, record->seq) |= bit_of(record->seq);
    sent->in_flight_count++;
    sent->in_flight_bytes += bytes;
    record->state = SENT_IN_FLIGHT;
    record->bytes = bytes;
    record->in_flight_bytes =
        sent->in_flight_bytes < UINT32_MAX ? (uint32_t)sent->in_flight_bytes : UINT32_MAX;
    return record;
}

uint64_t sent_add_untracked(struct sent *sent, uint64_t now_ns)
{
    return take(sent, now_ns)->seq;
}

bool sent_is_used(const struct sent *sent, uint64_t seq)
{
    return seq < sent->next_seq;
}

struct sent_record *sent_find(const struct sent *sent, uint64_t seq)
{
    struct sent_record *record;

    if (seq >= sent->next_seq || seq < ring_first(sent))
        return NULL;
    record = record_of(sent, seq);
    return record->seq == seq && record->state != SENT_UNTRACKED ? record : NULL;
}

static struct sent_record *next_record(const struct sent *sent, uint64_t *bits, uint64_t first,
                                       uint64_t last)
{
    const uint64_t end = last < sent->next_seq ? last + 1 : sent->next_seq;
    const uint64_t seq = next_bit(sent, bits, first, end);

    return seq < end ? record_of(sent, seq) : NULL;
}

struct sent_record *sent_next_in_flight(const struct sent *sent, uint64_t first, uint64_t last)
{
    return next_record(sent, sent->in_flight_bits, first > sent->oldest ? first : sent->oldest,
                       last);
}

struct sent_record *sent_next_lost(const struct sent *sent, uint64_t first, uint64_t last)
{
    uint64_t low = ring_first(sent);

    if (low < sent->floor)
        low = sent->floor;
    return next_record(sent, sent->lost_bits, first > low ? first : low, last);
}

static void leave_flight(struct sent *sent, const struct sent_record *record)
{
    uint64_t *word = word_of(sent, sent->in_flight_bits, record->seq);

    assert(*word & bit_of(record->seq));
    assert(sent->in_flight_count > 0);
    assert(sent->in_flight_bytes >= record->bytes);
    *word &= ~bit_of(record->seq);
    sent->in_flight_count--;
    sent->in_flight_bytes -= record->bytes;
    if (sent->in_flight_count == 0)
        sent->oldest = sent->next_seq;
    else if (record->seq == sent->oldest)
        sent->oldest = next_bit(sent, sent->in_flight_bits, sent->oldest, sent->next_seq);
}

void sent_on_acked(struct sent *sent, struct sent_record *record)
{
    if (record->state == SENT_LOST) {
        *word_of(sent, sent->lost_bits, record->seq) &= ~bit_of(record->seq);
    } else {
        assert(record->state == SENT_IN_FLIGHT);
        leave_flight(sent, record);
    }
    record->state = SENT_ACKED;
    if (record->seq >= sent->acked_end)
        sent->acked_end = record->seq + 1;
}

void sent_on_lost(struct sent *sent, struct sent_record *record)
{
    assert(record->state == SENT_IN_FLIGHT);
    leave_flight(sent, record);
    *word_of(sent, sent->lost_bits, record->seq) |= bit_of(record->seq);
    record->state = SENT_LOST;
}

struct sent_record *sent_oldest(const struct sent *sent)
{
    return sent->in_flight_count > 0 ? record_of(sent, sent->oldest) : NULL;
}

uint64_t sent_floor(struct sent *sent, uint64_t keep_after_ns)
{
    if (sent->floor < ring_first(sent))
        sent->floor = ring_first(sent);
    while (sent->floor < sent->oldest) {
        const struct sent_record *record = record_of(sent, sent->floor);

        if (record->state != SENT_ACKED && record->sent_ns >= keep_after_ns)
            break;
        sent->floor++;
    }
    return sent->floor;
}
