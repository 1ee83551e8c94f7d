/* SPDX-License-Identifier: MIT */
#include "disk.h"
#include "nn/nn.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 9 }; /* 2 x 2 and 2, 1 x 2 and 1 */

static struct nn_model *model;
static struct nn_error error;
static const float vector[PARAMETERS] = {1, 2, 3, 4, 5, 6, 7, 8, -9};

static void set_up(void)
{
    static const char json[] = "{\"input\": [2], \"layers\": [{\"dense\": 2}, {\"dense\": 1}],"
                               " \"loss\": \"mse\"}";

    disk_open();
    memset(&error, 0, sizeof error);
    ck_assert_msg(nn_model_open(&model, json, sizeof json - 1, &error) == NN_OK, "%s", error.text);
    ck_assert_uint_eq(nn_model_parameters(model), PARAMETERS);
}

static void tear_down(void)
{
    nn_model_free(model);
    disk_close();
}

/* Puts a file together: this header, this many bytes of data: the vector, then zeros. */
static const char *put_file(const char *header, size_t data_len)
{
    uint8_t bytes[1024] = {0};
    uint64_t len = strlen(header);

    ck_assert_uint_le(8 + len + data_len, sizeof bytes);
    memcpy(bytes, &len, 8);
    disk_lay(disk_lay(bytes + 8, header, len), vector,
             data_len < sizeof vector ? data_len : sizeof vector);
    return disk_put("s", bytes, 8 + len + data_len);
}

#define W0 "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"
#define B0 "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}"
#define W1 "\"1.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[24,32]}"
#define B1 "\"1.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[32,36]}"

static void expect_bytes(const char *path, const char *header)
{
    size_t header_len = strlen(header);
    size_t len;
    uint8_t *bytes = disk_get(path, &len);

    ck_assert_uint_eq(header_len % 8, 0);
    ck_assert_uint_eq(len, 8 + header_len + sizeof vector);
    ck_assert_uint_eq(bytes[0], header_len & 0xff);
    ck_assert_uint_eq(bytes[1], header_len >> 8);
    ck_assert_mem_eq(bytes + 2, "\0\0\0\0\0\0", 6);
    ck_assert_mem_eq(bytes + 8, header, header_len);
    ck_assert_mem_eq(bytes + 8 + header_len, "\0\0\x80\x3f\0\0\0\x40", 8);
    ck_assert_mem_eq(bytes + 8 + header_len, vector, sizeof vector);
    free(bytes);
}

START_TEST(safetensors__writes_these_bytes)
{
    const char *path = disk_path("w");

    ck_assert_int_eq(nn_safetensors_write(path, model, vector, NULL, &error), NN_OK);
    expect_bytes(path, "{" W0 "," B0 "," W1 "," B1 "}");
}
END_TEST

START_TEST(safetensors__writes_metadata_escaped)
{
    static const char *const metadata[] = {"run", "a \"b\"\\\n", "step", "7", NULL};
    const char *path = disk_path("w");

    ck_assert_int_eq(nn_safetensors_write(path, model, vector, metadata, &error), NN_OK);
    expect_bytes(
        path, "{\"__metadata__\":{\"run\":\"a \\u0022b\\u0022\\u005c\\u000a\",\"step\":\"7\"}," W0
              "," B0 "," W1 "," B1 "}");
}
END_TEST

START_TEST(safetensors__what_is_written_is_read)
{
    static const char *const metadata[] = {"quote\"", "\\", NULL};
    float back[PARAMETERS] = {0};
    const char *path = disk_path("w");

    ck_assert_int_eq(nn_safetensors_write(path, model, vector, metadata, &error), NN_OK);
    ck_assert_int_eq(nn_safetensors_read(path, model, back, &error), NN_OK);
    ck_assert_mem_eq(back, vector, sizeof vector);
}
END_TEST

START_TEST(safetensors__reads_another_order_and_spaces)
{
    static const float expected[PARAMETERS] = {6, 7, 8, -9, 4, 5, 2, 3, 1};
    float back[PARAMETERS] = {0};
    const char *path = put_file(
        " {\n\"0.weight\" : { \"shape\":[ 2 , 2 ], \"data_offsets\" : [20,36], \"dtype\":\"F32\"},"
        "\"__metadata__\" : {},"
        "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]},"
        "\"1.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"1.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]}}   ",
        36);

    ck_assert_msg(nn_safetensors_read(path, model, back, &error) == NN_OK, "%s", error.text);
    ck_assert_mem_eq(back, expected, sizeof expected);
}
END_TEST

START_TEST(safetensors__opens_a_file_of_an_unknown_model)
{
    struct nn_safetensors file;
    const char *path =
        put_file("{\"late\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[4,28]},"
                 "\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                 "\"empty\":{\"dtype\":\"F32\",\"shape\":[5,0],\"data_offsets\":[4,4]}}",
                 28);

    ck_assert_msg(nn_safetensors_open(&file, path, &error) == NN_OK, "%s", error.text);
    ck_assert_uint_eq(file.tensors, 3);
    ck_assert_uint_eq(file.count, 7);
    ck_assert_str_eq(file.table[0].name, "one");
    ck_assert_uint_eq(file.table[0].rank, 0);
    ck_assert_uint_eq(file.table[0].count, 1);
    ck_assert_str_eq(file.table[1].name, "empty");
    ck_assert_uint_eq(file.table[1].count, 0);
    ck_assert_str_eq(file.table[2].name, "late");
    ck_assert_uint_eq(file.table[2].rank, 4);
    ck_assert_uint_eq(file.table[2].shape[3], 3);
    ck_assert_uint_eq(file.table[2].offset, 1);
    ck_assert_mem_eq(file.vector, vector, 28);
    nn_safetensors_close(&file);
    ck_assert_ptr_null(file.table);
}
END_TEST

static const struct other {
    const char *header;
    size_t data_len;
    const char *reason;
} others[] = {
    {"{" W0 "," B0 "," W1 "}", 32, "1.bias of the model is missing"},
    {"{" W0 "," B0 "," W1 "," B1
     ",\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[36,40]}}",
     40, "5 tensors, the model has 4"},
    {"{" W0 "," B0 ",\"1.weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[24,32]}," B1
     "}",
     36, "1.weight has another shape"},
    {"{" W0 ",\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[16,24]}," W1 "," B1
     "}",
     36, "0.bias has another shape"},
};

START_TEST(safetensors__refuses_the_file_of_another_model)
{
    float back[PARAMETERS] = {0};
    const struct other *o = &others[_i];

    ck_assert_int_eq(nn_safetensors_read(put_file(o->header, o->data_len), model, back, &error),
                     NN_EFORMAT);
    ck_assert_msg(strstr(error.text, o->reason) != NULL, "'%s' is not in: %s", o->reason,
                  error.text);
    ck_assert(back[0] == 0.0f);
}
END_TEST

#define F32 "\"dtype\":\"F32\","

static const struct bad {
    const char *header;
    size_t data_len;
    const char *reason;
} bad[] = {
    {"", 0, "'{' expected"},
    {"[]", 0, "'{' expected"},
    {"{", 0, "expected"},
    {"{}x", 0, "bytes after"},
    {"{" W0 ",}", 16, "'\"' expected"},
    {"{" W0 "} {}", 16, "bytes after"},
    {"{" W0 "," W0 "}", 16, "two tensors of the same name"},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "only F32"},
    {"{\"a\":{\"dtype\":5,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'\"' expected"},
    {"{\"a\":{" F32 "\"shape\":[2]}}", 8, "all needed"},
    {"{\"a\":{" F32 F32 "\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "twice"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", 8, "are allowed"},
    {"{\"a\":{}}", 0, "'\"' expected"},
    {"{\"a\":7}", 0, "'{' expected"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "do not span"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "do not span"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0]}}", 8, "two numbers"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "too many numbers"},
    {"{\"a\":{" F32 "\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "too many numbers"},
    {"{\"a\":{" F32 "\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "not negative"},
    {"{\"a\":{" F32 "\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "']' expected"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[2,10]}}", 10, "not at a float"},
    {"{\"a\":{" F32 "\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", 8, "number too"},
    {"{\"a\":{" F32 "\"shape\":[4294967296],\"data_offsets\":[0,8]}}", 8, "shape too large"},
    {"{\"a\":{" F32 "\"shape\":[4294967295,4294967295,4294967295],\"data_offsets\":[0,8]}}", 8,
     "shape too large"},
    {"{\"a\":{" F32 "\"shape\":[2147483648,2147483648],\"data_offsets\":[0,0]}}", 0, "too large"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "a leaves a gap"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{" F32
     "\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "b overlaps"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{" F32
     "\"shape\":[2],\"data_offsets\":[0,8]}}",
     8, "overlaps"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "describes 8 bytes"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8]}}", 12, "describes 8 bytes"},
    {"{\"a\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8]}}", 9, "describes 8 bytes"},
    {"{\"a\":{" F32 "\"shape\":[1],\"data_offsets\":[18446744073709551612,18446744073709551615]}}",
     4, "do not span"},
    {"{\"a\":{" F32 "\"shape\":[1],\"data_offsets\":[18446744073709551608,18446744073709551612]}}",
     4, "leaves a gap"},
    {"{\"abcdefghijklmnopqrstuvwxyzabcdef\":{}}", 0, "too long"},
    {"{\"a\\n\":{" F32 "\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "escapes"},
    {"{\"a\nb\":{}}", 0, "control character"},
    {"{\"a", 0, "does not end"},
    {"{\"a\\", 0, "does not end"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "'\"' expected"},
    {"{\"__metadata__\":{\"a\":\"b\"", 0, "'}' expected"},
    {"{\"__metadata__\":[]}", 0, "'{' expected"},
};

static void expect_failure(const char *path, int code, const char *reason)
{
    struct nn_safetensors file = {.tensors = 77};

    ck_assert_int_eq(nn_safetensors_open(&file, path, &error), code);
    ck_assert_uint_eq(file.tensors, 77);
    ck_assert_msg(strstr(error.text, reason) != NULL, "'%s' is not in: %s", reason, error.text);
    ck_assert_ptr_null(strchr(error.text, '\n'));
}

START_TEST(safetensors__refuses_every_bad_header)
{
    expect_failure(put_file(bad[_i].header, bad[_i].data_len), NN_EFORMAT, bad[_i].reason);
}
END_TEST

START_TEST(safetensors__refuses_every_truncation)
{
    size_t len;
    uint8_t *bytes = disk_get(put_file("{" W0 "," B0 "," W1 "," B1 "}", 36), &len);

    for (size_t cut = 0; cut < len; cut++) {
        struct nn_safetensors file;

        ck_assert_int_eq(nn_safetensors_open(&file, disk_put("cut", bytes, cut), &error),
                         NN_EFORMAT);
    }
    free(bytes);
}
END_TEST

START_TEST(safetensors__refuses_an_absurd_header_length)
{
    static const uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t beyond[16] = {9};

    expect_failure(disk_put("s", huge, sizeof huge), NN_EFORMAT, "a header of 184467");
    expect_failure(disk_put("s", beyond, sizeof beyond), NN_EFORMAT, "ends within the header");
    expect_failure(disk_path("none"), NN_EIO, "No such file");
    expect_failure(disk_path("."), NN_EIO, "is a directory");
}
END_TEST

/* Whatever byte of a good file is changed, reading ends in an answer. */
START_TEST(safetensors__survives_every_changed_byte)
{
    size_t len;
    uint8_t *bytes = disk_get(put_file("{" W0 "," B0 "," W1 "," B1 "}", 36), &len);
    int refused = 0;

    for (size_t at = 0; at < len - sizeof vector; at++) {
        struct nn_safetensors file;
        uint8_t saved = bytes[at];
        int err;

        bytes[at] = (uint8_t)(saved ^ (1u << (at % 8)));
        err = nn_safetensors_open(&file, disk_put("bent", bytes, len), &error);
        bytes[at] = saved;
        ck_assert(err == NN_OK || err == NN_EFORMAT);
        refused += err != NN_OK;
        if (!err)
            nn_safetensors_close(&file);
    }
    ck_assert_int_gt(refused, 150);
    free(bytes);
}
END_TEST

START_TEST(safetensors__full_disk_leaves_the_old_file_and_nothing_else)
{
    const char *path = disk_path("w");
    uint8_t *bytes;
    size_t len;
    int err;

    disk_put("w", "old", 3);
    disk_limit(100);
    err = nn_safetensors_write(path, model, vector, NULL, &error);
    disk_unlimit();
    ck_assert_int_eq(err, NN_EIO);
    ck_assert_ptr_nonnull(strstr(error.text, "cannot be written: File too large"));
    ck_assert_int_eq(disk_files(), 1);
    bytes = disk_get(path, &len);
    ck_assert_mem_eq(bytes, "old", 3);
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tests = tcase_create("safetensors");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, safetensors__writes_these_bytes);
    tcase_add_test(tests, safetensors__writes_metadata_escaped);
    tcase_add_test(tests, safetensors__what_is_written_is_read);
    tcase_add_test(tests, safetensors__reads_another_order_and_spaces);
    tcase_add_test(tests, safetensors__opens_a_file_of_an_unknown_model);
    tcase_add_loop_test(tests, safetensors__refuses_the_file_of_another_model, 0,
                        (int)(sizeof others / sizeof others[0]));
    tcase_add_loop_test(tests, safetensors__refuses_every_bad_header, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tests, safetensors__refuses_every_truncation);
    tcase_add_test(tests, safetensors__refuses_an_absurd_header_length);
    tcase_add_test(tests, safetensors__survives_every_changed_byte);
    tcase_add_test(tests, safetensors__full_disk_leaves_the_old_file_and_nothing_else);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
