/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a chunk; see message.h.
 */
#include "message.h"

#include <assert.h>

void chunk_encode(struct writer *w, const struct chunk *chunk)
{
    unsigned flags = 0;

    assert(chunk->len <= chunk->message_len - chunk->offset);
    if (chunk->ordered)
        flags |= CHUNK_ORDERED;
    if (chunk->kind == RDT_UPDATE)
        flags |= CHUNK_UPDATE;
    writer_u32(w, chunk->message_id);
    writer_u32(w, chunk->message_len);
    writer_u32(w, chunk->offset);
    writer_u16(w, chunk->len);
    writer_u16(w, (uint16_t)flags);
    writer_u64(w, chunk->tag);
    if (chunk->kind == RDT_UPDATE)
        writer_zero(w, CHUNK_UPDATE_BYTES - CHUNK_BYTES);
}

bool chunk_decode(struct reader *r, struct chunk *out)
{
    unsigned flags;

    out->message_id = reader_u32(r);
    out->message_len = reader_u32(r);
    out->offset = reader_u32(r);
    out->len = reader_u16(r);
    flags = reader_u16(r);
    out->tag = reader_u64(r);
    if (flags & ~(unsigned)CHUNK_FLAGS_ALL)
        return false;
    out->ordered = (flags & CHUNK_ORDERED) != 0;
    out->kind = (flags & CHUNK_UPDATE) ? RDT_UPDATE : RDT_DATA;
    if (out->kind == RDT_UPDATE && reader_u64(r) != 0)
        return false; /* a loss budget, which this version does not speak */
    out->payload = reader_take(r, out->len);
    if (r->failed || out->offset > out->message_len)
        return false;
    if (out->len > out->message_len - out->offset)
        return false;
    return out->len > 0 || out->message_len == 0;
}
