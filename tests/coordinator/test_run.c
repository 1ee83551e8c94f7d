/* SPDX-License-Identifier: MIT */
#include <coordinator/args.h>
#include <coordinator/commit.h>
#include <coordinator/rundir.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------- arguments ---------- */

static int parse(struct args *args, const char *line, char why[ARGS_WHY_MAX])
{
    static char copy[512];
    char *argv[32] = {copy};
    int argc = 0;

    snprintf(copy, sizeof copy, "gradwire-coordinator %s", line);
    for (char *word = strtok(copy, " "); word && argc < 31; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return args_read(args, argc, argv, why);
}

START_TEST(args__train)
{
    char why[ARGS_WHY_MAX];
    struct args args;

    ck_assert_int_eq(
        parse(&args, "train run.json --standalone 3 --set a.b=1 --out x --set c.d=2", why), 0);
    ck_assert_int_eq(args.command, COMMAND_TRAIN);
    ck_assert_int_eq(args.where, WHERE_STANDALONE);
    ck_assert_uint_eq(args.standalone, 3);
    ck_assert_str_eq(args.first, "run.json");
    ck_assert_str_eq(args.out, "x");
    ck_assert_uint_eq(args.sets_count, 2);
    ck_assert_str_eq(args.sets[1], "c.d=2");
    ck_assert_int_eq(parse(&args, "train --nodes 2 --listen 0.0.0.0:1 run.json --json", why), 0);
    ck_assert_int_eq(args.where, WHERE_LISTEN);
    ck_assert(args.has_nodes && args.json);
    ck_assert_uint_eq(args.nodes, 2);
}
END_TEST

START_TEST(args__matmul)
{
    char why[ARGS_WHY_MAX];
    struct args args;

    ck_assert_int_eq(parse(&args, "matmul a.npy b.npy -o c.npy --standalone 0", why), 0);
    ck_assert_int_eq(args.command, COMMAND_MATMUL);
    ck_assert_str_eq(args.first, "a.npy");
    ck_assert_str_eq(args.second, "b.npy");
    ck_assert_str_eq(args.out, "c.npy");
    ck_assert(!args.op && !args.weights && !args.check && !args.has_wait);
    ck_assert_int_eq(
        parse(&args, "matmul -o c a b --op avg --weights 1,3 --check --nodes 3 --wait 0", why), 0);
    ck_assert_str_eq(args.op, "avg");
    ck_assert_str_eq(args.weights, "1,3");
    ck_assert(args.check && args.has_wait && !args.json);
    ck_assert_uint_eq(args.wait_s, 0);
    ck_assert_uint_eq(args.nodes, 3);
}
END_TEST

START_TEST(args__mistakes_are_named)
{
    static const char *const lines[][2] = {
        {"", "no command"},
        {"fly", "fly: unknown command"},
        {"resume d", "resume: not in this version"},
        {"matmul a -o c", "matmul needs A.npy"},
        {"matmul a b", "matmul needs -o"},
        {"matmul a b c -o d", "c: one argument too many"},
        {"matmul a b -o c --set x=1", "--set: not for matmul"},
        {"train r --op add", "for matmul only"},
        {"train r --check", "for matmul only"},
        {"train r --wait 3", "for matmul only"},
        {"train", "train needs RUN.json"},
        {"eval m", "eval needs MODEL"},
        {"verify a", "verify needs"},
        {"verify a b c", "c: one argument too many"},
        {"hash a b", "b: one argument too many"},
        {"train r --standalone", "--standalone: needs a value"},
        {"train r --standalone 65", "from 0 to 64"},
        {"train r --standalone x", "--standalone x"},
        {"train r --nodes 0", "from 1 to 64"},
        {"train r --nodes -1", "--nodes -1"},
        {"train r --wat", "--wat: unknown option"},
        {"train r --token-file f", "--token-file: unknown option"},
        {"train r --standalone 1 --listen a:1", "choose one"},
        {"train r --standalone 1 --nodes 2", "choose one"},
    };
    char why[ARGS_WHY_MAX];
    struct args args;

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        ck_assert_int_lt(parse(&args, lines[i][0], why), 0);
        ck_assert_msg(strstr(why, lines[i][1]) != NULL, "%s: %s", lines[i][0], why);
    }
    ck_assert_int_eq(parse(&args, "train --help", why), 0);
    ck_assert_int_eq(args.command, COMMAND_HELP);
}
END_TEST

/* ---------- the run directory ---------- */

static char scratch[64];

static void make_scratch(void)
{
    snprintf(scratch, sizeof scratch, "/tmp/gradwire-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
}

static void remove_scratch(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    ck_assert_int_eq(system(command), 0);
}

static void slurp(const char *path, char *out, size_t cap)
{
    FILE *file = fopen(path, "r");

    ck_assert_ptr_nonnull(file);
    out[fread(out, 1, cap - 1, file)] = '\0';
    fclose(file);
}

START_TEST(rundir__lines_and_files)
{
    const struct record record = {.kind = RECORD_STEP,
                                  .nodes = 3,
                                  .step = 7,
                                  .epoch = 1,
                                  .samples = 256,
                                  .loss = 0.5,
                                  .taken_ns = 1500000,
                                  .hash = "00112233445566ff"};
    char path[128], text[1024];
    struct rundir dir;
    struct stat status;

    make_scratch();
    snprintf(path, sizeof path, "%s/a/b", scratch);
    ck_assert_int_eq(rundir_open(&dir, path, "x.json"), 0);
    rundir_step(&dir, &record);
    rundir_event(&dir, "joined node=n1");
    ck_assert_int_eq(rundir_text(&dir, "config.json", "{}\n"), 0);
    rundir_close(&dir);
    ck_assert(!dir.failed);
    snprintf(path, sizeof path, "%s/a/b/run.jsonl", scratch);
    slurp(path, text, sizeof text);
    ck_assert_str_eq(text, "{\"step\":7,\"epoch\":1,\"loss\":0.5,\"samples\":256,\"weights_xxh3\":"
                           "\"00112233445566ff\",\"nodes\":3,\"seconds\":0.001500}\n");
    snprintf(path, sizeof path, "%s/a/b/events.log", scratch);
    slurp(path, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "Z joined node=n1\n"));
    snprintf(path, sizeof path, "%s/a/b/config.json.tmp", scratch);
    ck_assert_int_lt(stat(path, &status), 0);
    remove_scratch();
}
END_TEST

START_TEST(rundir__never_writes_over_a_run)
{
    const struct record record = {.kind = RECORD_STEP, .hash = "x"};
    char path[128];
    struct rundir dir;

    make_scratch();
    snprintf(path, sizeof path, "%s/a", scratch);
    ck_assert_int_eq(rundir_open(&dir, path, "x.json"), 0);
    rundir_close(&dir);
    ck_assert_int_eq(rundir_open(&dir, path, "x.json"), 0); /* nothing was written */
    rundir_step(&dir, &record);
    rundir_close(&dir);
    ck_assert_int_eq(rundir_open(&dir, path, "x.json"), RUNDIR_TAKEN);
    ck_assert_ptr_nonnull(strstr(dir.why, "holds a run already"));
    remove_scratch();
}
END_TEST

START_TEST(rundir__discarded_it_was_never_there)
{
    char path[128];
    struct rundir dir;
    struct stat status;

    make_scratch();
    snprintf(path, sizeof path, "%s/a", scratch);
    ck_assert_int_eq(rundir_open(&dir, path, "x.json"), 0);
    ck_assert_int_eq(rundir_text(&dir, "config.json", "{}\n"), 0);
    rundir_discard(&dir);
    ck_assert_int_lt(stat(path, &status), 0);
    remove_scratch();
}
END_TEST

START_TEST(rundir__full_disk_is_an_error_once)
{
    const struct record record = {.kind = RECORD_STEP, .hash = "x"};
    struct rundir dir = {.path = "/dev"};

    dir.steps = fopen("/dev/full", "w");
    ck_assert_ptr_nonnull(dir.steps);
    rundir_step(&dir, &record);
    ck_assert(dir.failed);
    ck_assert_ptr_nonnull(strstr(dir.why, "run.jsonl: cannot write: No space left"));
    rundir_step(&dir, &record);
    rundir_close(&dir);
}
END_TEST

START_TEST(summary__one_line_or_many)
{
    const struct summary summary = {.outcome = "done",
                                    .steps = 3,
                                    .final_loss = 0.25,
                                    .has_test = true,
                                    .test_accuracy = 0.875,
                                    .hash = "0123456789abcdef",
                                    .kernel = "Zen"};
    char text[1024];

    summary_print(&summary, true, text, sizeof text);
    ck_assert_ptr_null(strchr(text, '\n'));
    ck_assert_ptr_nonnull(strstr(text, "\"test_accuracy\": 0.875000"));
    ck_assert_ptr_nonnull(strstr(text, "\"weights_xxh3\": \"0123456789abcdef\"}"));
    summary_print(&summary, false, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "\n  \"steps\": 3,\n"));
    ck_assert_str_eq(text + strlen(text) - 2, "}\n");
}
END_TEST

/* ---------- the commit ---------- */

enum { PARAMETERS = 9001, LEAVES = 7 }; /* more than a block */

static float gradient[LEAVES][PARAMETERS];

/* The tree over seven leaves: ((0 1) (2 3)) ((4 5) 6). */
static float tree_of(size_t i)
{
    float left = (gradient[0][i] + gradient[1][i]) + (gradient[2][i] + gradient[3][i]);

    return left + ((gradient[4][i] + gradient[5][i]) + gradient[6][i]);
}

START_TEST(commit__adds_in_tree_order_and_divides_once)
{
    const struct nn_optim optim = {.kind = NN_SGD, .lr = 0.5};
    struct partial partials[LEAVES];
    struct committer *committer;
    float *weights = nn_floats(PARAMETERS), *next = nn_floats(PARAMETERS);
    float *expected = nn_floats(PARAMETERS), *sum = nn_floats(PARAMETERS);
    struct commit commit = {.samples = 50,
                            .leaves = LEAVES,
                            .partials = partials,
                            .partials_count = LEAVES,
                            .weights = weights,
                            .next = next};

    srand(1);
    for (size_t leaf = 0; leaf < LEAVES; leaf++) {
        for (size_t i = 0; i < PARAMETERS; i++)
            gradient[leaf][i] = (float)rand() / 1e7f - 100;
        partials[leaf] = (struct partial){
            .span = {(uint32_t)leaf, 1}, .floats = gradient[leaf], .loss = (double)leaf + 0.1};
    }
    for (size_t i = 0; i < PARAMETERS; i++) {
        weights[i] = expected[i] = (float)i / 1000;
        sum[i] = tree_of(i);
    }
    nn_optim_apply(&optim, 1, 50, PARAMETERS, expected, sum, NULL);
    ck_assert_int_eq(committer_open(&committer, PARAMETERS, &optim), 0);
    commit_run(committer, &commit);
    ck_assert(commit.finite);
    ck_assert_mem_eq(next, expected, PARAMETERS * sizeof *next);
    ck_assert(commit.loss > 0.43 && commit.loss < 0.4341);
    ck_assert_uint_eq(strlen(commit.hash), 16);
    gradient[3][PARAMETERS - 1] = 1.0f / 0.0f;
    commit_run(committer, &commit);
    ck_assert(!commit.finite);
    committer_free(committer);
    nn_floats_free(weights);
    nn_floats_free(next);
    nn_floats_free(expected);
    nn_floats_free(sum);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run");
    TCase *tcase = tcase_create("run");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, args__train);
    tcase_add_test(tcase, args__matmul);
    tcase_add_test(tcase, args__mistakes_are_named);
    tcase_add_test(tcase, rundir__lines_and_files);
    tcase_add_test(tcase, rundir__never_writes_over_a_run);
    tcase_add_test(tcase, rundir__discarded_it_was_never_there);
    tcase_add_test(tcase, rundir__full_disk_is_an_error_once);
    tcase_add_test(tcase, summary__one_line_or_many);
    tcase_add_test(tcase, commit__adds_in_tree_order_and_divides_once);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
