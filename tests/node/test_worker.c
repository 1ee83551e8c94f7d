/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <cluster/hash.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t second = 1000000000;

START_TEST(worker__joins_by_name_and_instance)
{
    struct body_join join;
    const struct action *action;

    open_bench();
    ck_assert_uint_eq(worker_deadline(bench.worker), 0);
    tick();
    ck_assert_ptr_nonnull(did(ACT_CONNECT));
    connect_bench();
    action = sent(MSG_JOIN);
    ck_assert_ptr_nonnull(action);
    ck_assert(body_join_decode(&join, action->body, action->body_len));
    ck_assert_str_eq(join.name, "bench");
    ck_assert_uint_eq(join.instance, 77);
    close_bench();
}
END_TEST

START_TEST(worker__is_ready_when_the_run_is_prepared)
{
    struct body_ready ready;
    const struct action *action;

    open_bench();
    prepare();
    ck_assert_ptr_null(did(ACT_POST));
    action = sent(MSG_READY);
    ck_assert_ptr_nonnull(action);
    ck_assert(body_ready_decode(&ready, action->body, action->body_len));
    ck_assert_uint_eq(ready.fingerprint, bench.problem->fingerprint);
    ck_assert(ready.has_train && ready.has_test);
    close_bench();
}
END_TEST

START_TEST(worker__computes_when_step_and_weights_are_there)
{
    struct action post;
    const struct action *partial;
    struct body_trailer trailer;
    size_t parameters;

    open_bench();
    get_ready();
    post = *must(did(ACT_POST));
    parameters = nn_model_parameters(bench.problem->model);
    /* 40 samples are 5 leaves; 0 to 3 are one subtree. */
    hear((struct message){.kind = MSG_STEP, .step = 0, .first = 0, .count = 4, .view = 6}, NULL, 0,
         NULL);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    give_weights(&post);
    compute();
    partial = sent(MSG_PARTIAL);
    ck_assert_ptr_nonnull(partial);
    ck_assert_uint_eq(partial->head.first, 0);
    ck_assert_uint_eq(partial->head.count, 4);
    ck_assert_uint_eq(partial->head.view, 6);
    ck_assert_uint_eq(partial->head.run_id, 99);
    ck_assert(body_partial_decode(&trailer, parameters, partial->body, partial->body_len));
    ck_assert(trailer.finite);
    ck_assert_uint_eq(partial->head.hash, hash64(partial->body, partial->body_len));
    close_bench();
}
END_TEST

START_TEST(worker__never_computes_with_the_weights_of_another_step)
{
    struct action first, later;

    open_bench();
    get_ready();
    first = *must(did(ACT_POST));
    later = bench.actions.items[1];
    ck_assert_int_eq(later.kind, ACT_POST);
    ck_assert_uint_eq(later.head.step, 1);
    give_weights(&first);
    hear((struct message){.kind = MSG_STEP, .step = 1, .first = 0, .count = 4}, NULL, 0, NULL);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    give_weights(&later);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

START_TEST(worker__sends_one_partial_for_each_subtree)
{
    struct action post;

    open_bench();
    get_ready();
    post = *must(did(ACT_POST));
    give_weights(&post);
    /* Leaves 2 to 4 are the subtrees {2, 3} and {4}. */
    hear((struct message){.kind = MSG_STEP, .step = 0, .first = 2, .count = 3}, NULL, 0, NULL);
    compute();
    ck_assert_uint_eq(must(sent(MSG_PARTIAL))->head.first, 2);
    ck_assert_uint_eq(must(sent(MSG_PARTIAL))->head.count, 2);
    compute();
    ck_assert_uint_eq(must(sent(MSG_PARTIAL))->head.first, 4);
    ck_assert_uint_eq(must(sent(MSG_PARTIAL))->head.count, 1);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

START_TEST(worker__new_weights_free_the_place_of_the_old_ones)
{
    struct action posts[2];

    open_bench();
    get_ready();
    posts[0] = *must(did(ACT_POST));
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == ACT_POST)
            posts[1] = bench.actions.items[i];
    give_weights(&posts[0]);
    ck_assert_ptr_null(did(ACT_POST));
    give_weights(&posts[1]);
    ck_assert_ptr_nonnull(did(ACT_POST));
    ck_assert_uint_eq(must(did(ACT_POST))->head.step, 2);
    ck_assert_ptr_eq(must(did(ACT_POST))->buf, posts[0].buf);
    close_bench();
}
END_TEST

START_TEST(worker__weights_in_use_are_not_overwritten)
{
    struct action posts[2];
    void *job;

    open_bench();
    get_ready();
    posts[0] = *must(did(ACT_POST));
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == ACT_POST)
            posts[1] = bench.actions.items[i];
    give_weights(&posts[0]);
    hear((struct message){.kind = MSG_STEP, .step = 0, .first = 0, .count = 4}, NULL, 0, NULL);
    job = must(did(ACT_COMPUTE))->job;
    give_weights(&posts[1]);
    ck_assert_ptr_null(did(ACT_POST));
    worker_run(bench.worker, job);
    feed((struct input){.kind = IN_COMPUTED, .job = job});
    ck_assert_ptr_nonnull(sent(MSG_PARTIAL));
    ck_assert_uint_eq(must(did(ACT_POST))->head.step, 2);
    close_bench();
}
END_TEST

START_TEST(worker__waits_for_the_samples_it_lacks)
{
    static uint8_t body[BODY_MAX];
    struct action post;

    open_bench();
    data_store_close(&bench.store);
    get_ready();
    post = *must(did(ACT_POST));
    give_weights(&post);
    hear((struct message){.kind = MSG_STEP, .step = 0, .first = 0, .count = 4}, NULL, 0, NULL);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    body_samples_start(body, BODY_TRAIN, (uint32_t)bench_config.samples, NODE_INPUTS + 4);
    for (uint32_t i = 0; i < bench_config.samples; i++)
        body_samples_put(body, i, i, nn_dataset_get(bench.problem->train, i));
    hear((struct message){.kind = MSG_SAMPLES}, body,
         body_samples_len((uint32_t)bench_config.samples, NODE_INPUTS + 4), NULL);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    compute();
    ck_assert_ptr_nonnull(sent(MSG_PARTIAL));
    close_bench();
}
END_TEST

START_TEST(worker__samples_of_an_unknown_class_end_the_connection)
{
    static uint8_t body[BODY_MAX];
    uint8_t sample[NODE_INPUTS + 4] = {0};

    open_bench();
    data_store_close(&bench.store);
    get_ready();
    sample[NODE_INPUTS] = 200; /* the label */
    body_samples_start(body, BODY_TRAIN, 1, sizeof sample);
    body_samples_put(body, 0, 0, sample);
    hear((struct message){.kind = MSG_SAMPLES}, body, body_samples_len(1, sizeof sample), NULL);
    ck_assert_ptr_nonnull(did(ACT_ABORT));
    ck_assert_ptr_nonnull(strstr(must(did(ACT_EVENT))->text, "labels"));
    close_bench();
}
END_TEST

START_TEST(worker__refuses_a_run_whose_samples_are_not_finite)
{
    static uint8_t body[BODY_MAX];
    struct body_welcome welcome;
    const struct action *action;

    open_bench();
    tick();
    connect_bench();
    ck_assert(body_welcome_decode(&welcome, bench.problem->welcome, bench.problem->welcome_len));
    welcome.deviation = 1e-300;
    hear((struct message){.kind = MSG_WELCOME}, body, body_welcome_encode(&welcome, body), NULL);
    compute();
    action = must(did(ACT_EXIT));
    ck_assert_int_eq(action->code, WORKER_NOT_STARTED);
    ck_assert_ptr_nonnull(strstr(action->text, "not finite"));
    close_bench();
}
END_TEST

START_TEST(worker__evaluates_test_leaves)
{
    struct action post;
    const struct action *answer;
    uint32_t correct = 0;

    open_bench();
    get_ready();
    post = *must(did(ACT_POST));
    give_weights(&post);
    hear((struct message){.kind = MSG_EVAL, .step = 0, .first = 0, .count = 2}, NULL, 0, NULL);
    compute();
    answer = sent(MSG_EVALUATED);
    ck_assert_ptr_nonnull(answer);
    ck_assert(body_evaluated_ok(2, answer->body_len));
    for (uint32_t i = 0; i < 2; i++)
        correct += body_evaluated_get(answer->body, i).correct;
    ck_assert_uint_le(correct, bench_config.test_samples);
    ck_assert_uint_gt(correct, 0);
    close_bench();
}
END_TEST

START_TEST(worker__tries_again_ever_more_slowly)
{
    static const uint64_t pauses[] = {1, 2, 4, 5, 5};

    open_bench();
    tick();
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        feed((struct input){.kind = IN_CLOSED, .reason = RDT_CLOSED_TIMEOUT});
        ck_assert_uint_eq(worker_deadline(bench.worker), bench.now + pauses[i] * second);
        bench.now += pauses[i] * second;
        tick();
        ck_assert_ptr_nonnull(did(ACT_CONNECT));
    }
    close_bench();
}
END_TEST

START_TEST(worker__patience_ends)
{
    open_bench();
    tick();
    bench.now += 30 * second;
    tick();
    ck_assert_ptr_nonnull(did(ACT_EXIT));
    ck_assert_int_eq(must(did(ACT_EXIT))->code, WORKER_NOT_STARTED);
    ck_assert_ptr_nonnull(
        strstr(must(did(ACT_EXIT))->text, "no coordinator at 10.0.0.1:7 within 30 s"));
    close_bench();
}
END_TEST

START_TEST(worker__lost_coordinator_starts_patience_anew)
{
    open_bench();
    get_ready();
    bench.now += 100 * second;
    feed((struct input){.kind = IN_CLOSED, .conn = bench.conn, .reason = RDT_CLOSED_DEAD});
    ck_assert_ptr_nonnull(did(ACT_EVENT));
    ck_assert_uint_eq(worker_deadline(bench.worker), bench.now + second);
    bench.now += second;
    tick();
    connect_bench();
    hear((struct message){.kind = MSG_WELCOME}, bench.problem->welcome, bench.problem->welcome_len,
         NULL);
    compute();
    ck_assert_ptr_nonnull(sent(MSG_READY));
    close_bench();
}
END_TEST

START_TEST(worker__result_of_a_lost_run_is_dropped)
{
    struct action post;
    void *job;

    open_bench();
    get_ready();
    post = *must(did(ACT_POST));
    give_weights(&post);
    hear((struct message){.kind = MSG_STEP, .step = 0, .first = 0, .count = 4}, NULL, 0, NULL);
    job = must(did(ACT_COMPUTE))->job;
    feed((struct input){.kind = IN_CLOSED, .conn = bench.conn, .reason = RDT_CLOSED_DEAD});
    bench.now += second;
    tick();
    connect_bench();
    hear((struct message){.kind = MSG_WELCOME}, bench.problem->welcome, bench.problem->welcome_len,
         NULL);
    ck_assert_ptr_null(did(ACT_COMPUTE)); /* the compute thread has the old job */
    worker_run(bench.worker, job);
    feed((struct input){.kind = IN_COMPUTED, .job = job});
    ck_assert_ptr_null(sent(MSG_PARTIAL));
    compute();
    ck_assert_ptr_nonnull(sent(MSG_READY));
    close_bench();
}
END_TEST

START_TEST(worker__bye_ends_it_refusal_for_good_too)
{
    static uint8_t body[BODY_MAX];
    size_t len = body_refuse_encode("you are odd", body);

    open_bench();
    get_ready();
    hear((struct message){.kind = MSG_BYE}, NULL, 0, NULL);
    ck_assert_int_eq(must(did(ACT_EXIT))->code, WORKER_DONE);
    close_bench();

    open_bench();
    tick();
    connect_bench();
    hear((struct message){.kind = MSG_REFUSE, .aux = 1}, body, len, NULL);
    ck_assert_int_eq(must(did(ACT_EXIT))->code, WORKER_NOT_STARTED);
    ck_assert_ptr_nonnull(strstr(must(did(ACT_EXIT))->text, "you are odd"));
    close_bench();

    open_bench();
    tick();
    connect_bench();
    hear((struct message){.kind = MSG_REFUSE, .aux = 0}, body, len, NULL);
    ck_assert_ptr_null(did(ACT_EXIT));
    ck_assert_ptr_nonnull(did(ACT_ABORT));
    close_bench();
}
END_TEST

START_TEST(worker__stop_says_goodbye)
{
    open_bench();
    get_ready();
    feed((struct input){.kind = IN_STOP});
    ck_assert_ptr_nonnull(sent(MSG_LEAVE));
    ck_assert_int_eq(must(did(ACT_EXIT))->code, WORKER_STOPPED);
    close_bench();
}
END_TEST

/* Whatever a coordinator says: the node goes on, or ends the connection, and never worse. */
START_TEST(worker__survives_any_message)
{
    uint64_t random = (uint64_t)_i;
    static uint8_t body[4096];

    open_bench();
    get_ready();
    for (int i = 0; i < 100; i++) {
        struct message head = {.kind = (enum message_kind)(1 + problem_draw(&random) % 16),
                               .step = problem_draw(&random) % 8,
                               .first = (uint32_t)(problem_draw(&random) % 8),
                               .count = (uint32_t)(problem_draw(&random) % 8),
                               .aux = 0};
        size_t len = problem_draw(&random) % 3 ? problem_draw(&random) % sizeof body : 0;
        bool ends;

        if (problem_draw(&random) % 8 == 0)
            head.step = problem_draw(&random);
        if (problem_draw(&random) % 8 == 0)
            head.count = (uint32_t)problem_draw(&random);
        if (head.kind == MSG_BYE)
            continue;
        for (size_t at = 0; at < len; at++)
            body[at] = (uint8_t)problem_draw(&random);
        hear(head, body, len, NULL);
        ends = did(ACT_ABORT) != NULL;
        while (did(ACT_COMPUTE)) {
            compute();
            ends |= did(ACT_ABORT) != NULL;
        }
        if (ends) {
            feed((struct input){.kind = IN_CLOSED, .conn = bench.conn});
            bench.now += 5 * second;
            tick();
            connect_bench();
            hear((struct message){.kind = MSG_WELCOME}, bench.problem->welcome,
                 bench.problem->welcome_len, NULL);
            compute();
        }
        ck_assert_ptr_null(did(ACT_EXIT));
    }
    close_bench();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker");
    TCase *tcase = tcase_create("worker");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, worker__joins_by_name_and_instance);
    tcase_add_test(tcase, worker__is_ready_when_the_run_is_prepared);
    tcase_add_test(tcase, worker__computes_when_step_and_weights_are_there);
    tcase_add_test(tcase, worker__never_computes_with_the_weights_of_another_step);
    tcase_add_test(tcase, worker__sends_one_partial_for_each_subtree);
    tcase_add_test(tcase, worker__new_weights_free_the_place_of_the_old_ones);
    tcase_add_test(tcase, worker__weights_in_use_are_not_overwritten);
    tcase_add_test(tcase, worker__waits_for_the_samples_it_lacks);
    tcase_add_test(tcase, worker__samples_of_an_unknown_class_end_the_connection);
    tcase_add_test(tcase, worker__refuses_a_run_whose_samples_are_not_finite);
    tcase_add_test(tcase, worker__evaluates_test_leaves);
    tcase_add_test(tcase, worker__tries_again_ever_more_slowly);
    tcase_add_test(tcase, worker__patience_ends);
    tcase_add_test(tcase, worker__lost_coordinator_starts_patience_anew);
    tcase_add_test(tcase, worker__result_of_a_lost_run_is_dropped);
    tcase_add_test(tcase, worker__bye_ends_it_refusal_for_good_too);
    tcase_add_test(tcase, worker__stop_says_goodbye);
    tcase_add_loop_test(tcase, worker__survives_any_message, 0, 10);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
