/* SPDX-License-Identifier: MIT */
#include "rdt/core/handshake.h"
#include "suite.h"

static uint8_t bytes[HANDSHAKE_PAD];

static const struct handshake_limits limits = {.credit = 1ull << 40,
                                               .message_max = 65536,
                                               .messages = 256,
                                               .ack_delay_us = 1000,
                                               .datagram_max = 1452};

static size_t encode_init(size_t datagram)
{
    struct handshake_init init = {.cid = 7, .limits = limits};
    struct writer w = writer_make(bytes, sizeof bytes);

    memset(init.nonce, 0xAB, sizeof init.nonce);
    handshake_encode_init(&w, &init, datagram);
    ck_assert(!w.failed);
    return w.written;
}

static bool decode_init(size_t len, struct handshake_init *out)
{
    struct reader r = reader_make(bytes, len);

    return handshake_decode_init(&r, out);
}

static size_t encode_accept(enum handshake_status status)
{
    struct handshake_accept accept = {.status = status, .cid = 9, .limits = limits};
    struct writer w = writer_make(bytes, sizeof bytes);

    memset(accept.client_nonce, 1, FRAME_NONCE);
    memset(accept.server_nonce, 2, FRAME_NONCE);
    if (status == HANDSHAKE_REFUSED) {
        accept.cid = 0;
        memset(&accept.limits, 0, sizeof accept.limits);
    }
    handshake_encode_accept(&w, &accept);
    ck_assert(!w.failed);
    return w.written;
}

static bool decode_accept(size_t len, struct handshake_accept *out)
{
    struct reader r = reader_make(bytes, len);

    return handshake_decode_accept(&r, out);
}

START_TEST(handshake__init_is_padded)
{
    struct handshake_init out;

    ck_assert_uint_eq(encode_init(HANDSHAKE_PAD) + FRAME_PREFIX, HANDSHAKE_PAD);
    ck_assert_uint_eq(encode_init(HANDSHAKE_PAD_SMALL) + FRAME_PREFIX, HANDSHAKE_PAD_SMALL);
    ck_assert(decode_init(HANDSHAKE_PAD_SMALL - FRAME_PREFIX, &out));
    ck_assert_uint_eq(out.cid, 7);
    ck_assert_uint_eq(out.nonce[15], 0xAB);
    ck_assert_mem_eq(&out.limits, &limits, sizeof limits);
}
END_TEST

START_TEST(handshake__accept_comes_back)
{
    size_t len = encode_accept(HANDSHAKE_ACCEPTED);
    struct handshake_accept out;

    ck_assert_uint_eq(len + FRAME_PREFIX, HANDSHAKE_ACCEPT_BYTES);
    ck_assert_uint_lt(HANDSHAKE_ACCEPT_BYTES, HANDSHAKE_PAD_SMALL); /* no amplification */
    ck_assert(decode_accept(len, &out));
    ck_assert_int_eq(out.status, HANDSHAKE_ACCEPTED);
    ck_assert_uint_eq(out.cid, 9);
    ck_assert_uint_eq(out.client_nonce[0], 1);
    ck_assert_uint_eq(out.server_nonce[0], 2);
    ck_assert_mem_eq(&out.limits, &limits, sizeof limits);
    for (size_t shorter = 0; shorter < len; shorter++)
        ck_assert(!decode_accept(shorter, &out));
    ck_assert(!decode_accept(len + 1, &out));
}
END_TEST

START_TEST(handshake__refusal_needs_no_limits)
{
    size_t len = encode_accept(HANDSHAKE_REFUSED);
    struct handshake_accept out;

    ck_assert(decode_accept(len, &out));
    ck_assert_int_eq(out.status, HANDSHAKE_REFUSED);
    bytes[5] = 2; /* no such status */
    ck_assert(!decode_accept(len, &out));
}
END_TEST

/* Another version, profile, cookie or an impossible limit is not understood. */
START_TEST(handshake__what_is_not_understood)
{
    static const size_t version_profile_zero_cookie[] = {0, 3, 4, 5, 6, 7};
    size_t len = encode_init(HANDSHAKE_PAD_SMALL);
    struct handshake_init out;

    for (size_t i = 0; i < 6; i++) {
        encode_init(HANDSHAKE_PAD_SMALL);
        bytes[version_profile_zero_cookie[i]] ^= 0x40;
        ck_assert(!decode_init(len, &out));
    }
    encode_init(HANDSHAKE_PAD_SMALL);
    memset(bytes + 24, 0, 4); /* CID 0 */
    ck_assert(!decode_init(len, &out));
    encode_init(HANDSHAKE_PAD_SMALL);
    memset(bytes + 28, 0, 4); /* no message fits */
    ck_assert(!decode_init(len, &out));
    encode_init(HANDSHAKE_PAD_SMALL);
    memset(bytes + 32, 0, 4); /* no message may be begun */
    ck_assert(!decode_init(len, &out));
    encode_init(HANDSHAKE_PAD_SMALL);
    store_le32(bytes + 48, HANDSHAKE_PAD_SMALL - 1); /* takes no datagram of the least size */
    ck_assert(!decode_init(len, &out));
}
END_TEST

START_TEST(handshake__waits_grow_to_a_limit)
{
    uint64_t wait = 0;

    for (unsigned i = 0; i < 30; i++) {
        uint64_t next = handshake_next_wait(wait);

        ck_assert_uint_ge(next, wait);
        ck_assert_uint_le(next, HANDSHAKE_LAST_NS);
        wait = next;
    }
    ck_assert_uint_eq(handshake_next_wait(0), HANDSHAKE_FIRST_NS);
    ck_assert_uint_eq(wait, HANDSHAKE_LAST_NS);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        handshake__init_is_padded,          handshake__accept_comes_back,
        handshake__refusal_needs_no_limits, handshake__what_is_not_understood,
        handshake__waits_grow_to_a_limit,
    };

    return SUITE_MAIN(argc, argv, "handshake", tests);
}
