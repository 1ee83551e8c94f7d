/* SPDX-License-Identifier: MIT */
/* The coordinator of a product against members that say what they like. */
#include "tests/cluster/random.h"

#include <cluster/text.h>
#include <coordinator/product.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, MANY_ROWS = 8192, BLOCK_ROWS = 8, COLS = 3, DEPTH = 3 };

static float a[MANY_ROWS * 2], b[2 * COLS], c[MANY_ROWS * COLS];
static struct product *product;
static struct actions actions;
static uint64_t now;
static uint32_t threads;

static void feed(struct input input)
{
    actions.count = 0;
    product_step(product, &input, now, &actions);
}

static const struct action *did(enum action_kind kind, enum message_kind message)
{
    for (size_t i = 0; i < actions.count; i++)
        if (actions.items[i].kind == kind &&
            (actions.items[i].head.kind == message || message == MSG_KIND_END))
            return &actions.items[i];
    return NULL;
}

static struct rdt_conn conn_of(uint32_t idx)
{
    return (struct rdt_conn){.slot = idx, .generation = 1};
}

static void hear(uint32_t idx, struct message head, const void *body, size_t len, void *user)
{
    if (head.run_id == 0)
        head.run_id = 77;
    head.body_len = (uint32_t)len;
    feed((struct input){.kind = IN_MESSAGE,
                        .conn = conn_of(idx),
                        .head = head,
                        .body = body,
                        .body_len = len,
                        .user = user});
}

static void join(uint32_t idx, const char *name)
{
    struct body_join join = {.instance = idx, .threads = threads};
    static uint8_t body[BODY_MAX];

    text_format(join.name, sizeof join.name, "%s", name);
    feed((struct input){.kind = IN_CONNECTED, .conn = conn_of(idx), .incoming = true});
    hear(idx, (struct message){.kind = MSG_JOIN}, body, body_join_encode(&join, body), NULL);
}

static void ready(uint32_t idx)
{
    struct body_ready ready = {.fingerprint = 5};
    static uint8_t body[BODY_MAX];

    hear(idx, (struct message){.kind = MSG_READY}, body, body_ready_encode(&ready, body), NULL);
}

static void open_rows(uint32_t nodes, uint64_t rows)
{
    const struct product_config config = {.run_id = 77,
                                          .shape = {.op = BODY_MULTIPLY,
                                                    .rows = rows,
                                                    .inner = 2,
                                                    .cols = COLS,
                                                    .block_rows = BLOCK_ROWS,
                                                    .depth = 1,
                                                    .kernel = "Zen"},
                                          .a = a,
                                          .b = b,
                                          .c = c,
                                          .fingerprint = 5,
                                          .nodes = nodes,
                                          .wait_ns = 1000};

    now = 1;
    threads = 1;
    memset(c, 0, sizeof c);
    ck_assert_int_eq(product_open(&product, &config), 0);
    feed((struct input){.kind = IN_TIME});
}

static void open_product(uint32_t nodes)
{
    open_rows(nodes, ROWS);
}

/* The first action of this kind, which must be there. */
static struct action must(enum action_kind kind, enum message_kind message)
{
    const struct action *action = did(kind, message);

    ck_assert_ptr_nonnull(action);
    return action ? *action : (struct action){.kind = kind};
}

static size_t sent(enum message_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < actions.count; i++)
        count += actions.items[i].kind == ACT_SEND && actions.items[i].head.kind == kind;
    return count;
}

START_TEST(product__gives_what_it_has_posted_for)
{
    struct action post;

    open_product(1);
    join(1, "one");
    ck_assert_uint_eq(must(ACT_SEND, MSG_WELCOME).head.aux, PURPOSE_PRODUCT);
    ready(1);
    ck_assert_uint_eq(sent(MSG_OPERAND), 1);
    ck_assert_uint_eq(sent(MSG_BLOCK), DEPTH);
    post = must(ACT_POST, MSG_RESULT);
    ck_assert_uint_eq(post.cap, MESSAGE_HEADER + BLOCK_ROWS * COLS * sizeof(float));
    memset((uint8_t *)post.buf + MESSAGE_HEADER, 0x41, BLOCK_ROWS * COLS * sizeof(float));
    hear(1, (struct message){.kind = MSG_RESULT, .step = post.head.step},
         (uint8_t *)post.buf + MESSAGE_HEADER, BLOCK_ROWS * COLS * sizeof(float), post.user);
    ck_assert_uint_eq(product_status(product).done, 1);
    ck_assert_mem_eq(c, (uint8_t *)post.buf + MESSAGE_HEADER, BLOCK_ROWS * COLS * sizeof(float));
    ck_assert_uint_eq(sent(MSG_BLOCK), 1);
    ck_assert_uint_eq(must(ACT_SEND, MSG_BLOCK).head.step, DEPTH); /* the same landing there */
    product_free(product);
}
END_TEST

START_TEST(product__results_that_do_not_fit_cost_the_connection)
{
    static const float floats[BLOCK_ROWS * COLS + 1];
    const size_t right = BLOCK_ROWS * COLS * sizeof(float);
    const struct {
        struct message head;
        size_t len;
        bool asked;
    } bad[] = {
        {{.kind = MSG_RESULT}, right, false},
        {{.kind = MSG_RESULT, .step = 1}, right, true},
        {{.kind = MSG_RESULT, .step = UINT64_MAX}, right, true},
        {{.kind = MSG_RESULT, .aux = BLOCK_ROWS}, right, true},
        {{.kind = MSG_RESULT}, right - 1, true},
        {{.kind = MSG_RESULT}, right + 4, true},
        {{.kind = MSG_RESULT}, 0, true},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct action post;

        open_product(1);
        join(1, "one");
        ready(1);
        post = must(ACT_POST, MSG_RESULT);
        ck_assert_uint_eq(post.head.step, 0);
        hear(1, bad[i].head, floats, bad[i].len, bad[i].asked ? post.user : NULL);
        ck_assert_msg(did(ACT_ABORT, MSG_KIND_END) != NULL, "case %zu", i);
        ck_assert_uint_eq(product_status(product).done, 0);
        feed((struct input){.kind = IN_CLOSED, .conn = conn_of(1)});
        ck_assert_uint_eq(product_status(product).again, DEPTH);
        /* Another one gets the same blocks. */
        join(2, "two");
        ready(2);
        ck_assert_uint_eq(sent(MSG_BLOCK), DEPTH);
        product_free(product);
    }
}
END_TEST

START_TEST(product__one_member_cannot_answer_for_another)
{
    struct action post;

    open_product(2);
    join(1, "one");
    join(2, "two");
    ready(1);
    ready(2);
    post = must(ACT_POST, MSG_RESULT);
    ck_assert_uint_eq(post.conn.slot, 1);
    hear(2, (struct message){.kind = MSG_RESULT, .step = post.head.step}, c,
         BLOCK_ROWS * COLS * sizeof(float), post.user);
    ck_assert_uint_eq(must(ACT_ABORT, MSG_KIND_END).conn.slot, 2);
    ck_assert_uint_eq(product_status(product).done, 0);
    product_free(product);
}
END_TEST

START_TEST(product__few_blocks_are_spread)
{
    uint32_t blocks[4] = {0};

    open_product(3);
    for (uint32_t i = 1; i <= 3; i++)
        join(i, "node");
    for (uint32_t i = 1; i <= 3; i++)
        ready(i);
    for (size_t i = 0; i < actions.count; i++)
        if (actions.items[i].kind == ACT_SEND && actions.items[i].head.kind == MSG_BLOCK)
            blocks[actions.items[i].conn.slot]++;
    ck_assert_uint_eq(blocks[1], 3); /* eight blocks */
    ck_assert_uint_eq(blocks[2], 3);
    ck_assert_uint_eq(blocks[3], 2);
    product_free(product);
}
END_TEST

static void answer(struct action post, float value)
{
    float *floats = (float *)(void *)((uint8_t *)post.buf + MESSAGE_HEADER);

    for (size_t i = 0; i < BLOCK_ROWS * COLS; i++)
        floats[i] = value;
    hear(post.conn.slot,
         (struct message){.kind = MSG_RESULT, .step = post.head.step, .aux = post.head.aux}, floats,
         BLOCK_ROWS * COLS * sizeof(float), post.user);
}

/* Takes what the actions at hand post for, with the first row of its block. */
static size_t note_posts(struct action *posts, size_t count)
{
    for (size_t i = 0; i < actions.count; i++) {
        if (actions.items[i].kind != ACT_POST)
            continue;
        posts[count] = actions.items[i];
        posts[count++].head.aux = actions.items[i + 1].head.aux;
    }
    return count;
}

/* The second node does its own blocks, then steals those of the first, which does nothing, until so
 * many have come. */
static size_t leave_one_behind(struct action posts[64], uint64_t done)
{
    size_t count = 0;

    open_product(2);
    join(1, "slow");
    join(2, "quick");
    ready(1);
    ready(2);
    count = note_posts(posts, 0);
    for (size_t i = 0; i < count && product_status(product).done < done; i++) {
        if (posts[i].conn.slot != 2)
            continue;
        answer(posts[i], 1);
        count = note_posts(posts, count);
    }
    return count;
}

START_TEST(product__blocks_of_the_slow_are_stolen)
{
    static struct action posts[64];
    size_t count = leave_one_behind(posts, 8);

    ck_assert_uint_eq(count, 8 + 3);
    ck_assert_uint_eq(product_status(product).done, 8);
    ck_assert_uint_eq(product_status(product).again, 3);
    ck_assert_uint_eq(sent(MSG_BYE), 2);
    for (size_t i = 0; i < ROWS * COLS; i++)
        ck_assert(c[i] >= 1 && c[i] <= 1);
    product_free(product);
}
END_TEST

/* Its owner is lost meanwhile: a block that has come is not given out again. */
START_TEST(product__what_was_stolen_is_not_missed)
{
    static struct action posts[64];
    size_t count = leave_one_behind(posts, 6);

    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(1), .reason = RDT_CLOSED_DEAD});
    count = note_posts(posts, count);
    /* One of the three has come, one is under way: the third is given out now. */
    ck_assert_uint_eq(sent(MSG_BLOCK), 1);
    answer(posts[count - 2], 1);
    answer(posts[count - 1], 1);
    ck_assert_uint_eq(product_status(product).done, 8);
    product_free(product);
}
END_TEST

START_TEST(product__copies_that_differ_end_the_run)
{
    static struct action posts[64];

    leave_one_behind(posts, 6);
    ck_assert_uint_eq(posts[4].conn.slot, 1); /* its newest, the one that was stolen first */
    answer(posts[4], 2);
    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(1)});
    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(2)});
    ck_assert_int_eq(must(ACT_EXIT, MSG_KIND_END).code, EXIT_OTHER);
    ck_assert_ptr_nonnull(strstr(must(ACT_EXIT, MSG_KIND_END).text, "--check"));
    product_free(product);
}
END_TEST

/* Sixty-four nodes are ready at once: more actions than one step may take. */
START_TEST(product__a_full_step_goes_on_in_the_next)
{
    size_t blocks = 0, steps = 0;

    open_rows(64, MANY_ROWS);
    threads = 30;
    for (uint32_t i = 1; i <= 64; i++)
        join(i, "node");
    for (uint32_t i = 1; i <= 64; i++) {
        ready(i);
        blocks += sent(MSG_BLOCK);
        ck_assert_uint_le(actions.count, ACTIONS_MAX - 200);
    }
    for (; steps < 100 && product_deadline(product) <= now; steps++) {
        feed((struct input){.kind = IN_TIME});
        blocks += sent(MSG_BLOCK);
        ck_assert_uint_le(actions.count, ACTIONS_MAX - 200);
    }
    ck_assert_uint_ge(steps, 2);
    ck_assert_uint_eq(blocks, MANY_ROWS / BLOCK_ROWS);
    ck_assert_uint_gt(product_deadline(product), now);
    product_free(product);
}
END_TEST

START_TEST(product__strangers_change_nothing)
{
    uint64_t state = random_seed();
    static uint8_t junk[512];

    for (int run = 0; run < 200; run++) {
        open_product(1);
        for (int i = 0; i < 60; i++) {
            uint32_t idx = 1 + (uint32_t)random_below(&state, 5);
            uint64_t what = random_below(&state, 12);
            struct message head = {
                .kind = (enum message_kind)(1 + random_below(&state, MSG_KIND_END - 1)),
                .run_id = random_below(&state, 4) ? 77 : 3,
                .step = random_below(&state, 3),
                .aux = random_below(&state, 3) * BLOCK_ROWS};

            random_fill(&state, junk, sizeof junk);
            if (what == 0)
                join(idx, "x");
            else if (what == 1)
                ready(idx);
            else if (what == 2)
                feed((struct input){.kind = IN_CLOSED, .conn = conn_of(idx)});
            else
                hear(idx, head, junk, random_below(&state, sizeof junk), NULL);
            ck_assert_ptr_null(did(ACT_EXIT, MSG_KIND_END));
        }
        ck_assert_uint_eq(product_status(product).done, 0);
        for (size_t i = 0; i < ROWS * COLS; i++)
            ck_assert(!(c[i] < 0) && !(c[i] > 0));
        product_free(product);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("product_members");
    TCase *tcase = tcase_create("product_members");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, product__gives_what_it_has_posted_for);
    tcase_add_test(tcase, product__results_that_do_not_fit_cost_the_connection);
    tcase_add_test(tcase, product__one_member_cannot_answer_for_another);
    tcase_add_test(tcase, product__few_blocks_are_spread);
    tcase_add_test(tcase, product__blocks_of_the_slow_are_stolen);
    tcase_add_test(tcase, product__what_was_stolen_is_not_missed);
    tcase_add_test(tcase, product__copies_that_differ_end_the_run);
    tcase_add_test(tcase, product__a_full_step_goes_on_in_the_next);
    tcase_add_test(tcase, product__strangers_change_nothing);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
