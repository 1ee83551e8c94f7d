/* SPDX-License-Identifier: MIT */

/*
 * The prefix of a datagram and its hash.
 *
 * DESIGN: xxHash chooses its instruction set when it is compiled, and a library for any CPU must
 * choose when it runs.  So the build compiles this file several times: once whole, and once per
 * instruction set with FRAME_HASH_VARIANT naming the one function to define (rdt/CMakeLists.txt).
 * All give the same value; only the time differs, by a factor of four.
 */

#define XXH_INLINE_ALL
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "frame.h"

#include "bytes.h"

#include <assert.h>

#include <rdt/rdt.h>

static uint64_t hash_keyed(const struct frame_key *key, const void *bytes, size_t len)
{
    return XXH3_64bits_withSecretandSeed(bytes, len, key->secret, sizeof key->secret, key->seed);
}

#ifdef FRAME_HASH_VARIANT

uint64_t FRAME_HASH_VARIANT(const struct frame_key *key, const void *bytes, size_t len);

uint64_t FRAME_HASH_VARIANT(const struct frame_key *key, const void *bytes, size_t len)
{
    return hash_keyed(key, bytes, len);
}

#else

enum instruction_set {
    SET_BASE,
    SET_AVX2,
    SET_AVX512,
};

#ifdef FRAME_HASH_X86
uint64_t frame_hash_avx2(const struct frame_key *key, const void *bytes, size_t len);
uint64_t frame_hash_avx512(const struct frame_key *key, const void *bytes, size_t len);
#endif

/* Seed of the datagrams that come before a connection has its own: "Gradwire" in ASCII. */
static const uint64_t public_seed = 0x6572697764617247u;

static_assert(sizeof((struct frame_key *)0)->secret == XXH_SECRET_DEFAULT_SIZE, "one secret");
static_assert(FRAME_HASH_AT + sizeof(uint64_t) == FRAME_PREFIX, "HASH ends the prefix");

bool frame_has_chunks(enum frame_type type)
{
    return type == FRAME_DATA || type == FRAME_UPDATE || type == FRAME_RETRANSMIT;
}

static bool is_known(uint8_t type)
{
    switch ((enum frame_type)type) {
    case FRAME_DATA:
    case FRAME_ACK:
    case FRAME_UPDATE:
    case FRAME_RETRANSMIT:
    case FRAME_PING:
    case FRAME_CLOSE:
    case FRAME_INIT:
    case FRAME_ACCEPT:
    case FRAME_CONFIRM:
        return true;
    }
    return false;
}

bool frame_decode(struct frame *out, const uint8_t *bytes, size_t len)
{
    struct reader r = reader_make(bytes, len);
    bool chunks;

    out->seq = reader_u64(&r);
    out->type = reader_u8(&r);
    out->flags = reader_u8(&r);
    out->channel = reader_u16(&r);
    out->cid = reader_u32(&r);
    out->hash = reader_u64(&r);
    if (r.failed || !is_known(out->type) || (out->flags & ~(unsigned)FRAME_FLAGS_ALL) != 0)
        return false;
    chunks = frame_has_chunks((enum frame_type)out->type);
    if ((out->flags & FRAME_ACK_FIRST) != 0 && !chunks)
        return false;
    return out->channel < (chunks ? RDT_CHANNELS : 1);
}

void frame_encode(const struct frame *frame, uint8_t *bytes)
{
    store_le64(bytes, frame->seq);
    bytes[8] = frame->type;
    bytes[9] = frame->flags;
    store_le16(bytes + 10, frame->channel);
    store_le32(bytes + 12, frame->cid);
    store_le64(bytes + FRAME_HASH_AT, 0);
}

static unsigned best_set(void)
{
#ifdef FRAME_HASH_X86
    if (__builtin_cpu_supports("avx512f"))
        return SET_AVX512;
    if (__builtin_cpu_supports("avx2"))
        return SET_AVX2;
#endif
    return SET_BASE;
}

void frame_key_init(struct frame_key *key, uint64_t seed)
{
    key->seed = seed;
    key->instruction_set = best_set();
    XXH3_generateSecret_fromSeed(key->secret, seed);
}

void frame_key_init_public(struct frame_key *key)
{
    frame_key_init(key, public_seed);
}

void frame_key_init_nonces(struct frame_key *key, const uint8_t client[FRAME_NONCE],
                           const uint8_t server[FRAME_NONCE])
{
    uint8_t both[2 * FRAME_NONCE];

    memcpy(both, client, FRAME_NONCE);
    memcpy(both + FRAME_NONCE, server, FRAME_NONCE);
    frame_key_init(key, frame_hash(both, sizeof both, 0));
}

static uint64_t hash_datagram(const struct frame_key *key, const uint8_t *bytes, size_t len)
{
#ifdef FRAME_HASH_X86
    if (key->instruction_set == SET_AVX512)
        return frame_hash_avx512(key, bytes, len);
    if (key->instruction_set == SET_AVX2)
        return frame_hash_avx2(key, bytes, len);
#endif
    return hash_keyed(key, bytes, len);
}

void frame_seal(const struct frame_key *key, uint8_t *bytes, size_t len)
{
    assert(len >= FRAME_PREFIX);
    store_le64(bytes + FRAME_HASH_AT, 0);
    store_le64(bytes + FRAME_HASH_AT, hash_datagram(key, bytes, len));
}

bool frame_open(const struct frame_key *key, uint8_t *bytes, size_t len)
{
    uint64_t hash;

    assert(len >= FRAME_PREFIX);
    hash = load_le64(bytes + FRAME_HASH_AT);
    store_le64(bytes + FRAME_HASH_AT, 0);
    if (hash_datagram(key, bytes, len) == hash)
        return true;
    store_le64(bytes + FRAME_HASH_AT, hash);
    return false;
}

uint64_t frame_hash(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

#endif
