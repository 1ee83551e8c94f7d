/* SPDX-License-Identifier: MIT */

/*
 * One whole datagram of each TYPE, byte for byte as docs/protocol.md prints it.  A change here is a
 * change of the protocol: both files move together, and the version with them.
 */
#include "rdt/core/ack.h"
#include "rdt/core/frame.h"
#include "rdt/core/handshake.h"
#include "rdt/core/message.h"
#include "suite.h"

enum { CAP = 2048 };

/* The nonces 00..0f and f0..ff of both sides. */
static uint8_t client_nonce[FRAME_NONCE];
static uint8_t server_nonce[FRAME_NONCE];
static struct frame_key public_key;
static struct frame_key key;
static uint8_t bytes[CAP];
static struct writer body;

static void set_up(void)
{
    for (unsigned i = 0; i < FRAME_NONCE; i++) {
        client_nonce[i] = (uint8_t)i;
        server_nonce[i] = (uint8_t)(0xf0 + i);
    }
    frame_key_init_public(&public_key);
    frame_key_init_nonces(&key, client_nonce, server_nonce);
    memset(bytes, 0xcc, sizeof bytes);
    body = writer_make(bytes + FRAME_PREFIX, CAP - FRAME_PREFIX);
}

static const struct handshake_limits limits = {
    .credit = 8388608,
    .message_max = 65536,
    .messages = 256,
    .ack_delay_us = 1000,
    .datagram_max = 1452,
};

/* Seals what `body` holds behind this prefix.  `golden` is all of it but for zeroes at the end. */
static void assert_golden(const struct frame *frame, const struct frame_key *with,
                          const char *golden)
{
    static const char digits[] = "0123456789abcdef";
    static char hex[2 * CAP + 1];
    const size_t len = FRAME_PREFIX + body.written;
    size_t shown = len;
    struct frame out;

    ck_assert(!body.failed);
    frame_encode(frame, bytes);
    frame_seal(with, bytes, len);
    while (bytes[shown - 1] == 0)
        shown--;
    for (size_t i = 0; i < shown; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * shown] = '\0';
    ck_assert_str_eq(hex, golden);
    ck_assert(frame_decode(&out, bytes, len));
    ck_assert(frame_open(with, bytes, len));
}

static void put_payload(const char *text)
{
    writer_bytes(&body, text, strlen(text));
}

START_TEST(golden__connection_seed)
{
    ck_assert_uint_eq(public_key.seed, 0x6572697764617247u);
    ck_assert_uint_eq(key.seed, 0x32dff92c2898c0b8u);
}
END_TEST

START_TEST(golden__init)
{
    const struct frame frame = {.seq = 0, .type = FRAME_INIT};
    struct handshake_init init = {.cid = 0x11223344, .limits = limits};

    memcpy(init.nonce, client_nonce, FRAME_NONCE);
    handshake_encode_init(&body, &init, HANDSHAKE_PAD);
    ck_assert_uint_eq(FRAME_PREFIX + body.written, HANDSHAKE_PAD);
    assert_golden(&frame, &public_key,
                  "00000000000000001000000000000000f6dacc8608d6a30b"
                  "0100000000000000000102030405060708090a0b0c0d0e0f4433221100000100"
                  "000100000000800000000000e8030000ac05");
}
END_TEST

START_TEST(golden__accept)
{
    const struct frame frame = {.seq = 0, .type = FRAME_ACCEPT, .cid = 0x11223344};
    struct handshake_accept accept = {
        .status = HANDSHAKE_ACCEPTED, .cid = 0x55667788, .limits = limits};

    memcpy(accept.client_nonce, client_nonce, FRAME_NONCE);
    memcpy(accept.server_nonce, server_nonce, FRAME_NONCE);
    handshake_encode_accept(&body, &accept);
    assert_golden(&frame, &public_key,
                  "0000000000000000120000004433221113faeb9f95e138df"
                  "0100000000000000000102030405060708090a0b0c0d0e0ff0f1f2f3f4f5f6f7"
                  "f8f9fafbfcfdfeff8877665500000100000100000000800000000000e8030000"
                  "ac05");
}
END_TEST

START_TEST(golden__confirm)
{
    const struct frame frame = {
        .seq = 1, .type = FRAME_CONFIRM, .flags = FRAME_ACK_NOW, .cid = 0x55667788};

    assert_golden(&frame, &key, "01000000000000001301000088776655a49c58b1f8f5abbc");
}
END_TEST

START_TEST(golden__data)
{
    const struct frame frame = {
        .seq = 2, .type = FRAME_DATA, .flags = FRAME_ACK_NOW, .channel = 1, .cid = 0x55667788};
    const struct chunk whole = {.message_id = 0, .message_len = 5, .len = 5, .tag = 42};
    const struct chunk empty = {.message_id = 0, .message_len = 0, .tag = 43, .ordered = true};

    chunk_encode(&body, &whole);
    put_payload("hello");
    chunk_encode(&body, &empty);
    assert_golden(&frame, &key,
                  "02000000000000000001010088776655a2cdae33c86652ff"
                  "000000000500000000000000050000002a0000000000000068656c6c6f000000"
                  "000000000000000000000001002b");
}
END_TEST

START_TEST(golden__update)
{
    const struct frame frame = {.seq = 3, .type = FRAME_UPDATE, .channel = 1, .cid = 0x55667788};
    const struct chunk chunk = {.message_id = 1,
                                .message_len = 1000,
                                .offset = 100,
                                .len = 4,
                                .tag = 7,
                                .kind = RDT_UPDATE};

    chunk_encode(&body, &chunk);
    put_payload("abcd");
    assert_golden(&frame, &key,
                  "030000000000000002000100887766550c7ccfa3654a0052"
                  "01000000e8030000640000000400020007000000000000000000000000000000"
                  "61626364");
}
END_TEST

START_TEST(golden__retransmit_behind_an_ack_block)
{
    const struct frame frame = {.seq = 300,
                                .type = FRAME_RETRANSMIT,
                                .flags = FRAME_ACK_FIRST,
                                .channel = 1,
                                .cid = 0x55667788};
    const struct ack ack = {
        .floor = 290, .credit = 8388608, .messages = 256, .range_count = 1, .ranges = {{0, 9}}};
    const struct chunk chunk = {.message_id = 1,
                                .message_len = 1000,
                                .offset = 100,
                                .len = 4,
                                .tag = 7,
                                .kind = RDT_UPDATE};

    ck_assert_uint_eq(ack_encode(&body, &ack), 1);
    chunk_encode(&body, &chunk);
    put_payload("abcd");
    assert_golden(&frame, &key,
                  "2c0100000000000003020100887766556ebce2afdc2689d6"
                  "0900000000000000220100000000000000008000000000000001000000000000"
                  "010000000901000000e803000064000000040002000700000000000000000000"
                  "000000000061626364");
}
END_TEST

START_TEST(golden__ack)
{
    const struct frame frame = {.seq = 4, .type = FRAME_ACK, .cid = 0x11223344};
    const struct ack ack = {.floor = 4,
                            .credit = 8454144,
                            .messages = 258,
                            .delay_us = 250,
                            .range_count = 2,
                            .ranges = {{300, 300}, {98, 298}},
                            .grant_count = 1,
                            .grants = {{.channel = 1, .message_id = 1, .upto = 65536}}};

    ck_assert_uint_eq(ack_encode(&body, &ack), 2);
    assert_golden(&frame, &key,
                  "040000000000000001000000443322111964df81594be0a6"
                  "2c010000000000000400000000000000000081000000000002010000fa000000"
                  "020001000000c801010001000000000001");
}
END_TEST

START_TEST(golden__ping)
{
    const struct frame frame = {
        .seq = 5, .type = FRAME_PING, .flags = FRAME_ACK_NOW, .cid = 0x55667788};

    writer_zero(&body, 96 - FRAME_PREFIX);
    assert_golden(&frame, &key, "0500000000000000040100008877665546aa4343637ea790");
}
END_TEST

START_TEST(golden__close)
{
    const struct frame frame = {.seq = 6, .type = FRAME_CLOSE, .cid = 0x55667788};

    writer_u32(&body, RDT_CLOSED_LOCAL);
    assert_golden(&frame, &key, "06000000000000000700000088776655c26e7d114375712a");
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        golden__connection_seed,
        golden__init,
        golden__accept,
        golden__confirm,
        golden__data,
        golden__update,
        golden__retransmit_behind_an_ack_block,
        golden__ack,
        golden__ping,
        golden__close,
    };

    set_up();
    return SUITE_MAIN(argc, argv, "golden", tests);
}
