/* SPDX-License-Identifier: MIT */
#include <cluster/bytes.h>
#include <cluster/message.h>
#include <cluster/tree.h>

#include <assert.h>

/*
 * Offsets: 0 version, 1 kind, 2 zero (2), 4 body_len, 8 run_id, 16 view, 24 step, 32 first, 36
 * count, 40 aux, 48 hash, 56 zero (8).
 */

enum { TAG_KIND_BITS = 5, TAG_FIRST_BITS = 12, TAG_COUNT_BITS = 13, TAG_STEP_BITS = 34 };

static_assert(TAG_KIND_BITS + TAG_FIRST_BITS + TAG_COUNT_BITS + TAG_STEP_BITS == 64, "one u64");
static_assert(MSG_KIND_END <= 1 << TAG_KIND_BITS, "a kind fits the tag");
static_assert(TREE_LEAVES_MAX <= 1 << TAG_FIRST_BITS, "a first leaf fits the tag");
static_assert(TREE_LEAVES_MAX < 1 << TAG_COUNT_BITS, "a count of leaves fits the tag");

void message_encode(const struct message *message, uint8_t out[MESSAGE_HEADER])
{
    struct wire_writer w = wire_writer(out, MESSAGE_HEADER);

    assert(message->kind > 0);
    assert(message->kind < MSG_KIND_END);
    write_u8(&w, MESSAGE_VERSION);
    write_u8(&w, (uint8_t)message->kind);
    write_u16(&w, 0);
    write_u32(&w, message->body_len);
    write_u64(&w, message->run_id);
    write_u64(&w, message->view);
    write_u64(&w, message->step);
    write_u32(&w, message->first);
    write_u32(&w, message->count);
    write_u64(&w, message->aux);
    write_u64(&w, message->hash);
    write_u64(&w, 0);
    assert(w.len == MESSAGE_HEADER);
}

bool message_decode(struct message *out, const uint8_t *bytes, size_t len)
{
    struct wire_reader r = wire_reader(bytes, len);
    uint8_t version = read_u8(&r);
    uint8_t kind = read_u8(&r);
    uint16_t zero = read_u16(&r);
    struct message message = {.body_len = read_u32(&r)};

    message.run_id = read_u64(&r);
    message.view = read_u64(&r);
    message.step = read_u64(&r);
    message.first = read_u32(&r);
    message.count = read_u32(&r);
    message.aux = read_u64(&r);
    message.hash = read_u64(&r);
    if (read_u64(&r) != 0 || zero != 0 || r.failed)
        return false;
    if (version != MESSAGE_VERSION || kind == 0 || kind >= MSG_KIND_END)
        return false;
    if (message.body_len != r.left)
        return false;
    message.kind = (enum message_kind)kind;
    *out = message;
    return true;
}

const char *message_name(enum message_kind kind)
{
    switch (kind) {
    case MSG_JOIN:
        return "JOIN";
    case MSG_WELCOME:
        return "WELCOME";
    case MSG_REFUSE:
        return "REFUSE";
    case MSG_READY:
        return "READY";
    case MSG_SAMPLES:
        return "SAMPLES";
    case MSG_WEIGHTS:
        return "WEIGHTS";
    case MSG_STEP:
        return "STEP";
    case MSG_PARTIAL:
        return "PARTIAL";
    case MSG_EVAL:
        return "EVAL";
    case MSG_EVALUATED:
        return "EVALUATED";
    case MSG_OPERAND:
        return "OPERAND";
    case MSG_BLOCK:
        return "BLOCK";
    case MSG_RESULT:
        return "RESULT";
    case MSG_STATS:
        return "STATS";
    case MSG_LEAVE:
        return "LEAVE";
    case MSG_BYE:
        return "BYE";
    case MSG_KIND_END:
        break;
    }
    return "unknown";
}

bool message_is_update(enum message_kind kind)
{
    return kind == MSG_WEIGHTS || kind == MSG_PARTIAL;
}

uint16_t message_channel(enum message_kind kind)
{
    switch (kind) {
    case MSG_SAMPLES:
    case MSG_WEIGHTS:
    case MSG_PARTIAL:
    case MSG_OPERAND:
    case MSG_BLOCK:
    case MSG_RESULT:
        return CHANNEL_BULK;
    case MSG_JOIN:
    case MSG_WELCOME:
    case MSG_REFUSE:
    case MSG_READY:
    case MSG_STEP:
    case MSG_EVAL:
    case MSG_EVALUATED:
    case MSG_STATS:
    case MSG_LEAVE:
    case MSG_BYE:
    case MSG_KIND_END:
        break;
    }
    return CHANNEL_CONTROL;
}

uint64_t message_tag(const struct message *message)
{
    uint64_t tag = (uint64_t)message->kind;

    if (message_channel(message->kind) == CHANNEL_CONTROL)
        return 0;
    tag = tag << TAG_FIRST_BITS | (message->first & ((1u << TAG_FIRST_BITS) - 1));
    tag = tag << TAG_COUNT_BITS | (message->count & ((1u << TAG_COUNT_BITS) - 1));
    return tag << TAG_STEP_BITS | (message->step & ((UINT64_C(1) << TAG_STEP_BITS) - 1));
}
