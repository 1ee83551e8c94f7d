/* SPDX-License-Identifier: MIT */
#include "rdt/core/acker.h"
#include "suite.h"

static const struct news_step step = {.credit = 100, .messages = 10};

START_TEST(acker__a_batch_or_a_while)
{
    struct acker acker;

    acker_init(&acker);
    ck_assert(!acker_is_due(&acker, UINT64_MAX - 1));
    acker_on_packet(&acker, false, 1000, 500);
    ck_assert(!acker_is_due(&acker, 1499));
    ck_assert(acker_is_due(&acker, 1500));
    for (int i = 1; i < ACKER_PACKETS; i++) {
        ck_assert(!acker.due);
        acker_on_packet(&acker, false, 1200, 500); /* the first one's deadline counts */
    }
    ck_assert(acker_is_due(&acker, 1200));
    acker_on_sent(&acker);
    ck_assert(!acker_is_due(&acker, UINT64_MAX - 1));
    acker_on_packet(&acker, true, 2000, 500);
    ck_assert(acker_is_due(&acker, 2000));
}
END_TEST

START_TEST(news__small_raises_wait_for_company)
{
    struct news news;

    news_init(&news, (struct allowance){.credit = 1000, .messages = 5});
    news_update(&news, (struct allowance){.credit = 1000, .messages = 5}, step, 50);
    ck_assert(!news_is_due(&news, UINT64_MAX - 1));
    news_update(&news, (struct allowance){.credit = 1099, .messages = 5}, step, 50);
    ck_assert(!news_is_due(&news, 49));
    ck_assert(news_is_due(&news, 50));
    news_update(&news, (struct allowance){.credit = 1100, .messages = 5}, step, 50);
    ck_assert(news_is_due(&news, 0));
}
END_TEST

START_TEST(news__is_told_again_until_known)
{
    struct news news;
    uint64_t first;
    uint64_t second;

    news_init(&news, (struct allowance){.credit = 0, .messages = UINT32_MAX});
    news_update(&news, (struct allowance){.credit = 0, .messages = 20}, step, 50);
    ck_assert(news_is_due(&news, 0)); /* counts wrap */
    first = news_on_sent(&news, (struct allowance){.credit = 0, .messages = 20});
    ck_assert(!news_is_due(&news, UINT64_MAX - 1));
    news_on_lost(&news, first);
    ck_assert(news_is_due(&news, 0));
    second = news_on_sent(&news, (struct allowance){.credit = 300, .messages = 20});
    ck_assert_uint_gt(second, first);
    news_on_acked(&news, first); /* not the newest: 300 may not be known */
    ck_assert_uint_ne(news.known.credit, 300);
    news_on_acked(&news, second);
    ck_assert_uint_eq(news.known.credit, 300);
    news_on_lost(&news, second); /* known after all */
    ck_assert(!news_is_due(&news, UINT64_MAX - 1));
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        acker__a_batch_or_a_while,
        news__small_raises_wait_for_company,
        news__is_told_again_until_known,
    };

    return SUITE_MAIN(argc, argv, "acker", tests);
}
