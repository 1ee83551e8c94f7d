/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_BYTES_H
#define RDT_CORE_BYTES_H

/*
 * Bounds-checked little-endian loads and stores: the only way bytes of the wire are read or
 * written.  A reader or writer that ran out of room stays failed; check once, at the end.  What a
 * failed reader returns is zero; a failed writer writes nothing more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

struct writer {
    uint8_t *at;
    size_t left;
    size_t written;
    bool failed;
};

static inline uint16_t load_le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_le32(const uint8_t *p)
{
    return (uint32_t)load_le16(p) | (uint32_t)load_le16(p + 2) << 16;
}

static inline uint64_t load_le64(const uint8_t *p)
{
    return (uint64_t)load_le32(p) | (uint64_t)load_le32(p + 4) << 32;
}

static inline void store_le16(uint8_t *p, uint16_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

static inline void store_le32(uint8_t *p, uint32_t value)
{
    store_le16(p, (uint16_t)value);
    store_le16(p + 2, (uint16_t)(value >> 16));
}

static inline void store_le64(uint8_t *p, uint64_t value)
{
    store_le32(p, (uint32_t)value);
    store_le32(p + 4, (uint32_t)(value >> 32));
}

static inline struct reader reader_make(const void *bytes, size_t len)
{
    return (struct reader){.at = bytes, .left = len, .failed = false};
}

/* The next `len` bytes in place; NULL when they are not there. */
static inline const uint8_t *reader_take(struct reader *r, size_t len)
{
    const uint8_t *at = r->at;

    if (r->failed || len > r->left) {
        r->failed = true;
        return NULL;
    }
    r->at += len;
    r->left -= len;
    return at;
}

static inline uint8_t reader_u8(struct reader *r)
{
    const uint8_t *p = reader_take(r, 1);

    return p ? p[0] : 0;
}

static inline uint16_t reader_u16(struct reader *r)
{
    const uint8_t *p = reader_take(r, 2);

    return p ? load_le16(p) : 0;
}

static inline uint32_t reader_u32(struct reader *r)
{
    const uint8_t *p = reader_take(r, 4);

    return p ? load_le32(p) : 0;
}

static inline uint64_t reader_u64(struct reader *r)
{
    const uint8_t *p = reader_take(r, 8);

    return p ? load_le64(p) : 0;
}

/* Copies `len` bytes out; zeroes when they are not there. */
static inline void reader_copy(struct reader *r, void *out, size_t len)
{
    const uint8_t *p = reader_take(r, len);

    if (p)
        memcpy(out, p, len);
    else
        memset(out, 0, len);
}

static inline struct writer writer_make(void *bytes, size_t cap)
{
    return (struct writer){.at = bytes, .left = cap, .written = 0, .failed = false};
}

/* Room for the next `len` bytes, to be filled by the caller; NULL when there is none. */
static inline uint8_t *writer_take(struct writer *w, size_t len)
{
    uint8_t *at = w->at;

    if (w->failed || len > w->left) {
        w->failed = true;
        return NULL;
    }
    w->at += len;
    w->left -= len;
    w->written += len;
    return at;
}

static inline void writer_u8(struct writer *w, uint8_t value)
{
    uint8_t *p = writer_take(w, 1);

    if (p)
        p[0] = value;
}

static inline void writer_u16(struct writer *w, uint16_t value)
{
    uint8_t *p = writer_take(w, 2);

    if (p)
        store_le16(p, value);
}

static inline void writer_u32(struct writer *w, uint32_t value)
{
    uint8_t *p = writer_take(w, 4);

    if (p)
        store_le32(p, value);
}

static inline void writer_u64(struct writer *w, uint64_t value)
{
    uint8_t *p = writer_take(w, 8);

    if (p)
        store_le64(p, value);
}

static inline void writer_bytes(struct writer *w, const void *bytes, size_t len)
{
    uint8_t *p = writer_take(w, len);

    if (p && len)
        memcpy(p, bytes, len);
}

static inline void writer_zero(struct writer *w, size_t len)
{
    uint8_t *p = writer_take(w, len);

    if (p)
        memset(p, 0, len);
}

#endif
