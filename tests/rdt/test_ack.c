/* SPDX-License-Identifier: MIT */
#include "rdt/core/ack.h"

#include "rdt/core/prng.h"
#include "suite.h"

static struct ack make_random(uint64_t *random)
{
    struct ack ack = {
        .floor = prng_splitmix64(random),
        .credit = prng_splitmix64(random),
        .messages = (uint32_t)prng_splitmix64(random),
        .delay_us = (uint32_t)prng_splitmix64(random),
        .range_count = (uint16_t)(prng_splitmix64(random) % (ACK_RANGES_MAX + 1)),
        .grant_count = (uint16_t)(prng_splitmix64(random) % (ACK_GRANTS_MAX + 1)),
    };
    uint64_t at = UINT64_MAX - prng_splitmix64(random) % 1000;

    for (size_t i = 0; i < ack.range_count; i++) {
        /* lengths and gaps of every size of varint */
        const unsigned shift = (unsigned)(prng_splitmix64(random) % 54);
        const uint64_t length = prng_splitmix64(random) >> (63 - shift) >> 1;
        const uint64_t gap = prng_splitmix64(random) >> (63 - shift) >> 1;

        if (at < length + gap + 2) {
            ack.range_count = (uint16_t)i;
            break;
        }
        ack.ranges[i] = (struct range){.first = at - length, .last = at};
        at -= length + gap + 2;
    }
    for (size_t i = 0; i < ack.grant_count; i++) {
        ack.grants[i] = (struct ack_grant){
            .message_id = (uint32_t)prng_splitmix64(random),
            .upto = (uint32_t)prng_splitmix64(random),
            .channel = (uint16_t)prng_splitmix64(random),
        };
    }
    return ack;
}

/* `b` is `a` with its newest `ranges` ranges.  One check in all: each costs a system call. */
static void assert_equal(const struct ack *a, const struct ack *b, size_t ranges)
{
    bool equal = a->floor == b->floor && a->credit == b->credit && a->messages == b->messages &&
                 a->delay_us == b->delay_us && b->range_count == ranges &&
                 a->grant_count == b->grant_count;

    for (size_t i = 0; i < ranges; i++)
        equal = equal && a->ranges[i].first == b->ranges[i].first &&
                a->ranges[i].last == b->ranges[i].last;
    for (size_t i = 0; i < a->grant_count; i++)
        equal = equal && a->grants[i].message_id == b->grants[i].message_id &&
                a->grants[i].upto == b->grants[i].upto &&
                a->grants[i].channel == b->grants[i].channel;
    ck_assert(equal);
}

START_TEST(ack__golden)
{
    static const uint8_t golden[] = {
        0x2c, 0x01, 0,    0,    0,    0,    0,    0,      /* largest 300 */
        0x0a, 0,    0,    0,    0,    0,    0,    0,      /* floor 10 */
        0x00, 0x00, 1,    0,    0,    0,    0,    0,      /* credit 65536 */
        0x07, 0x00, 0,    0,                              /* 7 messages */
        0xe8, 0x03, 0,    0,                              /* 1000 us */
        0x02, 0x00,                                       /* two ranges */
        0x01, 0x00,                                       /* one grant */
        0x00,                                             /* 300 alone */
        0x00, 0xc8, 0x01,                                 /* one missing, then 201: 98 .. 298 */
        0x01, 0x00, 0x04, 0x03, 0x02, 0x01, 0xff, 0, 0, 0 /* channel 1, message, upto 255 */
    };
    const struct ack ack = {
        .floor = 10,
        .credit = 65536,
        .messages = 7,
        .delay_us = 1000,
        .range_count = 2,
        .grant_count = 1,
        .ranges = {{300, 300}, {98, 298}},
        .grants = {{.channel = 1, .message_id = 0x01020304, .upto = 255}},
    };
    struct ack back;
    uint8_t bytes[100];
    struct writer w = writer_make(bytes, sizeof bytes);
    struct reader r;

    ck_assert_uint_eq(ack_encode(&w, &ack), 2);
    ck_assert_uint_eq(w.written, sizeof golden);
    ck_assert_mem_eq(bytes, golden, sizeof golden);
    r = reader_make(bytes, w.written);
    ck_assert(ack_decode(&r, &back));
    ck_assert_uint_eq(r.left, 0);
    assert_equal(&ack, &back, 2);
}
END_TEST

START_TEST(ack__round_trip)
{
    static uint8_t bytes[8192];

    for (uint64_t n = 0; n < 2000; n++) {
        uint64_t random = suite_seed(n);
        const struct ack ack = make_random(&random);
        struct ack back;
        struct writer w = writer_make(bytes, sizeof bytes);
        struct reader r;

        ck_assert_uint_eq(ack_encode(&w, &ack), ack.range_count);
        r = reader_make(bytes, w.written);
        ck_assert(ack_decode(&r, &back));
        ck_assert_uint_eq(r.left, 0);
        assert_equal(&ack, &back, ack.range_count);
    }
}
END_TEST

START_TEST(ack__newest_ranges_are_kept_when_room_is_short)
{
    static uint8_t bytes[8192];

    for (uint64_t n = 0; n < 2000; n++) {
        uint64_t random = suite_seed(n);
        const struct ack ack = make_random(&random);
        const size_t cap = prng_splitmix64(&random) % 1500;
        struct ack back;
        struct writer w = writer_make(bytes, cap);
        size_t count;

        memset(bytes, 0xcc, sizeof bytes);
        count = ack_encode(&w, &ack);
        ck_assert_uint_eq(bytes[cap], 0xcc);
        ck_assert(!w.failed);
        if (w.written > 0) {
            struct reader r = reader_make(bytes, w.written);

            ck_assert(ack_decode(&r, &back));
            assert_equal(&ack, &back, count);
        } else {
            ck_assert_uint_eq(count, 0);
            ck_assert_uint_lt(cap, ACK_FIXED + (size_t)ack.grant_count * ACK_GRANT + 10);
        }
    }
}
END_TEST

START_TEST(ack__truncation_is_malformed)
{
    static uint8_t bytes[8192];
    uint64_t random = suite_seed(0);
    struct ack ack = make_random(&random);
    struct ack back;
    struct writer w = writer_make(bytes, sizeof bytes);

    ack_encode(&w, &ack);
    for (size_t len = 0; len < w.written; len++) {
        struct reader r = reader_make(bytes, len);

        ck_assert(!ack_decode(&r, &back));
    }
}
END_TEST

/* A block of one given range list, everything else zero. */
static bool decodes(uint64_t largest, uint16_t ranges, const uint8_t *list, size_t len)
{
    uint8_t bytes[128];
    struct writer w = writer_make(bytes, sizeof bytes);
    struct reader r;
    struct ack out;

    writer_u64(&w, largest);
    writer_zero(&w, ACK_FIXED - 12);
    writer_u16(&w, ranges);
    writer_u16(&w, 0);
    writer_bytes(&w, list, len);
    ck_assert(!w.failed);
    r = reader_make(bytes, w.written);
    return ack_decode(&r, &out);
}

START_TEST(ack__ranges_below_zero_are_malformed)
{
    ck_assert(decodes(5, 1, (const uint8_t[]){5}, 1));
    ck_assert(!decodes(5, 1, (const uint8_t[]){6}, 1));
    ck_assert(decodes(5, 2, (const uint8_t[]){2, 0, 1}, 3)); /* 3..5, 0..1 */
    ck_assert(!decodes(5, 2, (const uint8_t[]){2, 0, 2}, 3));
    ck_assert(!decodes(5, 2, (const uint8_t[]){2, 2, 0}, 3));
    ck_assert(!decodes(1, 2, (const uint8_t[]){0, 0, 0}, 3));
    ck_assert(decodes(0, 0, NULL, 0));
    ck_assert(!decodes(1, 0, NULL, 0));
}
END_TEST

START_TEST(ack__varints_have_one_form)
{
    static const uint8_t longest[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    static const uint8_t beyond[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
    static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                      0x80, 0x80, 0x80, 0x80, 0x80, 0x00};

    ck_assert(decodes(UINT64_MAX, 1, longest, sizeof longest));
    ck_assert(!decodes(UINT64_MAX, 1, beyond, sizeof beyond));
    ck_assert(!decodes(UINT64_MAX, 1, endless, sizeof endless));
    ck_assert(!decodes(9, 1, (const uint8_t[]){0x81, 0x00}, 2)); /* 1, a byte too long */
    ck_assert(decodes(9, 1, (const uint8_t[]){0x01}, 1));
}
END_TEST

/* T58: a thousand ranges are refused, not stored. */
START_TEST(ack__T58_too_many_ranges_or_grants_are_malformed)
{
    static uint8_t bytes[4096];

    for (unsigned ranges = ACK_RANGES_MAX; ranges <= 1000; ranges += 1000 - ACK_RANGES_MAX) {
        struct writer w = writer_make(bytes, sizeof bytes);
        struct reader r;
        struct ack out;

        writer_u64(&w, 100000);
        writer_zero(&w, ACK_FIXED - 12);
        writer_u16(&w, (uint16_t)ranges);
        writer_zero(&w, 2 + 2 * 1000); /* no grants; ranges of one, one apart */
        r = reader_make(bytes, w.written);
        ck_assert_int_eq(ack_decode(&r, &out), ranges <= ACK_RANGES_MAX);
    }
    for (unsigned grants = ACK_GRANTS_MAX; grants <= ACK_GRANTS_MAX + 1; grants++) {
        struct writer w = writer_make(bytes, sizeof bytes);
        struct reader r;
        struct ack out;

        writer_zero(&w, ACK_FIXED - 2);
        writer_u16(&w, (uint16_t)grants);
        writer_zero(&w, ACK_GRANT * 100);
        r = reader_make(bytes, w.written);
        ck_assert_int_eq(ack_decode(&r, &out), grants <= ACK_GRANTS_MAX);
    }
}
END_TEST

START_TEST(ack__random_bytes_never_give_overlapping_ranges)
{
    for (uint64_t n = 0; n < 20000; n++) {
        uint64_t random = suite_seed(n);
        uint8_t bytes[96];
        struct reader r = reader_make(bytes, sizeof bytes);
        struct ack out;

        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)prng_splitmix64(&random);
        store_le16(bytes + ACK_FIXED - 4, (uint16_t)(random % 12));
        store_le16(bytes + ACK_FIXED - 2, (uint16_t)(random % 3));
        if (!ack_decode(&r, &out))
            continue;
        for (size_t i = 0; i < out.range_count; i++) {
            if (out.ranges[i].first > out.ranges[i].last ||
                (i > 0 && out.ranges[i].last + 1 >= out.ranges[i - 1].first))
                ck_abort_msg("seed %llu, range %zu", suite_seed(n), i);
        }
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        ack__golden,
        ack__round_trip,
        ack__newest_ranges_are_kept_when_room_is_short,
        ack__truncation_is_malformed,
        ack__ranges_below_zero_are_malformed,
        ack__varints_have_one_form,
        ack__T58_too_many_ranges_or_grants_are_malformed,
        ack__random_bytes_never_give_overlapping_ranges,
    };

    return SUITE_MAIN(argc, argv, "ack", tests);
}
