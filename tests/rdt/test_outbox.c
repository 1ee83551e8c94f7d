/* SPDX-License-Identifier: MIT */
#include "rdt/core/outbox.h"
#include "suite.h"

enum {
    MESSAGES = 8,
    MESSAGE_MAX = 4096, /* of the peer's pool */
};

static const struct outbox_config config = {.messages_max = MESSAGES, .bytes_max = 100000};
static uint8_t body[20000];
static struct outbox outbox;
static void *memory;

static void set_up(void)
{
    memory = aligned_alloc(64, (outbox_bytes(&config) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xCC, outbox_bytes(&config));
    outbox_init(&outbox, memory, &config);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)(i * 7 + i / 256);
}

static void open_wide(void)
{
    outbox_open(&outbox, MESSAGE_MAX);
    outbox_credit(&outbox, 1 << 20, 1000);
}

static int put(size_t len, uint16_t channel)
{
    const struct rdt_message message = {.body = body, .body_len = len, .channel = channel};

    ck_assert_int_eq(outbox_check(&message), 0);
    return outbox_put(&outbox, &message);
}

static bool next(size_t room, struct piece *out)
{
    const struct piece_want want = {.room = room, .channel = RDT_CHANNELS};

    return outbox_next(&outbox, &want, out);
}

static struct sent_span span_of(const struct piece *piece)
{
    return (struct sent_span){.slot = piece->slot,
                              .generation = piece->generation,
                              .offset = piece->chunk.offset,
                              .len = piece->chunk.len};
}

START_TEST(outbox__nothing_begins_without_credit)
{
    struct piece piece;

    set_up();
    ck_assert_int_eq(put(1000, 0), 0);
    ck_assert(!next(1400, &piece));
    outbox_open(&outbox, MESSAGE_MAX);
    outbox_credit(&outbox, 1023, 1); /* it costs 1024 */
    ck_assert(!next(1400, &piece));
    outbox_credit(&outbox, 1024, 1);
    ck_assert(next(1400, &piece));
    ck_assert_int_eq(put(1, 0), 0);
    outbox_credit(&outbox, 1024 + 255, 2); /* what the first one cost is spent */
    ck_assert(!next(1400, &piece));
    outbox_credit(&outbox, 1024 + 256, 2);
    ck_assert(next(1400, &piece));
    ck_assert_int_eq(put(1, 0), 0);
    outbox_credit(&outbox, 1024 + 512, 2); /* and two messages */
    ck_assert(!next(1400, &piece));
    outbox_credit(&outbox, 1024 + 512, 3);
    ck_assert(next(1400, &piece));
    outbox_credit(&outbox, 0, 0); /* limits never shrink */
    ck_assert_uint_eq(outbox.credit_limit, 1024 + 512);
    ck_assert_uint_eq(outbox.messages_limit, 3);
    free(memory);
}
END_TEST

START_TEST(outbox__large_ones_wait_for_their_grant)
{
    struct piece piece;
    uint32_t sent = 0;

    set_up();
    open_wide();
    ck_assert_int_eq(put(10000, 3), 0);
    while (next(1024, &piece))
        sent += piece.chunk.len;
    ck_assert_uint_eq(sent, MESSAGE_MAX);
    outbox_grant(&outbox, message_lane(3, true), 0, 10000); /* another message */
    ck_assert(!next(1024, &piece));
    outbox_grant(&outbox, message_lane(3, false), 0, 5000);
    while (next(1024, &piece))
        sent += piece.chunk.len;
    ck_assert_uint_eq(sent, 5000);
    outbox_grant(&outbox, message_lane(3, false), 0, UINT32_MAX);
    while (next(1024, &piece))
        sent += piece.chunk.len;
    ck_assert_uint_eq(sent, 10000);
    free(memory);
}
END_TEST

START_TEST(outbox__lower_channels_first_and_turns_within)
{
    struct piece piece;

    set_up();
    open_wide();
    ck_assert_int_eq(put(3000, 5), 0);
    ck_assert_int_eq(put(3000, 5), 0);
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(piece.chunk.message_id, 0);
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(piece.chunk.message_id, 1);
    ck_assert_int_eq(put(10, 2), 0);
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(piece.channel, 2);
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(piece.channel, 5);
    ck_assert_uint_eq(piece.chunk.message_id, 0);
    ck_assert_uint_eq(piece.chunk.offset, 1000);
    free(memory);
}
END_TEST

START_TEST(outbox__lost_bytes_go_first_and_are_repeats)
{
    struct piece first;
    struct piece piece;

    set_up();
    open_wide();
    ck_assert_int_eq(put(3000, 0), 0);
    ck_assert(next(1024, &first));
    ck_assert(!first.repeat);
    ck_assert(next(1024, &piece));
    outbox_lost(&outbox, span_of(&first));
    ck_assert(next(524, &piece));
    ck_assert(piece.repeat);
    ck_assert_uint_eq(piece.chunk.offset, 0);
    ck_assert_uint_eq(piece.chunk.len, 500);
    ck_assert(next(1024, &piece));
    ck_assert(piece.repeat);
    ck_assert_uint_eq(piece.chunk.offset, 500);
    ck_assert_uint_eq(piece.chunk.len, 500);
    ck_assert(next(1024, &piece));
    ck_assert(!piece.repeat);
    ck_assert_uint_eq(piece.chunk.offset, 2000);
    free(memory);
}
END_TEST

START_TEST(outbox__late_acknowledgement_takes_a_repeat_back)
{
    struct piece first;
    struct piece piece;

    set_up();
    open_wide();
    ck_assert_int_eq(put(1500, 0), 0);
    ck_assert(next(1024, &first));
    ck_assert(next(1024, &piece));
    outbox_lost(&outbox, span_of(&first));
    ck_assert(!outbox_acked(&outbox, span_of(&first)));
    ck_assert(!outbox_has_work(&outbox));
    ck_assert(outbox_acked(&outbox, span_of(&piece)));
    ck_assert(!outbox_acked(&outbox, span_of(&piece))); /* once */
    ck_assert_uint_eq(outbox.unfinished, 0);
    ck_assert_uint_eq(outbox.pending_bytes, 0);
    free(memory);
}
END_TEST

START_TEST(outbox__a_slot_used_again_is_not_confused)
{
    struct piece old;
    struct piece piece;

    set_up();
    open_wide();
    ck_assert_int_eq(put(100, 0), 0);
    ck_assert(next(1024, &old));
    ck_assert(outbox_acked(&outbox, span_of(&old)));
    outbox_free(&outbox, old.slot);
    ck_assert_int_eq(put(100, 0), 0);
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(piece.slot, old.slot);
    ck_assert(!outbox_acked(&outbox, span_of(&old)));
    outbox_lost(&outbox, span_of(&old));
    ck_assert(!outbox_has_work(&outbox));
    ck_assert(outbox_acked(&outbox, span_of(&piece)));
    free(memory);
}
END_TEST

START_TEST(outbox__message_of_no_bytes)
{
    struct piece piece;

    set_up();
    open_wide();
    ck_assert_int_eq(put(0, 0), 0);
    ck_assert(next(CHUNK_BYTES, &piece));
    ck_assert_uint_eq(piece.chunk.len, 0);
    ck_assert(!piece.repeat);
    ck_assert(!next(1024, &piece));
    outbox_lost(&outbox, span_of(&piece));
    ck_assert(next(1024, &piece));
    ck_assert(piece.repeat);
    ck_assert(outbox_acked(&outbox, span_of(&piece)));
    free(memory);
}
END_TEST

START_TEST(outbox__payload_spans_head_and_body)
{
    uint8_t out[20];
    struct piece piece;
    const struct rdt_message message = {
        .head = "HEADHEAD", .head_len = 8, .body = body, .body_len = 12};

    set_up();
    open_wide();
    ck_assert_int_eq(outbox_put(&outbox, &message), 0);
    ck_assert(next(CHUNK_BYTES + 5, &piece));
    outbox_copy(&outbox, &piece, out);
    ck_assert(next(CHUNK_BYTES + 100, &piece));
    outbox_copy(&outbox, &piece, out + 5);
    ck_assert_mem_eq(out, "HEADHEAD", 8);
    ck_assert_mem_eq(out + 8, body, 12);
    free(memory);
}
END_TEST

START_TEST(outbox__full_says_so_once_it_is_not)
{
    struct piece piece;

    set_up();
    open_wide();
    for (int i = 0; i < MESSAGES; i++)
        ck_assert_int_eq(put(100, 0), 0);
    ck_assert(!outbox_take_writable(&outbox)); /* nobody was turned away */
    ck_assert_int_eq(put(100, 0), RDT_EAGAIN);
    ck_assert(!outbox_take_writable(&outbox));
    ck_assert(next(1024, &piece));
    ck_assert(outbox_acked(&outbox, span_of(&piece)));
    ck_assert(!outbox_take_writable(&outbox)); /* its slot waits for the event to be taken */
    outbox_free(&outbox, piece.slot);
    ck_assert(outbox_take_writable(&outbox));
    ck_assert(!outbox_take_writable(&outbox));
    ck_assert_int_eq(put(100, 0), 0);
    free(memory);
}
END_TEST

START_TEST(outbox__byte_limit_but_for_a_single_one)
{
    struct piece piece;
    const struct rdt_message huge = {.body = body, .body_len = 100001};

    set_up();
    open_wide();
    ck_assert_int_eq(outbox_put(&outbox, &huge), 0); /* nothing else is pending */
    ck_assert_int_eq(put(1, 0), RDT_EAGAIN);
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(outbox_abort_next(&outbox), piece.slot);
    ck_assert_uint_eq(outbox_abort_next(&outbox), UINT32_MAX);
    outbox_free(&outbox, piece.slot);
    ck_assert(outbox_take_writable(&outbox));
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(put(20000, 0), 0);
    ck_assert_int_eq(put(1, 0), RDT_EAGAIN);
    free(memory);
}
END_TEST

/* Numbers in use of one lane span a window; the peer's memory of them is no longer. */
START_TEST(outbox__lane_window_holds_up_its_channel_only)
{
    struct piece old;
    struct piece piece;

    set_up();
    outbox_open(&outbox, MESSAGE_MAX);
    outbox_credit(&outbox, UINT64_MAX, 1u << 30);
    ck_assert_int_eq(put(10, 1), 0); /* number 0 never finishes */
    ck_assert(next(1024, &old));
    for (uint32_t id = 1; id < MESSAGE_WINDOW; id++) {
        ck_assert_int_eq(put(10, 1), 0);
        ck_assert(next(1024, &piece));
        ck_assert_uint_eq(piece.chunk.message_id, id);
        ck_assert(outbox_acked(&outbox, span_of(&piece)));
        outbox_free(&outbox, piece.slot);
    }
    ck_assert_int_eq(put(10, 1), 0);
    ck_assert(!next(1024, &piece));
    ck_assert_int_eq(put(10, 2), 0);
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(piece.channel, 2);
    ck_assert(outbox_acked(&outbox, span_of(&old)));
    ck_assert(next(1024, &piece));
    ck_assert_uint_eq(piece.chunk.message_id, MESSAGE_WINDOW);
    free(memory);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        outbox__nothing_begins_without_credit,
        outbox__large_ones_wait_for_their_grant,
        outbox__lower_channels_first_and_turns_within,
        outbox__lost_bytes_go_first_and_are_repeats,
        outbox__late_acknowledgement_takes_a_repeat_back,
        outbox__a_slot_used_again_is_not_confused,
        outbox__message_of_no_bytes,
        outbox__payload_spans_head_and_body,
        outbox__full_says_so_once_it_is_not,
        outbox__byte_limit_but_for_a_single_one,
        outbox__lane_window_holds_up_its_channel_only,
    };

    return SUITE_MAIN(argc, argv, "outbox", tests);
}
