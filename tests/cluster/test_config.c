/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700

#include "bad_configs.h"

#include <cluster/body.h>
#include <cluster/config.h>
#include <cluster/json_text.h>

#include <check.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[PATH_MAX]; /* one for each test, without symbolic links */
static char path[PATH_MAX + 32];
static char why[CONFIG_WHY_MAX];

static void write_file(const char *name, const char *text, size_t len)
{
    char file_path[PATH_MAX + 64];
    FILE *file;

    snprintf(file_path, sizeof file_path, "%s/%s", folder, name);
    file = fopen(file_path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, len, file), len);
    ck_assert_int_eq(fclose(file), 0);
}

static int remove_one(const char *name, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(name);
}

static void set_up(void)
{
    char name[] = "/tmp/gradwire-config-XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(name));
    ck_assert_ptr_nonnull(realpath(name, folder));
    snprintf(path, sizeof path, "%s/run.json", folder);
    write_file("images", "i", 1);
    write_file("labels", "l", 1);
    write_file("empty", "", 0);
}

static void tear_down(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The good config, one of its lines replaced (0: none). */
static void write_config(unsigned replaced, const char *with)
{
    char text[8192];
    size_t len = 0;

    for (unsigned i = 1; i <= GOOD_LINES; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s\n",
                                i == replaced ? with : good_lines[i - 1]);
        ck_assert_uint_lt(len, sizeof text);
    }
    write_file("run.json", text, len);
}

static int read_config(struct config *config, const char *set)
{
    memset(why, 0, sizeof why);
    return config_read(config, path, &set, set != NULL, why);
}

START_TEST(config__good_one_is_read_whole)
{
    struct config config;
    char images[PATH_MAX + 16];

    write_config(0, NULL);
    ck_assert_msg(read_config(&config, NULL) == 0, "%s", why);
    snprintf(images, sizeof images, "%s/images", folder);
    ck_assert_str_eq(config.model, "{\"input\":[2],\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}");
    ck_assert_uint_eq(config.model_len, strlen(config.model));
    ck_assert_str_eq(config.data.train.images, images);
    ck_assert_str_eq(config.data.test.images, images);
    ck_assert_uint_eq(config.data.train_limit, 10);
    ck_assert_double_eq(config.data.scale, 1);
    ck_assert_str_eq(config.train.strategy, "sync");
    ck_assert_uint_eq(config.train.epochs, 1);
    ck_assert_uint_eq(config.train.batch, 64);
    ck_assert_uint_eq(config.train.leaf, 32);
    ck_assert_int_eq(config.train.optimizer, OPTIMIZER_SGD);
    ck_assert_double_eq(config.train.lr, 0.1);
    ck_assert_uint_eq(config.cluster.nodes, 2);
    ck_assert_uint_eq(config.cluster.dead_ms, 2500);
    config_free(&config);
}
END_TEST

START_TEST(config__defaults_are_those_of_the_header)
{
    static const char text[] = "{\"model\": {}, \"data\": {\"train\": {\"images\": \"images\", "
                               "\"labels\": \"labels\"}}}";
    struct config config;

    write_file("run.json", text, sizeof text - 1);
    ck_assert_msg(read_config(&config, NULL) == 0, "%s", why);
    ck_assert_str_eq(config.data.test.images, "");
    ck_assert_uint_eq(config.data.train_limit, 0);
    ck_assert_double_eq(config.data.scale, 1.0 / 255);
    ck_assert_double_eq(config.data.mean, 0);
    ck_assert_double_eq(config.data.deviation, 1);
    ck_assert_str_eq(config.train.strategy, "sync");
    ck_assert_str_eq(config.train.reduce, "star");
    ck_assert_str_eq(config.train.schedule, "constant");
    ck_assert_uint_eq(config.train.epochs, 1);
    ck_assert_uint_eq(config.train.batch, 64);
    ck_assert_uint_eq(config.train.leaf, 32);
    ck_assert_uint_eq(config.train.seed, 1);
    ck_assert(!config.train.drop_last);
    ck_assert_int_eq(config.train.optimizer, OPTIMIZER_SGD);
    ck_assert_double_eq(config.train.lr, 0.1);
    ck_assert_uint_eq(config.cluster.nodes, 1);
    ck_assert_uint_eq(config.cluster.min_nodes, 1);
    ck_assert_uint_eq(config.cluster.wait_s, 60);
    ck_assert_str_eq(config.cluster.kernel, "");
    config_free(&config);
}
END_TEST

START_TEST(config__leaf_and_rate_default_by_batch_and_optimizer)
{
    struct config config;

    write_config(14, "");
    ck_assert_int_eq(read_config(&config, "train.batch=255"), 0);
    ck_assert_uint_eq(config.train.leaf, 32);
    config_free(&config);
    ck_assert_int_eq(read_config(&config, "train.batch=256"), 0);
    ck_assert_uint_eq(config.train.leaf, 64);
    config_free(&config);
    write_config(17, "\"optimizer\": {\"name\": \"adam\"}");
    ck_assert_int_eq(read_config(&config, NULL), 0);
    ck_assert_int_eq(config.train.optimizer, OPTIMIZER_ADAM);
    ck_assert_double_eq(config.train.lr, 0.001);
    ck_assert_double_eq(config.train.epsilon, 1e-8);
    config_free(&config);
}
END_TEST

/* B19.  One line: FILE:LINE: key: what is wrong (allowed: what would be right). */
static void check_bad(const struct bad_config *bad)
{
    struct config config;
    char begin[PATH_MAX + 128];

    write_config(bad->replaced, bad->with);
    ck_assert_msg(read_config(&config, bad->set) < 0, "accepted: %s",
                  bad->with ? bad->with : bad->set);
    if (bad->line > 0)
        snprintf(begin, sizeof begin, "%s:%u: %s: ", path, bad->line, bad->key);
    else
        snprintf(begin, sizeof begin, "--set: %s: ", bad->key);
    ck_assert_msg(strncmp(why, begin, strlen(begin)) == 0, "want '%s' got '%s'", begin, why);
    ck_assert_msg(strstr(why, bad->says) != NULL, "want '%s' got '%s'", bad->says, why);
    ck_assert_msg(strstr(why, "(allowed: ") != NULL, "got '%s'", why);
    for (const char *at = why; *at != '\0'; at++)
        ck_assert_msg((unsigned char)*at >= ' ', "more than a line: '%s'", why);
}

START_TEST(config__B19_bad_ones_name_file_line_key_and_what_is_allowed)
{
    for (size_t i = 0; i < BAD_CONFIGS; i++)
        check_bad(&bad_configs[i]);
}
END_TEST

START_TEST(config__B19_there_are_a_hundred_bad_ones)
{
    ck_assert_int_ge(BAD_CONFIGS, 100);
}
END_TEST

static void check_text(const char *text, size_t len, unsigned line, const char *says)
{
    struct config config;
    char begin[PATH_MAX + 64];

    write_file("run.json", text, len);
    ck_assert_int_lt(read_config(&config, NULL), 0);
    snprintf(begin, sizeof begin, "%s:%u: ", path, line);
    ck_assert_msg(strncmp(why, begin, strlen(begin)) == 0, "want '%s' got '%s'", begin, why);
    ck_assert_msg(strstr(why, says) != NULL, "want '%s' got '%s'", says, why);
    ck_assert_msg(strstr(why, "(allowed: ") != NULL, "got '%s'", why);
}

START_TEST(config__what_is_not_a_json_object_is_named_with_its_line)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *says;
    } bad[] = {
        {"", 1, "is empty"},
        {"\n\n // nothing\n", 1, "is empty"},
        {"[]", 1, "is an array"},
        {"3", 1, "not JSON"},
        {"{\n\"train\": {,}}", 2, "not JSON"},
        {"{\n\"train\": {\"epochs\": 1\n", 3, "not JSON"},
        {"{\n\n\"train\": {\"epochs\": NaN}}", 3, "not JSON"},
        {"{\n\"train\": {\"epochs\": 99999999999999999999}}", 2, "too big integer"},
        {"{\n\"train\": {\"lr\": 1e999}}", 2, "real number overflow"},
        {"{\"train\": {\"epochs\": 1,\n\"epochs\": 2}}", 2, "duplicate object key"},
        {"{\n/* open", 2, "never ends (allowed: */)"},
        {"{\n\"a\": \"\xff\"}", 2, "not JSON"},
        {"{} {}", 1, "not JSON"},
        {"{\"train\": {\"epochs\": 01}}", 1, "not JSON"},
        {"{'train': {}}", 1, "not JSON"},
        {"{\"a\": \"\\u0000\"}", 1, "not JSON"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_text(bad[i].text, strlen(bad[i].text), bad[i].line, bad[i].says);
    check_text("\0", 1, 1, "not JSON");
}
END_TEST

START_TEST(config__deep_and_huge_files_are_refused)
{
    size_t len = (1 << 20) + 1;
    char *text = malloc(len);

    ck_assert_ptr_nonnull(text);
    memset(text, '[', len);
    check_text(text, len - 1, 1, "not JSON");
    memset(text, ' ', len);
    check_text(text, len, 1, "too large (allowed: at most 1048576 bytes)");
    free(text);
}
END_TEST

START_TEST(config__too_large_a_model_is_refused)
{
    char *text = malloc(BODY_MODEL_MAX + 64);
    int len;

    ck_assert_ptr_nonnull(text);
    len = sprintf(text, "{\n\"model\": {\"x\": \"%0*d\"}}", BODY_MODEL_MAX, 0);
    check_text(text, (size_t)len, 2, "model: takes 49160 bytes (allowed: at most 49152)");
    free(text);
}
END_TEST

START_TEST(config__missing_file_and_directory_are_named)
{
    struct config config;

    ck_assert_int_lt(read_config(&config, NULL), 0);
    ck_assert_ptr_nonnull(strstr(why, "/run.json:1: cannot read it: No such file or directory"));
    snprintf(path, sizeof path, "%s", folder);
    ck_assert_int_lt(read_config(&config, NULL), 0);
    ck_assert_ptr_nonnull(strstr(why, ":1: cannot read it: Is a directory"));
}
END_TEST

START_TEST(config__set_overrides_the_file_and_later_ones_earlier_ones)
{
    static const char *const sets[] = {"train.epochs=3",          "train.optimizer.name=adam",
                                       "train.optimizer.lr=1e-3", "cluster.kernel=Haswell",
                                       "train.epochs=4",          "model.loss=\"cross_entropy\""};
    struct config config;

    write_config(0, NULL);
    ck_assert_msg(config_read(&config, path, sets, 6, why) == 0, "%s", why);
    ck_assert_uint_eq(config.train.epochs, 4);
    ck_assert_int_eq(config.train.optimizer, OPTIMIZER_ADAM);
    ck_assert_double_eq(config.train.lr, 1e-3);
    ck_assert_str_eq(config.cluster.kernel, "Haswell");
    ck_assert_ptr_nonnull(strstr(config.model, "\"loss\":\"cross_entropy\""));
    config_free(&config);
}
END_TEST

START_TEST(config__what_is_printed_reads_back_the_same)
{
    struct config config;
    struct config back;
    char *text;

    write_config(17, "\"optimizer\": {\"name\": \"momentum\", \"lr\": 0.3, \"momentum\": 0.7}");
    ck_assert_msg(read_config(&config, "data.normalize.mean=0.1307") == 0, "%s", why);
    text = config_print(&config);
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_null(strstr(text, "beta1"));
    write_file("run.json", text, strlen(text));
    free(text);
    ck_assert_msg(read_config(&back, NULL) == 0, "%s", why);
    ck_assert_mem_eq(&back.data, &config.data, sizeof back.data);
    ck_assert_str_eq(back.model, config.model);
    ck_assert_double_eq(back.train.lr, 0.3);
    ck_assert_double_eq(back.train.momentum, 0.7);
    ck_assert_mem_eq(&back.cluster, &config.cluster, sizeof back.cluster);
    config_free(&config);
    config_free(&back);
}
END_TEST

START_TEST(config__lines_of_keys_of_the_model_are_found)
{
    static const char text[] = "{ // \"model\": 1\n"
                               "\"data\": {\"model\": [[], \"}\\\"]\", {\"model\": 3}]},\n"
                               "\"model\":\n"
                               "  {\"input\": [784],\n"
                               "   \"layers\": [\n"
                               "     {\"dense\": 512},\n"
                               "     /* [ { */ \"relu\",\n"
                               "     {\"init\": \"xavier\",\n"
                               "      \"dense\": 10}\n"
                               "   ],\n"
                               "   \"loss\": \"mse\"}}\n";

    write_file("run.json", text, sizeof text - 1);
    ck_assert_uint_eq(config_line(path, "model"), 3);
    ck_assert_uint_eq(config_line(path, "model.input"), 4);
    ck_assert_uint_eq(config_line(path, "model.layers[0].dense"), 6);
    ck_assert_uint_eq(config_line(path, "model.layers[1]"), 7);
    ck_assert_uint_eq(config_line(path, "model.layers[2]"), 8);
    ck_assert_uint_eq(config_line(path, "model.layers[2].dense"), 9);
    ck_assert_uint_eq(config_line(path, "model.layers[2].bias"), 8);
    ck_assert_uint_eq(config_line(path, "model.layers[3]"), 5);
    ck_assert_uint_eq(config_line(path, "model.loss"), 11);
    ck_assert_uint_eq(config_line(path, "data.model[2].model"), 2);
    ck_assert_uint_eq(config_line(path, "nothing"), 0);
    ck_assert_uint_eq(config_line("/nowhere", "model"), 0);
}
END_TEST

START_TEST(json_text__any_text_is_taken)
{
    static const char alphabet[] = "{}[]\":,/*\\ \nam1";
    static const char *const paths[] = {"a", "a.m", "[1]", "a[0].m", "", ".", "[", "a..m", "]"};
    unsigned long state = 1;

    for (int i = 0; i < 200000; i++) {
        size_t len = (size_t)(i % 24);
        char *text = malloc(len + (len == 0));

        ck_assert_ptr_nonnull(text);
        for (size_t at = 0; at < len; at++) {
            state = state * 6364136223846793005ul + 1442695040888963407ul;
            text[at] = alphabet[(state >> 33) % (sizeof alphabet - 1)];
        }
        json_text_strip(text, len);
        if (json_text_line(text, len, paths[i % 9]) > 24)
            ck_abort_msg("a line past the end");
        free(text);
    }
}
END_TEST

START_TEST(json_text__distance_counts_edits)
{
    ck_assert_uint_eq(json_text_distance("epochs", "epochs"), 0);
    ck_assert_uint_eq(json_text_distance("epoch", "epochs"), 1);
    ck_assert_uint_eq(json_text_distance("epcohs", "epochs"), 1);
    ck_assert_uint_eq(json_text_distance("", "leaf"), 4);
    ck_assert_uint_eq(json_text_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(json_text_distance("sitting", "kitten"), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, config__good_one_is_read_whole);
    tcase_add_test(tcase, config__defaults_are_those_of_the_header);
    tcase_add_test(tcase, config__leaf_and_rate_default_by_batch_and_optimizer);
    tcase_add_test(tcase, config__B19_bad_ones_name_file_line_key_and_what_is_allowed);
    tcase_add_test(tcase, config__B19_there_are_a_hundred_bad_ones);
    tcase_add_test(tcase, config__what_is_not_a_json_object_is_named_with_its_line);
    tcase_add_test(tcase, config__deep_and_huge_files_are_refused);
    tcase_add_test(tcase, config__too_large_a_model_is_refused);
    tcase_add_test(tcase, config__missing_file_and_directory_are_named);
    tcase_add_test(tcase, config__set_overrides_the_file_and_later_ones_earlier_ones);
    tcase_add_test(tcase, config__what_is_printed_reads_back_the_same);
    tcase_add_test(tcase, config__lines_of_keys_of_the_model_are_found);
    tcase_add_test(tcase, json_text__any_text_is_taken);
    tcase_add_test(tcase, json_text__distance_counts_edits);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
