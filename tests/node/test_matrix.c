/* SPDX-License-Identifier: MIT */
/* A node in a product, alone with a coordinator that says what it likes. */
#include "tests/cluster/random.h"

#include <cluster/blocks.h>
#include <cluster/text.h>
#include <node/worker.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t run_id = 99;
static const struct body_product product = {
    .op = BODY_MULTIPLY, .rows = 40, .inner = 6, .cols = 5, .block_rows = 16, .depth = 2};

struct bench {
    struct worker *worker;
    struct data_store store;
    struct actions actions;
    struct rdt_conn conn;
    uint64_t now;
    /* landings, by kind and step */
    struct action posts[64];
    size_t posts_count;
    void *job;
    bool aborted, exited;
    struct action results[64];
    size_t results_count;
};

static struct bench bench;

static void feed(struct input input)
{
    bench.actions.count = 0;
    worker_step(bench.worker, &input, bench.now, &bench.actions);
    for (size_t i = 0; i < bench.actions.count; i++) {
        const struct action *action = &bench.actions.items[i];

        if (action->kind == ACT_POST && bench.posts_count < 64)
            bench.posts[bench.posts_count++] = *action;
        if (action->kind == ACT_COMPUTE)
            bench.job = action->job;
        if (action->kind == ACT_ABORT)
            bench.aborted = true;
        if (action->kind == ACT_EXIT)
            bench.exited = true;
        if (action->kind == ACT_SEND && action->head.kind == MSG_RESULT && bench.results_count < 64)
            bench.results[bench.results_count++] = *action;
    }
}

static void compute(void)
{
    void *job = bench.job;

    ck_assert_ptr_nonnull(job);
    bench.job = NULL;
    worker_run(bench.worker, job);
    feed((struct input){.kind = IN_COMPUTED, .job = job});
}

static struct action *post_of(enum message_kind kind, uint64_t step)
{
    for (size_t i = 0; i < bench.posts_count; i++)
        if (bench.posts[i].head.kind == kind && bench.posts[i].head.step == step)
            return &bench.posts[i];
    return NULL;
}

/* A message that lands where it should, if anything was posted for it and it fits there. */
static void hear(struct message head, const float *floats, size_t count)
{
    struct action *post = post_of(head.kind, head.step);
    struct input input = {.kind = IN_MESSAGE, .conn = bench.conn, .head = head};

    input.head.run_id = run_id;
    input.body = (const uint8_t *)floats;
    input.body_len = count * sizeof *floats;
    input.head.body_len = (uint32_t)input.body_len;
    if (post && MESSAGE_HEADER + input.body_len <= post->cap) {
        uint8_t *buf = post->buf;

        if (count > 0)
            memcpy(buf + MESSAGE_HEADER, floats, input.body_len);
        input.body = buf + MESSAGE_HEADER;
        input.user = post->user;
        *post = bench.posts[--bench.posts_count];
    }
    feed(input);
}

static void welcome(const struct body_product *shape)
{
    uint8_t body[BODY_PRODUCT_BYTES];
    struct body_product copy = *shape;
    size_t len;

    ck_assert_int_eq(nn_blas_open(NULL, NULL), 0);
    text_format(copy.kernel, sizeof copy.kernel, "%s", nn_blas_kernel());
    len = body_product_encode(&copy, body);
    feed((struct input){.kind = IN_MESSAGE,
                        .conn = bench.conn,
                        .head = {.kind = MSG_WELCOME, .run_id = run_id, .aux = PURPOSE_PRODUCT},
                        .body = body,
                        .body_len = len});
}

static void open_bench(void)
{
    struct worker_config config = {
        .instance = 7, .name = "bench", .threads = 2, .wait_ns = UINT64_MAX};

    memset(&bench, 0, sizeof bench);
    config.store = &bench.store;
    config.peer = rdt_addr_v4(10, 0, 0, 1, 7);
    ck_assert_int_eq(worker_open(&bench.worker, &config), 0);
    bench.now = 1;
    bench.conn = (struct rdt_conn){.slot = 3, .generation = 1};
    feed((struct input){.kind = IN_TIME});
    feed((struct input){.kind = IN_CONNECTED, .conn = bench.conn});
}

static void get_ready(const struct body_product *shape)
{
    open_bench();
    welcome(shape);
    compute();
    ck_assert(!bench.aborted && !bench.exited);
}

static void close_bench(void)
{
    worker_free(bench.worker);
}

START_TEST(matrix__computes_when_b_and_a_block_are_there)
{
    float a[16 * 6], b[6 * 5], want[16 * 5];

    for (size_t i = 0; i < 16 * 6; i++)
        a[i] = (float)i;
    for (size_t i = 0; i < 6 * 5; i++)
        b[i] = 1.0f / (float)(i + 1);
    get_ready(&product);
    ck_assert_ptr_nonnull(post_of(MSG_OPERAND, 0));
    ck_assert_ptr_nonnull(post_of(MSG_BLOCK, 0));
    ck_assert_ptr_nonnull(post_of(MSG_BLOCK, 1));
    ck_assert_ptr_null(post_of(MSG_BLOCK, 2));
    hear((struct message){.kind = MSG_BLOCK, .step = 1, .aux = 16}, a, 16 * 6);
    ck_assert_ptr_null(bench.job); /* B is not there */
    hear((struct message){.kind = MSG_OPERAND}, b, 6 * 5);
    compute();
    ck_assert_uint_eq(bench.results_count, 1);
    ck_assert_uint_eq(bench.results[0].head.step, 1);
    ck_assert_uint_eq(bench.results[0].head.aux, 16);
    nn_matmul(16, 5, 6, a, b, want);
    ck_assert_mem_eq(bench.results[0].body, want, sizeof want);
    ck_assert_ptr_nonnull(post_of(MSG_BLOCK, 3)); /* the next in that landing */
    close_bench();
}
END_TEST

/* Its C is lent until the transport gives it back: another block must not be computed into it. */
START_TEST(matrix__does_not_touch_what_is_lent)
{
    static const float a[16 * 6], b[6 * 5];

    get_ready(&product);
    hear((struct message){.kind = MSG_OPERAND}, b, 6 * 5);
    hear((struct message){.kind = MSG_BLOCK, .step = 0}, a, 16 * 6);
    compute();
    hear((struct message){.kind = MSG_BLOCK, .step = 2, .aux = 16}, a, 16 * 6);
    ck_assert_ptr_null(bench.job);
    feed((struct input){.kind = IN_RELEASED, .conn = bench.conn, .user = bench.results[0].user});
    compute();
    ck_assert_uint_eq(bench.results_count, 2);
    close_bench();
}
END_TEST

START_TEST(matrix__what_does_not_fit_costs_the_connection)
{
    static const float floats[16 * 6 + 1];
    const struct {
        struct message head;
        size_t count;
    } bad[] = {
        {{.kind = MSG_OPERAND, .step = 0}, 6 * 5 - 1},
        {{.kind = MSG_OPERAND, .step = 0}, 6 * 5 + 1},
        {{.kind = MSG_OPERAND, .step = 1}, 6 * 5},
        {{.kind = MSG_OPERAND, .step = UINT64_MAX}, 6 * 5},
        {{.kind = MSG_BLOCK, .step = 0, .aux = 8}, 16 * 6},
        {{.kind = MSG_BLOCK, .step = 0, .aux = 48}, 16 * 6},
        {{.kind = MSG_BLOCK, .step = 0, .aux = UINT64_MAX - 15}, 16 * 6},
        {{.kind = MSG_BLOCK, .step = 0, .aux = 32}, 16 * 6}, /* the last has 8 rows */
        {{.kind = MSG_BLOCK, .step = 0}, 16 * 6 - 1},
        {{.kind = MSG_BLOCK, .step = 0}, 0},
        {{.kind = MSG_BLOCK, .step = 2}, 16 * 6},
        {{.kind = MSG_BLOCK, .step = UINT64_MAX}, 16 * 6},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        get_ready(&product);
        hear(bad[i].head, floats, bad[i].count);
        ck_assert_msg(bench.aborted, "case %zu", i);
        close_bench();
    }
}
END_TEST

START_TEST(matrix__survives_any_message)
{
    uint64_t state = random_seed();
    static const float floats[64 * 6];

    for (int run = 0; run < 300; run++) {
        struct body_product shape = product;

        if (run % 2) {
            shape.op = BODY_COMBINE;
            shape.inner = shape.cols;
        }
        get_ready(&shape);
        for (int i = 0; i < 40 && !bench.aborted && !bench.exited; i++) {
            uint64_t kind = random_below(&state, MSG_KIND_END - 1) + 1;
            struct message head = {.kind = random_below(&state, 3) ? MSG_BLOCK : MSG_OPERAND,
                                   .step = random_below(&state, 4),
                                   .aux = 16 * random_below(&state, 4)};
            size_t rows = head.aux == 32 ? 8 : 16;
            size_t count = head.kind == MSG_BLOCK || run % 2 ? rows * shape.inner : 30;

            if (random_below(&state, 10) == 0)
                head.kind = (enum message_kind)kind;
            if (random_below(&state, 10) == 0)
                count = random_below(&state, 100);
            hear(head, floats, count);
            if (bench.job && random_below(&state, 2))
                compute();
        }
        feed((struct input){.kind = IN_CLOSED, .conn = bench.conn});
        if (bench.job)
            compute(); /* stale by now */
        close_bench();
    }
}
END_TEST

/* From a product to a training and back: nothing of the old run is in the way. */
START_TEST(matrix__a_lost_connection_begins_anew)
{
    static const float a[16 * 6], b[6 * 5];
    struct body_product wider = product;

    wider.cols = 50;
    get_ready(&product);
    hear((struct message){.kind = MSG_OPERAND}, b, 6 * 5);
    hear((struct message){.kind = MSG_BLOCK, .step = 0}, a, 16 * 6);
    feed((struct input){.kind = IN_CLOSED, .conn = bench.conn, .reason = RDT_CLOSED_DEAD});
    bench.now += UINT64_C(60000000000);
    bench.posts_count = 0;
    bench.conn.generation++;
    feed((struct input){.kind = IN_TIME});
    feed((struct input){.kind = IN_CONNECTED, .conn = bench.conn});
    welcome(&wider);
    compute(); /* the old block: its result goes nowhere, and now there is room to prepare */
    ck_assert_uint_eq(bench.results_count, 0);
    compute();
    ck_assert_ptr_nonnull(post_of(MSG_OPERAND, 0));
    ck_assert_uint_eq(post_of(MSG_OPERAND, 0)->cap, MESSAGE_HEADER + 6 * 50 * sizeof(float));
    close_bench();
}
END_TEST

START_TEST(matrix__b25_a_b_larger_than_the_machine_is_refused_with_its_size)
{
    struct body_product huge = product;

    huge.inner = 2000000;
    huge.cols = 2000000;
    huge.block_rows = 1;
    open_bench();
    welcome(&huge);
    compute();
    ck_assert(bench.exited);
    for (size_t i = 0; i < bench.actions.count; i++) {
        if (bench.actions.items[i].kind == ACT_EXIT) {
            ck_assert_int_eq(bench.actions.items[i].code, WORKER_NOT_STARTED);
            ck_assert_ptr_nonnull(strstr(bench.actions.items[i].text, "2000000 x 2000000"));
            ck_assert_ptr_nonnull(strstr(bench.actions.items[i].text, "bytes"));
        }
    }
    close_bench();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matrix");
    TCase *tcase = tcase_create("matrix");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, matrix__computes_when_b_and_a_block_are_there);
    tcase_add_test(tcase, matrix__does_not_touch_what_is_lent);
    tcase_add_test(tcase, matrix__what_does_not_fit_costs_the_connection);
    tcase_add_test(tcase, matrix__survives_any_message);
    tcase_add_test(tcase, matrix__a_lost_connection_begins_anew);
    tcase_add_test(tcase, matrix__b25_a_b_larger_than_the_machine_is_refused_with_its_size);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
