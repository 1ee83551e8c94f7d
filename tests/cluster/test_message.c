/* SPDX-License-Identifier: MIT */
#include "random.h"

#include <cluster/message.h>
#include <cluster/step.h>
#include <cluster/tree.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The example of docs/protocol.md. */
static const struct message example = {
    .kind = MSG_PARTIAL,
    .run_id = UINT64_C(0x1122334455667788),
    .view = 3,
    .step = 0x0102030405,
    .first = 4,
    .count = 2,
    .aux = 0,
    .hash = UINT64_C(0x99aabbccddeeff00),
    .body_len = 16,
};

static const uint8_t golden[MESSAGE_HEADER] = {
    0x01, 0x08, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
    0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x04, 0x03, 0x02, 0x01, 0x00, 0x00, 0x00,
    0x04, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static bool equal(const struct message *a, const struct message *b)
{
    return a->kind == b->kind && a->run_id == b->run_id && a->view == b->view &&
           a->step == b->step && a->first == b->first && a->count == b->count && a->aux == b->aux &&
           a->hash == b->hash && a->body_len == b->body_len;
}

START_TEST(message__header_has_its_golden_bytes)
{
    uint8_t bytes[MESSAGE_HEADER + 16] = {0};
    struct message back;

    message_encode(&example, bytes);
    ck_assert_mem_eq(bytes, golden, sizeof golden);
    ck_assert(message_decode(&back, bytes, sizeof bytes));
    ck_assert(equal(&back, &example));
}
END_TEST

START_TEST(message__round_trip_keeps_every_field)
{
    uint64_t state = random_seed();

    for (int i = 0; i < 10000; i++) {
        uint32_t body_len = (uint32_t)random_below(&state, 64);
        uint8_t bytes[MESSAGE_HEADER + 64];
        struct message back;
        struct message message = {
            .kind = (enum message_kind)(1 + random_below(&state, MSG_KIND_END - 1)),
            .run_id = random_next(&state),
            .view = random_next(&state),
            .step = random_next(&state),
            .first = (uint32_t)random_next(&state),
            .count = (uint32_t)random_next(&state),
            .aux = random_next(&state),
            .hash = random_next(&state),
            .body_len = body_len,
        };

        message_encode(&message, bytes);
        ck_assert(message_decode(&back, bytes, MESSAGE_HEADER + body_len));
        ck_assert(equal(&back, &message));
    }
}
END_TEST

START_TEST(message__every_wrong_length_is_garbage)
{
    uint8_t bytes[MESSAGE_HEADER + 32] = {0};
    struct message out;

    memcpy(bytes, golden, sizeof golden);
    for (size_t len = 0; len <= sizeof bytes; len++)
        ck_assert_int_eq(message_decode(&out, bytes, len), len == MESSAGE_HEADER + 16);
}
END_TEST

START_TEST(message__version_kind_and_zero_bytes_are_checked)
{
    uint8_t bytes[MESSAGE_HEADER + 16] = {0};
    static const size_t reserved[] = {2, 3, 56, 57, 58, 59, 60, 61, 62, 63};
    struct message out;

    memcpy(bytes, golden, sizeof golden);
    for (int version = 0; version < 256; version++) {
        bytes[0] = (uint8_t)version;
        ck_assert_int_eq(message_decode(&out, bytes, sizeof bytes), version == MESSAGE_VERSION);
    }
    bytes[0] = MESSAGE_VERSION;
    for (int kind = 0; kind < 256; kind++) {
        bytes[1] = (uint8_t)kind;
        ck_assert_int_eq(message_decode(&out, bytes, sizeof bytes),
                         kind > 0 && kind < MSG_KIND_END);
    }
    bytes[1] = MSG_PARTIAL;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        bytes[reserved[i]] = 1;
        ck_assert(!message_decode(&out, bytes, sizeof bytes));
        bytes[reserved[i]] = 0;
    }
    ck_assert(message_decode(&out, bytes, sizeof bytes));
}
END_TEST

/* Exactly sized heap blocks: a sanitizer sees a read past the end. */
START_TEST(message__random_bytes_never_crash)
{
    uint64_t state = random_seed();
    unsigned taken = 0;

    for (int i = 0; i < 100000; i++) {
        size_t len = random_below(&state, 130);
        uint8_t *bytes = malloc(len + (len == 0));
        struct message out = {.kind = MSG_JOIN};

        ck_assert_ptr_nonnull(bytes);
        random_fill(&state, bytes, len);
        if (message_decode(&out, bytes, len)) {
            ck_assert_uint_eq(out.body_len, len - MESSAGE_HEADER);
            taken++;
        }
        free(bytes);
    }
    ck_assert_uint_eq(taken, 0);
}
END_TEST

START_TEST(message__tags_are_unique_for_bulk_and_zero_for_control)
{
    struct message a = {.kind = MSG_PARTIAL, .first = 4095, .count = 1, .step = 7};
    struct message b = a;

    ck_assert_uint_ne(message_tag(&a), 0);
    b.step = 8;
    ck_assert_uint_ne(message_tag(&a), message_tag(&b));
    b = a;
    b.first = 4094;
    ck_assert_uint_ne(message_tag(&a), message_tag(&b));
    b = a;
    b.count = TREE_LEAVES_MAX;
    ck_assert_uint_ne(message_tag(&a), message_tag(&b));
    b = a;
    b.kind = MSG_WEIGHTS;
    ck_assert_uint_ne(message_tag(&a), message_tag(&b));
    for (unsigned kind = 1; kind < MSG_KIND_END; kind++) {
        a.kind = (enum message_kind)kind;
        ck_assert_int_eq(message_tag(&a) == 0, message_channel(a.kind) == CHANNEL_CONTROL);
    }
}
END_TEST

START_TEST(message__names_and_types_are_those_of_the_protocol)
{
    static const char *const names[MSG_KIND_END] = {
        "unknown", "JOIN",   "WELCOME", "REFUSE", "READY",     "SAMPLES",
        "WEIGHTS", "STEP",   "PARTIAL", "EVAL",   "EVALUATED", "OPERAND",
        "BLOCK",   "RESULT", "STATS",   "LEAVE",  "BYE"};

    for (unsigned kind = 0; kind < MSG_KIND_END; kind++) {
        ck_assert_str_eq(message_name((enum message_kind)kind), names[kind]);
        ck_assert_int_eq(message_is_update((enum message_kind)kind),
                         kind == MSG_WEIGHTS || kind == MSG_PARTIAL);
    }
}
END_TEST

START_TEST(actions__add_gives_zeroed_actions_in_order)
{
    struct actions *actions = malloc(sizeof *actions);

    ck_assert_ptr_nonnull(actions);
    memset(actions, 0xCC, sizeof *actions);
    actions->count = 0;
    for (size_t i = 0; i < ACTIONS_MAX; i++) {
        struct action *action = actions_add(actions, ACT_SEND);

        ck_assert_ptr_eq(action, &actions->items[i]);
        ck_assert_int_eq(action->kind, ACT_SEND);
        ck_assert_ptr_null(action->body);
        ck_assert_uint_eq(action->conn.generation, 0);
        ck_assert_str_eq(action->text, "");
    }
    ck_assert_uint_eq(actions->count, ACTIONS_MAX);
    free(actions);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tcase = tcase_create("message");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, message__header_has_its_golden_bytes);
    tcase_add_test(tcase, message__round_trip_keeps_every_field);
    tcase_add_test(tcase, message__every_wrong_length_is_garbage);
    tcase_add_test(tcase, message__version_kind_and_zero_bytes_are_checked);
    tcase_add_test(tcase, message__random_bytes_never_crash);
    tcase_add_test(tcase, message__tags_are_unique_for_bulk_and_zero_for_control);
    tcase_add_test(tcase, message__names_and_types_are_those_of_the_protocol);
    tcase_add_test(tcase, actions__add_gives_zeroed_actions_in_order);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
