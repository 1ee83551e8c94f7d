/* SPDX-License-Identifier: MIT */
#include "random.h"

#include <cluster/tree.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 130, MEMBERS = 9, FLOATS = 37 };

/* The rule of the protocol, written down a second time and as plainly as it goes. */
static unsigned plain_split(unsigned count)
{
    unsigned power = 1;

    for (unsigned next = 1; next < count; next *= 2)
        power = next;
    return power;
}

static float plain_sum(float (*leaves)[FLOATS], unsigned first, unsigned count, unsigned at)
{
    unsigned left = count > 1 ? plain_split(count) : 0;
    float a;

    if (count == 1)
        return leaves[first][at];
    a = plain_sum(leaves, first, left, at);
    return a + plain_sum(leaves, first + left, count - left, at);
}

static unsigned plain_nodes(unsigned first, unsigned count, struct span *out, unsigned found)
{
    unsigned left;

    out[found++] = (struct span){first, count};
    if (count == 1)
        return found;
    left = plain_split(count);
    found = plain_nodes(first, left, out, found);
    return plain_nodes(first + left, count - left, out, found);
}

START_TEST(tree__splits_at_the_largest_power_of_two_below)
{
    static const unsigned want[][2] = {{2, 1}, {3, 2}, {4, 2},      {5, 4},
                                       {8, 4}, {9, 8}, {4096, 2048}};

    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        ck_assert_uint_eq(tree_split(want[i][0]), want[i][1]);
    for (unsigned count = 2; count <= TREE_LEAVES_MAX; count++)
        ck_assert_uint_eq(tree_split(count), plain_split(count));
}
END_TEST

START_TEST(tree__has_exactly_its_nodes)
{
    for (unsigned leaves = 1; leaves <= LEAVES; leaves++) {
        struct span nodes[2 * LEAVES];
        unsigned count = plain_nodes(0, leaves, nodes, 0);
        unsigned found = 0;

        for (unsigned i = 0; i < count; i++)
            ck_assert(tree_has(leaves, nodes[i]));
        for (unsigned first = 0; first <= leaves; first++) {
            for (unsigned n = 0; n <= leaves + 1; n++)
                found += tree_has(leaves, (struct span){first, n});
        }
        ck_assert_uint_eq(found, count);
    }
    ck_assert(!tree_has(8, (struct span){UINT32_MAX, 2}));
    ck_assert(!tree_has(8, (struct span){2, UINT32_MAX}));
}
END_TEST

/* Asserting once for each span: a million assertions of Check take seconds. */
static bool parts_make_up(unsigned leaves, struct span span)
{
    struct span parts[TREE_PARTS_MAX];
    size_t count = tree_parts(leaves, span, parts);
    unsigned at = span.first;
    bool nodes = count <= 16; /* 2 log2 130 */

    for (size_t i = 0; i < count; i++) {
        nodes = nodes && parts[i].first == at && tree_has(leaves, parts[i]);
        at += parts[i].count;
    }
    return nodes && at == span.first + span.count;
}

START_TEST(tree__parts_are_nodes_and_make_up_the_span)
{
    for (unsigned leaves = 1; leaves <= LEAVES; leaves++) {
        unsigned wrong = 0;

        for (unsigned first = 0; first < leaves; first++) {
            for (unsigned n = 0; n <= leaves - first; n++)
                wrong += !parts_make_up(leaves, (struct span){first, n});
        }
        ck_assert_uint_eq(wrong, 0);
    }
}
END_TEST

START_TEST(tree__parts_fit_their_array_at_the_largest_size)
{
    struct span parts[TREE_PARTS_MAX];

    ck_assert_uint_eq(tree_parts(4096, (struct span){1, 4094}, parts), 22);
    ck_assert_uint_eq(tree_parts(4095, (struct span){0, 4095}, parts), 1);
}
END_TEST

static void check_partition(unsigned leaves, size_t members, const struct span *shares)
{
    unsigned at = 0;

    for (size_t i = 0; i < members; i++) {
        ck_assert_uint_eq(shares[i].first, at);
        at += shares[i].count;
    }
    ck_assert_uint_eq(at, leaves);
}

START_TEST(tree__equal_shares_partition_and_none_is_too_long)
{
    for (unsigned leaves = 0; leaves <= LEAVES; leaves++) {
        for (size_t members = 1; members <= MEMBERS; members++) {
            struct span shares[MEMBERS];

            tree_shares(leaves, NULL, members, shares);
            check_partition(leaves, members, shares);
            for (size_t i = 0; i < members; i++) {
                ck_assert_uint_le(3 * shares[i].count, 4 * ((leaves + members - 1) / members));
                if (leaves >= members)
                    ck_assert_uint_ge(shares[i].count, 1);
            }
        }
    }
}
END_TEST

START_TEST(tree__equal_shares_are_cut_on_tree_boundaries)
{
    struct span shares[8];

    for (size_t members = 1; members <= 8; members *= 2) {
        tree_shares(8, NULL, members, shares);
        for (size_t i = 0; i < members; i++)
            ck_assert(tree_has(8, shares[i]));
    }
    tree_shares(8, NULL, 5, shares);
    for (size_t i = 0; i < 5; i++)
        ck_assert(tree_has(8, shares[i]));
    tree_shares(8, NULL, 3, shares);
    ck_assert_uint_eq(shares[0].count, 4);
    ck_assert_uint_eq(shares[1].count, 2);
    ck_assert_uint_eq(shares[2].count, 2);
    /* 8 and 1 would be whole subtrees, but far from equal. */
    tree_shares(9, NULL, 2, shares);
    ck_assert_uint_eq(shares[0].count, 4);
}
END_TEST

START_TEST(tree__speeds_within_ten_percent_count_as_equal)
{
    static const double speeds[] = {1.0, 1.09, 0.995, 1.05};
    struct span equal[4];
    struct span shares[4];

    tree_shares(64, NULL, 4, equal);
    tree_shares(64, speeds, 4, shares);
    ck_assert_mem_eq(equal, shares, sizeof shares);
}
END_TEST

START_TEST(tree__unequal_shares_partition_and_follow_speed)
{
    static const double speeds[] = {1, 3};
    uint64_t state = random_seed();
    struct span shares[MEMBERS];

    tree_shares(64, speeds, 2, shares);
    ck_assert_uint_eq(shares[0].count, 16);
    ck_assert_uint_eq(shares[1].count, 48);
    for (int i = 0; i < 2000; i++) {
        unsigned leaves = (unsigned)random_below(&state, LEAVES + 1);
        size_t members = 1 + random_below(&state, MEMBERS);
        double weights[MEMBERS];
        double total = 0;
        double slowest = 100;
        double fastest = 0;

        for (size_t m = 0; m < members; m++) {
            total += weights[m] = 0.1 + (double)random_below(&state, 1000) / 100;
            slowest = weights[m] < slowest ? weights[m] : slowest;
            fastest = weights[m] > fastest ? weights[m] : fastest;
        }
        tree_shares(leaves, weights, members, shares);
        check_partition(leaves, members, shares);
        /* No share takes longer than the ideal and one leaf more. */
        for (size_t m = 0; m < members && leaves >= 2 * members && fastest > slowest * 1.1; m++)
            ck_assert_double_le((shares[m].count - 1.0) / weights[m], leaves / total * 1.10 + 1e-9);
    }
}
END_TEST

/* Sums the parts of a share as its member would: each subtree as the tree over its own leaves. */
static size_t member_partials(float (*leaves)[FLOATS], const struct span *parts, size_t count,
                              struct partial *out, float (*sums)[FLOATS])
{
    for (size_t i = 0; i < count; i++) {
        struct partial single[LEAVES];

        for (uint32_t k = 0; k < parts[i].count; k++)
            single[k] = (struct partial){
                {k, 1}, leaves[parts[i].first + k], (double)leaves[parts[i].first + k][0]};
        tree_sum(parts[i].count, single, parts[i].count, 0, FLOATS, sums[i]);
        out[i] = (struct partial){parts[i], sums[i],
                                  tree_sum_loss(parts[i].count, single, parts[i].count)};
    }
    return count;
}

static void random_floats(uint64_t *state, float *floats, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)(int64_t)random_next(state);

        /* Magnitudes far apart, so that the order of additions shows in the bits. */
        for (uint64_t halvings = random_below(state, 40); halvings > 0; halvings--)
            value *= 0.5f;
        floats[i] = value;
    }
}

START_TEST(tree__sum_has_the_same_bits_for_any_cut)
{
    static float leaves[LEAVES][FLOATS];
    static float sums[LEAVES][FLOATS];
    uint64_t state = random_seed();
    unsigned order_shows = 0;

    for (unsigned n = 1; n <= LEAVES; n++) {
        float want[FLOATS];
        double want_loss = 0;

        random_floats(&state, leaves[0], LEAVES * FLOATS);
        for (unsigned at = 0; at < FLOATS; at++) {
            float chain = 0;

            want[at] = plain_sum(leaves, 0, n, at);
            for (unsigned leaf = 0; leaf < n; leaf++)
                chain += leaves[leaf][at];
            order_shows += chain < want[at] || chain > want[at];
        }
        for (size_t members = 1; members <= MEMBERS; members++) {
            struct span shares[MEMBERS];
            struct partial partials[LEAVES];
            double weights[MEMBERS];
            size_t count = 0;
            float got[FLOATS];
            double loss;

            for (size_t m = 0; m < members; m++)
                weights[m] = 1 + (double)random_below(&state, 5);
            tree_shares(n, random_below(&state, 2) ? weights : NULL, members, shares);
            for (size_t m = 0; m < members; m++) {
                struct span parts[TREE_PARTS_MAX];

                count += member_partials(leaves, parts, tree_parts(n, shares[m], parts),
                                         partials + count, sums + count);
            }
            ck_assert(tree_covered(n, partials, count));
            /* The vector in two pieces, as two threads would. */
            tree_sum(n, partials, count, 0, 20, got);
            tree_sum(n, partials, count, 20, FLOATS - 20, got + 20);
            ck_assert_mem_eq(got, want, sizeof want);
            loss = tree_sum_loss(n, partials, count);
            if (members == 1)
                want_loss = loss;
            ck_assert_mem_eq(&loss, &want_loss, sizeof loss);
        }
    }
    ck_assert_uint_gt(order_shows, 1000);
}
END_TEST

START_TEST(tree__sum_goes_over_long_vectors_in_blocks)
{
    enum { COUNT = 3 * 1024 + 17, N = 5 };
    float *leaves = malloc(N * COUNT * sizeof(float));
    float *out = malloc((COUNT + 1) * sizeof(float));
    struct partial partials[N];
    uint64_t state = random_seed();

    ck_assert(leaves && out);
    random_floats(&state, leaves, (size_t)N * COUNT);
    for (uint32_t i = 0; i < N; i++)
        partials[i] = (struct partial){{i, 1}, leaves + (size_t)i * COUNT, 0};
    out[COUNT] = 42;
    tree_sum(N, partials, N, 0, COUNT, out);
    for (size_t i = 0; i < COUNT; i++) {
        float a = leaves[i] + leaves[COUNT + i];
        float b = leaves[2 * COUNT + i] + leaves[3 * COUNT + i];
        float want = (a + b) + leaves[4 * COUNT + i];

        ck_assert_mem_eq(&out[i], &want, sizeof want);
    }
    ck_assert_float_eq(out[COUNT], 42);
    free(leaves);
    free(out);
}
END_TEST

START_TEST(tree__covered_sees_gaps_overlaps_and_strangers)
{
    static const struct partial whole[] = {{{0, 8}, NULL, 0}};
    static const struct partial halves[] = {{{0, 4}, NULL, 0}, {{4, 4}, NULL, 0}};
    static const struct partial gap[] = {{{0, 4}, NULL, 0}, {{6, 2}, NULL, 0}};
    static const struct partial twice[] = {{{0, 4}, NULL, 0}, {{0, 4}, NULL, 0}};
    static const struct partial covering[] = {
        {{0, 4}, NULL, 0}, {{2, 2}, NULL, 0}, {{4, 4}, NULL, 0}};
    static const struct partial stranger[] = {{{0, 3}, NULL, 0}, {{3, 5}, NULL, 0}};
    static const struct partial unsorted[] = {{{4, 4}, NULL, 0}, {{0, 4}, NULL, 0}};

    ck_assert(tree_covered(8, whole, 1));
    ck_assert(tree_covered(8, halves, 2));
    ck_assert(!tree_covered(8, halves, 1));
    ck_assert(!tree_covered(8, gap, 2));
    ck_assert(!tree_covered(8, twice, 2));
    ck_assert(!tree_covered(8, covering, 3));
    ck_assert(!tree_covered(8, stranger, 2));
    ck_assert(!tree_covered(8, unsorted, 2));
    ck_assert(!tree_covered(8, whole, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tree");
    TCase *tcase = tcase_create("tree");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, tree__splits_at_the_largest_power_of_two_below);
    tcase_add_test(tcase, tree__has_exactly_its_nodes);
    tcase_add_test(tcase, tree__parts_are_nodes_and_make_up_the_span);
    tcase_add_test(tcase, tree__parts_fit_their_array_at_the_largest_size);
    tcase_add_test(tcase, tree__equal_shares_partition_and_none_is_too_long);
    tcase_add_test(tcase, tree__equal_shares_are_cut_on_tree_boundaries);
    tcase_add_test(tcase, tree__speeds_within_ten_percent_count_as_equal);
    tcase_add_test(tcase, tree__unequal_shares_partition_and_follow_speed);
    tcase_add_test(tcase, tree__sum_has_the_same_bits_for_any_cut);
    tcase_add_test(tcase, tree__sum_goes_over_long_vectors_in_blocks);
    tcase_add_test(tcase, tree__covered_sees_gaps_overlaps_and_strangers);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
