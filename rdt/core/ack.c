/* SPDX-License-Identifier: MIT */

/* The ACK block's bytes. */

#include "ack.h"

#include <assert.h>

enum {
    VARINT_MAX = 10, /* bytes of a 64-bit number */
};

static size_t put_varint(uint8_t out[VARINT_MAX], uint64_t value)
{
    size_t len = 0;

    while (value >= 0x80) {
        out[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[len++] = (uint8_t)value;
    return len;
}

static uint64_t read_varint(struct reader *r)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t byte = reader_u8(r);

        if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0))
            break; /* over 64 bits, or a longer form than needed */
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    r->failed = true;
    return 0;
}

/* Bytes of the range at `i`, written after the one before it. */
static size_t put_range(uint8_t out[2 * VARINT_MAX], const struct ack *ack, size_t i)
{
    const struct range *range = &ack->ranges[i];
    size_t len = 0;

    assert(range->first <= range->last);
    if (i > 0) {
        assert(range->last + 1 < ack->ranges[i - 1].first);
        len = put_varint(out, ack->ranges[i - 1].first - range->last - 2);
    }
    return len + put_varint(out + len, range->last - range->first);
}

static void write_grants(struct writer *w, const struct ack *ack)
{
    for (size_t i = 0; i < ack->grant_count; i++) {
        writer_u16(w, ack->grants[i].channel);
        writer_u32(w, ack->grants[i].message_id);
        writer_u32(w, ack->grants[i].upto);
    }
}

size_t ack_encode(struct writer *w, const struct ack *ack)
{
    const size_t grants_len = (size_t)ack->grant_count * ACK_GRANT;
    uint8_t bytes[2 * VARINT_MAX];
    struct writer probe = *w;
    uint8_t *count_at;
    size_t count;

    assert(ack->range_count <= ACK_RANGES_MAX);
    assert(ack->grant_count <= ACK_GRANTS_MAX);
    writer_u64(&probe, ack->range_count > 0 ? ack->ranges[0].last : 0);
    writer_u64(&probe, ack->floor);
    writer_u64(&probe, ack->credit);
    writer_u32(&probe, ack->messages);
    writer_u32(&probe, ack->delay_us);
    count_at = writer_take(&probe, 2);
    writer_u16(&probe, ack->grant_count);
    if (probe.failed)
        return 0;
    for (count = 0; count < ack->range_count; count++) {
        const size_t len = put_range(bytes, ack, count);

        if (probe.left < len + grants_len)
            break;
        writer_bytes(&probe, bytes, len);
    }
    if (probe.left < grants_len || (count == 0 && ack->range_count > 0))
        return 0;
    store_le16(count_at, (uint16_t)count);
    write_grants(&probe, ack);
    assert(!probe.failed);
    *w = probe;
    return count;
}

static bool read_ranges(struct reader *r, struct ack *out, uint64_t largest)
{
    uint64_t last = largest;

    for (size_t i = 0; i < out->range_count; i++) {
        uint64_t below;

        if (i > 0) {
            const uint64_t gap = read_varint(r);
            const uint64_t first = out->ranges[i - 1].first;

            if (first < 2 || gap > first - 2)
                return false;
            last = first - 2 - gap;
        }
        below = read_varint(r);
        if (r->failed || below > last)
            return false;
        out->ranges[i] = (struct range){.first = last - below, .last = last};
    }
    return true;
}

bool ack_decode(struct reader *r, struct ack *out)
{
    const uint64_t largest = reader_u64(r);

    out->floor = reader_u64(r);
    out->credit = reader_u64(r);
    out->messages = reader_u32(r);
    out->delay_us = reader_u32(r);
    out->range_count = reader_u16(r);
    out->grant_count = reader_u16(r);
    if (r->failed || out->range_count > ACK_RANGES_MAX || out->grant_count > ACK_GRANTS_MAX)
        return false;
    if (out->range_count == 0 && largest != 0)
        return false;
    if (!read_ranges(r, out, largest))
        return false;
    for (size_t i = 0; i < out->grant_count; i++) {
        out->grants[i].channel = reader_u16(r);
        out->grants[i].message_id = reader_u32(r);
        out->grants[i].upto = reader_u32(r);
    }
    return !r->failed;
}
