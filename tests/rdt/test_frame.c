/* SPDX-License-Identifier: MIT */
#include "rdt/core/frame.h"

#include "rdt/core/bytes.h"
#include "rdt/core/prng.h"
#include "suite.h"

#include <rdt/rdt.h>

static void fill(uint8_t *bytes, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)prng_splitmix64(&seed);
}

/* A valid DATA datagram of `len` bytes. */
static void make_data(uint8_t *bytes, size_t len, const struct frame_key *key, uint64_t seed)
{
    const struct frame frame = {.seq = seed, .type = FRAME_DATA, .cid = 77, .channel = 3};

    fill(bytes, len, seed);
    frame_encode(&frame, bytes);
    frame_seal(key, bytes, len);
}

START_TEST(frame__golden_prefix)
{
    static const uint8_t golden[FRAME_PREFIX] = {
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* SEQ */
        0x02, 0x03, 0x0a, 0x00,                         /* UPDATE, both flags, CHAN 10 */
        0xdd, 0xcc, 0xbb, 0xaa,                         /* CID */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00  /* HASH, still zero */
    };
    const struct frame frame = {
        .seq = 0x0102030405060708u,
        .type = FRAME_UPDATE,
        .flags = FRAME_ACK_NOW | FRAME_ACK_FIRST,
        .channel = 10,
        .cid = 0xaabbccddu,
    };
    struct frame back;
    uint8_t bytes[FRAME_PREFIX];

    frame_encode(&frame, bytes);
    ck_assert_mem_eq(bytes, golden, sizeof golden);
    ck_assert(frame_decode(&back, bytes, sizeof bytes));
    ck_assert_uint_eq(back.seq, frame.seq);
    ck_assert_uint_eq(back.type, frame.type);
    ck_assert_uint_eq(back.flags, frame.flags);
    ck_assert_uint_eq(back.channel, frame.channel);
    ck_assert_uint_eq(back.cid, frame.cid);
}
END_TEST

/* XXH3's published answer for no bytes and seed 0; the rest pins our use of it. */
START_TEST(frame__golden_hash)
{
    struct frame_key key;
    uint8_t bytes[1200];

    ck_assert_uint_eq(frame_hash("", 0, 0), 0x2d06800538d394c2u);
    frame_key_init_public(&key);
    ck_assert_uint_eq(key.seed, 0x6572697764617247u);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    frame_seal(&key, bytes, FRAME_PREFIX);
    ck_assert_uint_eq(load_le64(bytes + FRAME_HASH_AT), UINT64_C(0xc2394b26789d9485));
    frame_seal(&key, bytes, sizeof bytes);
    ck_assert_uint_eq(load_le64(bytes + FRAME_HASH_AT), UINT64_C(0xc0d923414e2d5c15));
}
END_TEST

START_TEST(frame__hash_is_xxh3_with_seed_on_every_instruction_set)
{
    struct frame_key key;
    unsigned best;
    uint8_t bytes[2100];

    frame_key_init(&key, 0x123456789abcdefu);
    best = key.instruction_set;
    for (size_t len = FRAME_PREFIX; len < sizeof bytes; len++) {
        uint64_t expected;

        fill(bytes, len, len);
        memset(bytes + FRAME_HASH_AT, 0, 8);
        expected = frame_hash(bytes, len, key.seed);
        for (unsigned set = 0; set <= best; set++) {
            key.instruction_set = set;
            frame_seal(&key, bytes, len);
            if (load_le64(bytes + FRAME_HASH_AT) != expected || !frame_open(&key, bytes, len))
                ck_abort_msg("%zu bytes, instruction set %u", len, set);
        }
    }
}
END_TEST

START_TEST(frame__key_depends_on_both_nonces_and_their_order)
{
    static const uint8_t a[FRAME_NONCE] = {1};
    static const uint8_t b[FRAME_NONCE] = {2};
    struct frame_key ab;
    struct frame_key ba;
    struct frame_key aa;

    frame_key_init_nonces(&ab, a, b);
    frame_key_init_nonces(&ba, b, a);
    frame_key_init_nonces(&aa, a, a);
    ck_assert_uint_ne(ab.seed, ba.seed);
    ck_assert_uint_ne(ab.seed, aa.seed);
    ck_assert_uint_ne(ba.seed, aa.seed);
}
END_TEST

START_TEST(frame__failed_open_leaves_the_bytes_for_another_key)
{
    struct frame_key right;
    struct frame_key wrong;
    uint8_t bytes[300];
    uint8_t before[300];

    frame_key_init(&right, 1);
    frame_key_init(&wrong, 2);
    make_data(bytes, sizeof bytes, &right, 5);
    memcpy(before, bytes, sizeof bytes);
    ck_assert(!frame_open(&wrong, bytes, sizeof bytes));
    ck_assert_mem_eq(bytes, before, sizeof bytes);
    ck_assert(frame_open(&right, bytes, sizeof bytes));
    ck_assert_uint_eq(load_le64(bytes + FRAME_HASH_AT), 0);
}
END_TEST

/* T54: no flipped bit, truncation, extension or overwritten stretch passes. */
START_TEST(frame__T54_every_damage_is_found)
{
    enum { LEN = 200 };
    struct frame_key key;
    uint8_t good[LEN + 64];
    uint8_t bad[LEN + 64];
    uint64_t random = suite_seed(0);
    int passed = 0;

    frame_key_init(&key, 99);
    memset(good, 0, sizeof good);
    make_data(good, LEN, &key, 42);
    for (size_t bit = 0; bit < LEN * 8; bit++) {
        memcpy(bad, good, LEN);
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert(!frame_open(&key, bad, LEN));
    }
    for (size_t len = FRAME_PREFIX; len < sizeof good; len++) {
        memcpy(bad, good, sizeof good);
        ck_assert_int_eq(frame_open(&key, bad, len), len == LEN);
    }
    for (int i = 0; i < 100000; i++) {
        const size_t at = prng_splitmix64(&random) % LEN;
        const size_t len = 1 + prng_splitmix64(&random) % (LEN - at);

        memcpy(bad, good, LEN);
        if (i % 2 == 0)
            memset(bad + at, 0, len);
        else
            fill(bad + at, len, random);
        passed += memcmp(bad, good, LEN) != 0 && frame_open(&key, bad, LEN);
    }
    ck_assert_int_eq(passed, 0);
}
END_TEST

/* T55: the prefix is covered, and a zero HASH turns nothing off. */
START_TEST(frame__T55_prefix_is_covered_and_hash_cannot_be_switched_off)
{
    struct frame_key key;
    uint8_t good[100];
    uint8_t bad[100];
    int passed = 0;

    frame_key_init(&key, 7);
    make_data(good, sizeof good, &key, 3);
    for (size_t byte = 0; byte < FRAME_PREFIX; byte++) {
        for (unsigned value = 0; value < 256; value++) {
            memcpy(bad, good, sizeof good);
            bad[byte] = (uint8_t)value;
            passed += value != good[byte] && frame_open(&key, bad, sizeof bad);
        }
    }
    ck_assert_int_eq(passed, 0);
    memcpy(bad, good, sizeof good);
    memset(bad + FRAME_HASH_AT, 0, 8);
    ck_assert(!frame_open(&key, bad, sizeof bad));
    memset(bad + FRAME_HASH_AT, 0xff, 8);
    ck_assert(!frame_open(&key, bad, sizeof bad));
}
END_TEST

/* T56: what is shorter than the prefix is malformed, and nothing beyond its end is read. */
START_TEST(frame__T56_short_datagrams_are_malformed)
{
    struct frame out;
    uint64_t random = suite_seed(0);

    for (size_t len = 0; len < FRAME_PREFIX; len++) {
        for (int i = 0; i < 100; i++) {
            uint8_t *bytes = malloc(len > 0 ? len : 1); /* exact: the sanitizer watches the end */

            ck_assert_ptr_nonnull(bytes);
            fill(bytes, len, prng_splitmix64(&random));
            ck_assert(!frame_decode(&out, bytes, len));
            free(bytes);
        }
    }
}
END_TEST

START_TEST(frame__unknown_types_and_flags_are_malformed)
{
    static const uint8_t known[] = {FRAME_DATA,       FRAME_ACK,    FRAME_UPDATE,
                                    FRAME_RETRANSMIT, FRAME_PING,   FRAME_CLOSE,
                                    FRAME_INIT,       FRAME_ACCEPT, FRAME_CONFIRM};
    struct frame out;
    uint8_t bytes[FRAME_PREFIX];

    for (unsigned type = 0; type < 256; type++) {
        struct frame frame = {.type = (uint8_t)type};

        frame_encode(&frame, bytes);
        ck_assert_int_eq(frame_decode(&out, bytes, sizeof bytes),
                         memchr(known, (int)type, sizeof known) != NULL);
    }
    for (unsigned flags = 0; flags < 256; flags++) {
        struct frame frame = {.type = FRAME_DATA, .flags = (uint8_t)flags};

        frame_encode(&frame, bytes);
        ck_assert_int_eq(frame_decode(&out, bytes, sizeof bytes), flags < 4);
        frame.type = FRAME_PING;
        frame_encode(&frame, bytes);
        ck_assert_int_eq(frame_decode(&out, bytes, sizeof bytes), flags < 2);
    }
}
END_TEST

START_TEST(frame__channel_is_checked)
{
    struct frame out;
    uint8_t bytes[FRAME_PREFIX];
    int wrong = 0;

    for (unsigned channel = 0; channel < 65536; channel++) {
        struct frame frame = {.type = FRAME_RETRANSMIT, .channel = (uint16_t)channel};

        frame_encode(&frame, bytes);
        wrong += frame_decode(&out, bytes, sizeof bytes) != (channel < RDT_CHANNELS);
        frame.type = FRAME_ACK;
        frame_encode(&frame, bytes);
        wrong += frame_decode(&out, bytes, sizeof bytes) != (channel == 0);
    }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(bytes__reader_never_passes_the_end_and_stays_failed)
{
    static const uint8_t bytes[7] = {1, 2, 3, 4, 5, 6, 7};
    struct reader r = reader_make(bytes, sizeof bytes);
    uint8_t out[4] = {9, 9, 9, 9};

    ck_assert_uint_eq(reader_u32(&r), 0x04030201u);
    ck_assert_uint_eq(reader_u64(&r), 0);
    ck_assert(r.failed);
    ck_assert_uint_eq(reader_u8(&r), 0);
    reader_copy(&r, out, sizeof out);
    ck_assert_mem_eq(out, "\0\0\0\0", 4);
    ck_assert_ptr_null(reader_take(&r, 0));
}
END_TEST

START_TEST(bytes__writer_never_passes_the_end_and_stays_failed)
{
    uint8_t bytes[8] = {0};
    struct writer w = writer_make(bytes, 7);

    writer_u32(&w, 0xa1a2a3a4u);
    writer_u32(&w, 0xffffffffu);
    ck_assert(w.failed);
    writer_u8(&w, 0xff);
    ck_assert_uint_eq(w.written, 4);
    ck_assert_mem_eq(bytes, "\xa4\xa3\xa2\xa1\0\0\0\0", 8);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        frame__golden_prefix,
        frame__golden_hash,
        frame__hash_is_xxh3_with_seed_on_every_instruction_set,
        frame__key_depends_on_both_nonces_and_their_order,
        frame__failed_open_leaves_the_bytes_for_another_key,
        frame__T54_every_damage_is_found,
        frame__T55_prefix_is_covered_and_hash_cannot_be_switched_off,
        frame__T56_short_datagrams_are_malformed,
        frame__unknown_types_and_flags_are_malformed,
        frame__channel_is_checked,
        bytes__reader_never_passes_the_end_and_stays_failed,
        bytes__writer_never_passes_the_end_and_stays_failed,
    };

    return SUITE_MAIN(argc, argv, "frame", tests);
}
