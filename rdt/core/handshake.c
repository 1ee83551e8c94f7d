/* SPDX-License-Identifier: MIT */
/*
 * How two endpoints that know nothing of each other exchange nonces, CIDs and limits.
 */
#include "handshake.h"

#include <assert.h>

static void put_limits(struct writer *w, const struct handshake_limits *limits)
{
    writer_u32(w, limits->message_max);
    writer_u32(w, limits->messages);
    writer_u64(w, limits->credit);
    writer_u32(w, limits->ack_delay_us);
    writer_u32(w, limits->datagram_max);
}

static bool take_limits(struct reader *r, struct handshake_limits *out)
{
    out->message_max = reader_u32(r);
    out->messages = reader_u32(r);
    out->credit = reader_u64(r);
    out->ack_delay_us = reader_u32(r);
    out->datagram_max = reader_u32(r);
    return !r->failed && out->message_max > 0 && out->messages > 0 &&
           out->datagram_max >= HANDSHAKE_PAD_SMALL;
}

void handshake_encode_init(struct writer *w, const struct handshake_init *init, size_t datagram)
{
    writer_u32(w, HANDSHAKE_VERSION);
    writer_u8(w, HANDSHAKE_PROFILE_PLAIN);
    writer_u8(w, 0);
    writer_u16(w, 0);
    writer_bytes(w, init->nonce, sizeof init->nonce);
    writer_u32(w, init->cid);
    put_limits(w, &init->limits);
    assert(w->written + FRAME_PREFIX <= datagram);
    writer_zero(w, datagram - FRAME_PREFIX - w->written);
}

bool handshake_decode_init(struct reader *r, struct handshake_init *out)
{
    bool known = reader_u32(r) == HANDSHAKE_VERSION;

    known = reader_u8(r) == HANDSHAKE_PROFILE_PLAIN && known;
    known = reader_u8(r) == 0 && known;
    known = reader_u16(r) == 0 && known;
    reader_copy(r, out->nonce, sizeof out->nonce);
    out->cid = reader_u32(r);
    return take_limits(r, &out->limits) && known && out->cid != 0;
}

void handshake_encode_accept(struct writer *w, const struct handshake_accept *accept)
{
    writer_u32(w, HANDSHAKE_VERSION);
    writer_u8(w, HANDSHAKE_PROFILE_PLAIN);
    writer_u8(w, (uint8_t)accept->status);
    writer_u16(w, 0);
    writer_bytes(w, accept->client_nonce, sizeof accept->client_nonce);
    writer_bytes(w, accept->server_nonce, sizeof accept->server_nonce);
    writer_u32(w, accept->cid);
    put_limits(w, &accept->limits);
}

bool handshake_decode_accept(struct reader *r, struct handshake_accept *out)
{
    bool known = reader_u32(r) == HANDSHAKE_VERSION;
    uint8_t status;

    known = reader_u8(r) == HANDSHAKE_PROFILE_PLAIN && known;
    status = reader_u8(r);
    known = reader_u16(r) == 0 && known;
    if (!known || status > HANDSHAKE_REFUSED)
        return false;
    out->status = (enum handshake_status)status;
    reader_copy(r, out->client_nonce, sizeof out->client_nonce);
    reader_copy(r, out->server_nonce, sizeof out->server_nonce);
    out->cid = reader_u32(r);
    if (out->status == HANDSHAKE_REFUSED)
        return reader_take(r, HANDSHAKE_LIMITS_BYTES) != NULL && r->left == 0;
    return take_limits(r, &out->limits) && out->cid != 0 && r->left == 0;
}

uint64_t handshake_next_wait(uint64_t wait_ns)
{
    uint64_t next = wait_ns == 0 ? HANDSHAKE_FIRST_NS : wait_ns / 2 * 3;

    return next < HANDSHAKE_LAST_NS ? next : HANDSHAKE_LAST_NS;
}
