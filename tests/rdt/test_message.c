/* SPDX-License-Identifier: MIT */
#include "rdt/core/message.h"
#include "suite.h"

static uint8_t bytes[100];

static size_t encode(const struct chunk *chunk, const char *payload)
{
    struct writer w = writer_make(bytes, sizeof bytes);

    chunk_encode(&w, chunk);
    writer_bytes(&w, payload, chunk->len);
    ck_assert(!w.failed);
    return w.written;
}

static bool decode(size_t len, struct chunk *out)
{
    struct reader r = reader_make(bytes, len);

    return chunk_decode(&r, out) && r.left == 0;
}

START_TEST(chunk__golden_bytes)
{
    static const uint8_t golden[] = {4, 3, 2, 1, 9, 0, 0, 0, 6, 0, 0,   0,   3,  0,
                                     1, 0, 8, 7, 6, 5, 4, 3, 2, 1, 'a', 'b', 'c'};
    const struct chunk chunk = {.message_id = 0x01020304,
                                .message_len = 9,
                                .offset = 6,
                                .len = 3,
                                .ordered = true,
                                .tag = 0x0102030405060708};

    ck_assert_uint_eq(encode(&chunk, "abc"), sizeof golden);
    ck_assert_mem_eq(bytes, golden, sizeof golden);
}
END_TEST

START_TEST(chunk__comes_back_as_it_went)
{
    for (unsigned i = 0; i < 4; i++) {
        const struct chunk chunk = {.message_id = UINT32_MAX,
                                    .message_len = UINT32_MAX,
                                    .offset = UINT32_MAX - 5,
                                    .len = 5,
                                    .ordered = (i & 1) != 0,
                                    .kind = (i & 2) ? RDT_UPDATE : RDT_DATA,
                                    .tag = UINT64_MAX};
        size_t len = encode(&chunk, "hello");
        struct chunk out;

        ck_assert_uint_eq(len, chunk_header_bytes(chunk.kind) + 5);
        ck_assert(decode(len, &out));
        ck_assert_uint_eq(out.message_id, chunk.message_id);
        ck_assert_uint_eq(out.message_len, chunk.message_len);
        ck_assert_uint_eq(out.offset, chunk.offset);
        ck_assert_uint_eq(out.len, 5);
        ck_assert_uint_eq(out.tag, chunk.tag);
        ck_assert_int_eq(out.ordered, chunk.ordered);
        ck_assert_int_eq(out.kind, chunk.kind);
        ck_assert_mem_eq(out.payload, "hello", 5);
        for (size_t shorter = 0; shorter < len; shorter++)
            ck_assert(!decode(shorter, &out));
    }
}
END_TEST

START_TEST(chunk__unknown_flags_are_malformed)
{
    const struct chunk chunk = {.message_len = 1, .len = 1};
    size_t len = encode(&chunk, "x");
    struct chunk out;

    for (unsigned bit = 2; bit < 16; bit++) {
        encode(&chunk, "x");
        bytes[14 + bit / 8] |= (uint8_t)(1u << bit % 8);
        ck_assert(!decode(len, &out));
    }
}
END_TEST

START_TEST(chunk__loss_budget_is_malformed)
{
    const struct chunk chunk = {.message_len = 1, .len = 1, .kind = RDT_UPDATE};
    size_t len = encode(&chunk, "x");
    struct chunk out;

    for (size_t at = CHUNK_BYTES; at < CHUNK_UPDATE_BYTES; at++) {
        encode(&chunk, "x");
        bytes[at] = 1;
        ck_assert(!decode(len, &out));
    }
}
END_TEST

START_TEST(chunk__bounds)
{
    static const struct {
        uint32_t message_len;
        uint32_t offset;
        uint16_t len;
        bool is_sound;
    } cases[] = {
        {0, 0, 0, true},          {1, 0, 0, false},   {1, 1, 0, false},  {0, 1, 0, false},
        {10, 9, 1, true},         {10, 10, 1, false}, {10, 9, 2, false}, {10, UINT32_MAX, 2, false},
        {UINT32_MAX, 0, 9, true}, {0, 0, 1, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chunk out;

        memset(bytes, 0, sizeof bytes);
        store_le32(bytes + 4, cases[i].message_len);
        store_le32(bytes + 8, cases[i].offset);
        store_le16(bytes + 12, cases[i].len);
        ck_assert_msg(decode(CHUNK_BYTES + cases[i].len, &out) == cases[i].is_sound, "case %zu", i);
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        chunk__golden_bytes,
        chunk__comes_back_as_it_went,
        chunk__unknown_flags_are_malformed,
        chunk__loss_budget_is_malformed,
        chunk__bounds,
    };

    return SUITE_MAIN(argc, argv, "message", tests);
}
