/* SPDX-License-Identifier: MIT */
#include <rdt/link.h>

#include "rdt/core/bytes.h"
#include "suite.h"

static const uint64_t ms = 1000000;

static struct rdt_link_config parse(const char *text)
{
    struct rdt_link_config config;
    char why[200];

    ck_assert_msg(rdt_link_parse(&config, text, why, sizeof why) == RDT_OK, "%s", why);
    ck_assert_str_eq(why, "");
    return config;
}

static struct rdt_link *open_link(const char *text)
{
    const struct rdt_link_config config = parse(text);
    struct rdt_link *link;

    ck_assert_int_eq(rdt_link_open(&link, &config, 0), RDT_OK);
    return link;
}

static struct rdt_link_stats stats_of(const struct rdt_link *link)
{
    struct rdt_link_stats stats = {.size = sizeof stats};

    rdt_link_stats(link, &stats);
    return stats;
}

/* A datagram of `len` bytes that begins with its number. */
static void put(struct rdt_link *link, uint32_t number, size_t len, uint64_t now_ns)
{
    uint8_t bytes[2048] = {0};
    const struct rdt_arrival datagram = {
        .from = rdt_addr_v4(1, 2, 3, 4, (uint16_t)number),
        .bytes = bytes,
        .len = len,
        .ecn = 1,
    };

    if (len > sizeof bytes)
        ck_abort_msg("%zu bytes are too many", len);
    store_le32(bytes, number);
    rdt_link_put(link, &datagram, now_ns);
}

static bool next(struct rdt_link *link, uint64_t now_ns, uint32_t *number)
{
    struct rdt_arrival out;

    if (!rdt_link_next(link, now_ns, &out))
        return false;
    *number = load_le32(out.bytes);
    return true;
}

START_TEST(link__perfect_one_passes_everything_at_once)
{
    struct rdt_link *link = open_link("");
    struct rdt_arrival out;

    ck_assert_uint_eq(rdt_link_deadline(link), UINT64_MAX);
    put(link, 7, 100, 5);
    put(link, 8, 4, 5);
    ck_assert_uint_eq(rdt_link_deadline(link), 5);
    ck_assert(rdt_link_next(link, 5, &out));
    ck_assert_uint_eq(out.len, 100);
    ck_assert_uint_eq(load_le32(out.bytes), 7);
    ck_assert_uint_eq(out.from.port, 7);
    ck_assert_uint_eq(out.ecn, 1);
    ck_assert(rdt_link_next(link, 5, &out));
    ck_assert_uint_eq(out.len, 4);
    ck_assert(!rdt_link_next(link, 5, &out));
    rdt_link_free(link);
}
END_TEST

START_TEST(link__empty_datagrams_pass)
{
    struct rdt_link *link = open_link("corrupt=100%,duplicate=100%");
    const struct rdt_arrival nothing = {.bytes = NULL, .len = 0};
    struct rdt_arrival out;

    rdt_link_put(link, &nothing, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert(rdt_link_next(link, 0, &out));
        ck_assert_uint_eq(out.len, 0);
    }
    ck_assert(!rdt_link_next(link, 0, &out));
    rdt_link_free(link);
}
END_TEST

/* Fates of 2000 datagrams put `gap_ns` apart: what came out how often, as one byte each. */
static void fates(const char *text, uint64_t gap_ns, uint8_t out[2000])
{
    struct rdt_link *link = open_link(text);
    struct rdt_arrival arrival;

    memset(out, 0, 2000);
    for (uint32_t i = 0; i < 2000; i++)
        put(link, i, 64, i * gap_ns);
    while (rdt_link_next(link, UINT64_MAX, &arrival))
        out[arrival.from.port]++;
    rdt_link_free(link);
}

START_TEST(link__same_seed_same_fate_whatever_the_timing)
{
    const char *text = "loss=10%,burst=3,duplicate=5%,corrupt=5%,reorder=5%,jitter=3ms,seed=99";
    static uint8_t a[2000];
    static uint8_t b[2000];

    fates(text, 0, a);
    fates(text, 7 * ms, b);
    ck_assert_mem_eq(a, b, sizeof a);
    fates("loss=10%,burst=3,duplicate=5%,corrupt=5%,reorder=5%,jitter=3ms,seed=98", 0, b);
    ck_assert_mem_ne(a, b, sizeof a);
    /* switching an impairment on does not move the luck of the others */
    fates("loss=10%,burst=3,duplicate=5%,seed=99", 0, b);
    ck_assert_mem_eq(a, b, sizeof a);
}
END_TEST

static void assert_share(uint64_t count, uint64_t of, double expected, double sigmas)
{
    const double mean = (double)of * expected;
    const double off = (double)count - mean;

    ck_assert_msg(off * off <= sigmas * sigmas * mean * (1 - expected) + 1, "%llu of %llu, not %g",
                  (unsigned long long)count, (unsigned long long)of, expected);
}

START_TEST(link__rates_are_what_was_asked_for)
{
    enum { COUNT = 200000 };
    struct rdt_link_config config =
        parse("loss=5%,duplicate=2%,corrupt=3%,reorder=4%,delay=1ms,jitter=1ms");
    struct rdt_link *link;
    struct rdt_link_stats stats;
    struct rdt_arrival arrival;

    config.seed = suite_seed(0);
    ck_assert_int_eq(rdt_link_open(&link, &config, 0), RDT_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        put(link, i, 64, i * 1000);
        while (rdt_link_next(link, i * 1000, &arrival))
            ;
    }
    while (rdt_link_next(link, UINT64_MAX, &arrival))
        ;
    stats = stats_of(link);
    ck_assert_uint_eq(stats.put, COUNT);
    assert_share(stats.lost, COUNT, 0.05, 5);
    assert_share(stats.duplicated, COUNT - stats.lost, 0.02, 5);
    assert_share(stats.corrupted, COUNT - stats.lost, 0.03, 5);
    assert_share(stats.reordered, COUNT - stats.lost, 0.04, 5);
    ck_assert_uint_eq(stats.delivered, COUNT - stats.lost + stats.duplicated);
    ck_assert_uint_eq(stats.bytes_delivered, 64 * stats.delivered);
    rdt_link_free(link);
}
END_TEST

/* The long-run rate and the mean length of a run of losses, both as asked for. */
START_TEST(link__bursts_have_their_length)
{
    enum { COUNT = 400000 };
    struct rdt_link_config config = parse("loss=5%,burst=8");
    struct rdt_link *link;
    uint64_t lost = 0;
    uint64_t runs = 0;
    bool before = false;

    config.seed = suite_seed(0);
    ck_assert_int_eq(rdt_link_open(&link, &config, 0), RDT_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t number;
        bool now;

        put(link, i, 64, 0);
        now = !next(link, 0, &number);
        lost += now;
        runs += now && !before;
        before = now;
    }
    ck_assert_double_ge((double)lost / COUNT, 0.045);
    ck_assert_double_le((double)lost / COUNT, 0.055);
    ck_assert_double_ge((double)lost / (double)runs, 7.5);
    ck_assert_double_le((double)lost / (double)runs, 8.5);
    rdt_link_free(link);
}
END_TEST

START_TEST(link__jitter_keeps_the_order)
{
    struct rdt_link *link = open_link("delay=2ms,jitter=5ms,seed=3");
    uint32_t number;
    uint32_t expected = 0;

    for (uint32_t i = 0; i < 1000; i++)
        put(link, i, 64, i * 10000);
    for (uint64_t now = 0; now < 100 * ms; now += 100000) {
        while (next(link, now, &number)) {
            ck_assert_uint_eq(number, expected);
            ck_assert_uint_ge(now, number * 10000 + 2 * ms);
            ck_assert_uint_lt(now, 10 * ms + 8 * ms);
            expected++;
        }
    }
    ck_assert_uint_eq(expected, 1000);
    rdt_link_free(link);
}
END_TEST

START_TEST(link__reordered_come_behind_later_ones)
{
    struct rdt_link *link = open_link("reorder=20%,seed=5");
    uint32_t number;
    uint32_t highest = 0;
    uint32_t late = 0;

    for (uint32_t i = 0; i < 1000; i++)
        put(link, i, 64, i * 10000);
    while (next(link, UINT64_MAX, &number)) {
        late += number < highest;
        if (number > highest)
            highest = number;
    }
    ck_assert_uint_ge(late, 150);
    ck_assert_uint_le(late, stats_of(link).reordered);
    rdt_link_free(link);
}
END_TEST

START_TEST(link__corruption_flips_one_to_four_bits)
{
    struct rdt_link *link = open_link("corrupt=100%,seed=1");
    int seen[5] = {0};

    for (uint32_t i = 0; i < 1000; i++) {
        struct rdt_arrival out;
        uint8_t original[64] = {0};
        int flipped = 0;

        put(link, i, sizeof original, 0);
        store_le32(original, i);
        ck_assert(rdt_link_next(link, 0, &out));
        for (size_t at = 0; at < sizeof original; at++)
            flipped += __builtin_popcount((unsigned)(((uint8_t *)out.bytes)[at] ^ original[at]));
        ck_assert_int_ge(flipped, 1);
        ck_assert_int_le(flipped, 4);
        seen[flipped]++;
    }
    for (int i = 1; i <= 4; i++)
        ck_assert_int_gt(seen[i], 150);
    rdt_link_free(link);
}
END_TEST

START_TEST(link__one_byte_can_be_corrupted)
{
    struct rdt_link *link = open_link("corrupt=100%");
    uint8_t byte = 0;
    const struct rdt_arrival datagram = {.bytes = &byte, .len = 1};
    struct rdt_arrival out;

    for (int i = 0; i < 100; i++) {
        rdt_link_put(link, &datagram, 0);
        ck_assert(rdt_link_next(link, 0, &out));
        ck_assert_uint_ne(*(uint8_t *)out.bytes, 0);
    }
    ck_assert_uint_eq(byte, 0);
    rdt_link_free(link);
}
END_TEST

/* 8 Mbit/s is a byte a microsecond; 28 bytes of headers count. */
START_TEST(link__rate_spreads_and_the_queue_overflows)
{
    struct rdt_link *link = open_link("rate=8mbit,queue=5000");
    uint32_t number;

    for (uint32_t i = 0; i < 10; i++)
        put(link, i, 972, 0);
    ck_assert_uint_eq(rdt_link_deadline(link), ms);
    ck_assert(!next(link, ms - 1, &number));
    ck_assert(next(link, ms, &number));
    ck_assert_uint_eq(rdt_link_deadline(link), 2 * ms);
    for (uint32_t i = 1; i < 5; i++)
        ck_assert(next(link, (i + 1) * ms, &number));
    ck_assert(!next(link, 100 * ms, &number));
    ck_assert_uint_eq(stats_of(link).queue_dropped, 5);
    put(link, 11, 972, 100 * ms);
    ck_assert(next(link, 101 * ms, &number));
    rdt_link_free(link);
}
END_TEST

START_TEST(link__a_datagram_larger_than_the_queue_still_passes_an_idle_link)
{
    struct rdt_link *link = open_link("rate=8mbit,queue=100");
    uint32_t number;

    put(link, 1, 972, 0);
    put(link, 2, 972, 0);
    ck_assert(next(link, ms, &number));
    ck_assert(!next(link, 100 * ms, &number));
    rdt_link_free(link);
}
END_TEST

START_TEST(link__mtu_drops_what_is_larger)
{
    struct rdt_link *link = open_link("mtu=1500");
    uint32_t number;

    put(link, 1, 1473, 0);
    put(link, 2, 1472, 0);
    ck_assert(next(link, 0, &number));
    ck_assert_uint_eq(number, 2);
    ck_assert_uint_eq(stats_of(link).too_big, 1);
    rdt_link_free(link);
}
END_TEST

START_TEST(link__set_keeps_what_is_under_way)
{
    struct rdt_link *link = open_link("delay=10ms");
    const struct rdt_link_config partition = {.loss = 1};
    uint32_t number;

    put(link, 1, 64, 0);
    rdt_link_set(link, &partition);
    put(link, 2, 64, 0);
    ck_assert(next(link, 10 * ms, &number));
    ck_assert_uint_eq(number, 1);
    ck_assert_uint_eq(rdt_link_deadline(link), UINT64_MAX);
    ck_assert_uint_eq(stats_of(link).lost, 1);
    rdt_link_free(link);
}
END_TEST

START_TEST(link__in_flight_is_limited)
{
    const struct rdt_link_config config = {.delay_ns = ms};
    struct rdt_link *link;

    ck_assert_int_eq(rdt_link_open(&link, &config, 10), RDT_OK);
    for (uint32_t i = 0; i < 15; i++)
        put(link, i, 64, 0);
    ck_assert_uint_eq(stats_of(link).queue_dropped, 5);
    rdt_link_free(link); /* with ten inside */
    rdt_link_free(NULL);
}
END_TEST

START_TEST(link__open_refuses_what_is_no_probability)
{
    const struct rdt_link_config bad[] = {{.loss = 1.1},    {.loss = -0.1}, {.reorder = 2},
                                          {.duplicate = 2}, {.corrupt = 2}, {.burst = -1}};
    struct rdt_link *link = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(rdt_link_open(&link, &bad[i], 0), RDT_EINVAL);
    ck_assert_ptr_null(link);
}
END_TEST

START_TEST(link__stats_fill_only_what_the_caller_knows)
{
    struct rdt_link *link = open_link("");
    struct rdt_link_stats stats = {.size = offsetof(struct rdt_link_stats, lost), .lost = 42};

    put(link, 1, 64, 0);
    rdt_link_stats(link, &stats);
    ck_assert_uint_eq(stats.put, 1);
    ck_assert_uint_eq(stats.lost, 42);
    ck_assert_uint_eq(stats.size, offsetof(struct rdt_link_stats, lost));
    rdt_link_free(link);
}
END_TEST

/* ---------- the text form ---------- */

START_TEST(link_parse__every_key)
{
    const struct rdt_link_config c =
        parse("loss=5%,burst=4,delay=2ms,jitter=500us,reorder=1%,duplicate=0.5%,corrupt=0.02,"
              "rate=100mbit,queue=64k,mtu=1500,seed=7");

    ck_assert_double_eq_tol(c.loss, 0.05, 1e-12);
    ck_assert_double_eq_tol(c.burst, 4, 1e-12);
    ck_assert_uint_eq(c.delay_ns, 2 * ms);
    ck_assert_uint_eq(c.jitter_ns, ms / 2);
    ck_assert_double_eq_tol(c.reorder, 0.01, 1e-12);
    ck_assert_double_eq_tol(c.duplicate, 0.005, 1e-12);
    ck_assert_double_eq_tol(c.corrupt, 0.02, 1e-12);
    ck_assert_uint_eq(c.rate_bps, 100000000);
    ck_assert_uint_eq(c.queue_bytes, 65536);
    ck_assert_uint_eq(c.mtu, 1500);
    ck_assert_uint_eq(c.seed, 7);
    ck_assert_uint_eq(c.overhead_bytes, 28);
}
END_TEST

START_TEST(link_parse__forms_of_numbers)
{
    ck_assert_double_eq_tol(parse("loss=1").loss, 1, 1e-12);
    ck_assert_double_eq_tol(parse("loss=0").loss, 0, 1e-12);
    ck_assert_double_eq_tol(parse("loss=100%").loss, 1, 1e-12);
    ck_assert_uint_eq(parse("delay=0").delay_ns, 0);
    ck_assert_uint_eq(parse("delay=1.5ms").delay_ns, 1500000);
    ck_assert_uint_eq(parse("delay=100ns").delay_ns, 100);
    ck_assert_uint_eq(parse("delay=2s").delay_ns, 2000 * ms);
    ck_assert_uint_eq(parse("rate=1.5gbit").rate_bps, 1500000000);
    ck_assert_uint_eq(parse("rate=56kbit").rate_bps, 56000);
    ck_assert_uint_eq(parse("queue=1500").queue_bytes, 1500);
    ck_assert_uint_eq(parse("queue=1m").queue_bytes, 1048576);
    ck_assert_uint_eq(parse("seed=18446744073709551615").seed, UINT64_MAX);
    ck_assert_uint_eq(parse("").overhead_bytes, 28);
}
END_TEST

START_TEST(link_parse__burst_pair_is_gilberts)
{
    const struct rdt_link_config c = parse("burst=1:20");

    ck_assert_double_eq_tol(c.burst, 5, 1e-12);
    ck_assert_double_eq_tol(c.loss, 1.0 / 21, 1e-12);
}
END_TEST

START_TEST(link_parse__errors_name_the_key_and_what_is_allowed)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"los=5%", "unknown impairment \"los\": allowed are loss, burst, delay, jitter, reorder, "
                   "duplicate, corrupt, rate, queue, mtu, seed"},
        {",loss=1%", "unknown impairment \"\": allowed are"},
        {"loss", "loss=: allowed is 0% to 100%, or 0 to 1"},
        {"loss=", "loss=: allowed is"},
        {"loss=5", "loss=5: allowed is 0% to 100%, or 0 to 1"},
        {"loss=101%", "loss=101%: allowed is"},
        {"loss=-1%", "loss=-1%: allowed is"},
        {"loss=1e-3", "loss=1e-3: allowed is"},
        {"loss=.5", "loss=.5: allowed is"},
        {"loss=5.%", "loss=5.%: allowed is"},
        {"loss=nan", "loss=nan: allowed is"},
        {"loss=5% ", "loss=5% : allowed is"},
        {"loss=5%,loss=6%", "loss is given twice"},
        {"delay=5", "delay=5: allowed is a time with unit"},
        {"delay=5min", "delay=5min: allowed is"},
        {"delay=3601s", "delay=3601s: allowed is"},
        {"rate=100", "rate=100: allowed is bits a second with unit"},
        {"rate=0mbit", "rate=0mbit: allowed is"},
        {"queue=0", "queue=0: allowed is"},
        {"mtu=67", "mtu=67: allowed is 68 to 65535"},
        {"mtu=65536", "mtu=65536: allowed is"},
        {"seed=18446744073709551616", "seed=18446744073709551616: allowed is"},
        {"seed=0x5", "seed=0x5: allowed is"},
        {"seed=", "seed=: allowed is"},
        {"burst=0", "burst=0: allowed is"},
        {"burst=1:0", "burst=1:0: allowed is"},
        {"burst=1:", "burst=1:: allowed is"},
        {"burst=:20", "burst=:20: allowed is"},
        {"burst=1:2:3", "burst=1:2:3: allowed is"},
        {"burst=1:20,loss=5%", "loss is said by burst=ENTER:LEAVE already"},
        {"loss=5%,burst=1:20", "loss is said by burst=ENTER:LEAVE already"},
        {"queue=99999999999999999999999", "queue=99999999999999999999999: allowed is"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rdt_link_config config = {.seed = 123};
        char why[200] = "";

        ck_assert_msg(rdt_link_parse(&config, cases[i].text, why, sizeof why) == RDT_EINVAL, "%s",
                      cases[i].text);
        ck_assert_uint_eq(config.seed, 123);
        ck_assert_msg(strncmp(why, cases[i].why, strlen(cases[i].why)) == 0, "\"%s\" says \"%s\"",
                      cases[i].text, why);
    }
}
END_TEST

START_TEST(link_parse__complaint_is_cut_to_its_room)
{
    struct rdt_link_config config;
    char why[8] = "1234567";

    ck_assert_int_eq(rdt_link_parse(&config, "nonsense=1", why, 5), RDT_EINVAL);
    ck_assert_str_eq(why, "unkn");
    ck_assert_int_eq(why[5], '6');
    ck_assert_int_eq(rdt_link_parse(&config, "nonsense=1", NULL, 0), RDT_EINVAL);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        link__perfect_one_passes_everything_at_once,
        link__empty_datagrams_pass,
        link__same_seed_same_fate_whatever_the_timing,
        link__rates_are_what_was_asked_for,
        link__bursts_have_their_length,
        link__jitter_keeps_the_order,
        link__reordered_come_behind_later_ones,
        link__corruption_flips_one_to_four_bits,
        link__one_byte_can_be_corrupted,
        link__rate_spreads_and_the_queue_overflows,
        link__a_datagram_larger_than_the_queue_still_passes_an_idle_link,
        link__mtu_drops_what_is_larger,
        link__set_keeps_what_is_under_way,
        link__in_flight_is_limited,
        link__open_refuses_what_is_no_probability,
        link__stats_fill_only_what_the_caller_knows,
        link_parse__every_key,
        link_parse__forms_of_numbers,
        link_parse__burst_pair_is_gilberts,
        link_parse__errors_name_the_key_and_what_is_allowed,
        link_parse__complaint_is_cut_to_its_room,
    };

    return SUITE_MAIN(argc, argv, "link", tests);
}
