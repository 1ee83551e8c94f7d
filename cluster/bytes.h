/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_BYTES_H
#define CLUSTER_BYTES_H

/*
 * Little-endian numbers in byte buffers.  Two cursors: a reader that never reads past the end and
 * remembers that it would have, and a writer that asserts its room (what we write, we sized).
 */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats and numbers go out as they lie");

struct wire_reader {
    const uint8_t *next;
    size_t left;
    bool failed; /* something was asked for that is not there; all reads since gave zero */
};

struct wire_writer {
    uint8_t *start;
    size_t len;
    size_t cap;
};

static inline struct wire_reader wire_reader(const void *bytes, size_t len)
{
    return (struct wire_reader){.next = bytes, .left = len};
}

/* The next `len` bytes where they lie, or NULL. */
static inline const uint8_t *read_bytes(struct wire_reader *r, size_t len)
{
    const uint8_t *bytes = r->next;

    if (r->failed || len > r->left) {
        r->failed = true;
        return NULL;
    }
    r->next += len;
    r->left -= len;
    return bytes;
}

static inline void read_into(struct wire_reader *r, void *out, size_t len)
{
    const uint8_t *bytes = read_bytes(r, len);

    if (bytes)
        memcpy(out, bytes, len);
    else
        memset(out, 0, len);
}

static inline uint8_t read_u8(struct wire_reader *r)
{
    uint8_t value;

    read_into(r, &value, sizeof value);
    return value;
}

static inline uint16_t read_u16(struct wire_reader *r)
{
    uint16_t value;

    read_into(r, &value, sizeof value);
    return value;
}

static inline uint32_t read_u32(struct wire_reader *r)
{
    uint32_t value;

    read_into(r, &value, sizeof value);
    return value;
}

static inline uint64_t read_u64(struct wire_reader *r)
{
    uint64_t value;

    read_into(r, &value, sizeof value);
    return value;
}

static inline double read_f64(struct wire_reader *r)
{
    double value;

    read_into(r, &value, sizeof value);
    return value;
}

/* Everything was there, and nothing is left over. */
static inline bool read_done(const struct wire_reader *r)
{
    return !r->failed && r->left == 0;
}

static inline struct wire_writer wire_writer(void *bytes, size_t cap)
{
    return (struct wire_writer){.start = bytes, .cap = cap};
}

static inline void write_bytes(struct wire_writer *w, const void *bytes, size_t len)
{
    assert(len <= w->cap - w->len);
    if (len > 0)
        memcpy(w->start + w->len, bytes, len);
    w->len += len;
}

static inline void write_u8(struct wire_writer *w, uint8_t value)
{
    write_bytes(w, &value, sizeof value);
}

static inline void write_u16(struct wire_writer *w, uint16_t value)
{
    write_bytes(w, &value, sizeof value);
}

static inline void write_u32(struct wire_writer *w, uint32_t value)
{
    write_bytes(w, &value, sizeof value);
}

static inline void write_u64(struct wire_writer *w, uint64_t value)
{
    write_bytes(w, &value, sizeof value);
}

static inline void write_f64(struct wire_writer *w, double value)
{
    write_bytes(w, &value, sizeof value);
}

#endif
