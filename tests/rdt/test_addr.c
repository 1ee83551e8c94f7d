/* SPDX-License-Identifier: MIT */
#include "rdt/core/prng.h"
#include "suite.h"

#include <rdt/rdt.h>

#include <arpa/inet.h>

static void assert_formats(const char *text, const char *expected)
{
    struct rdt_addr addr;
    struct rdt_addr again;
    char out[RDT_ADDR_TEXT_MAX];

    ck_assert_msg(rdt_addr_parse(&addr, text) == RDT_OK, "%s", text);
    rdt_addr_format(&addr, out);
    ck_assert_str_eq(out, expected);
    ck_assert_int_eq(rdt_addr_parse(&again, out), RDT_OK);
    ck_assert(rdt_addr_equal(&addr, &again));
}

START_TEST(addr__text_forms)
{
    assert_formats("1.2.3.4:77", "1.2.3.4:77");
    assert_formats("0.0.0.0:0", "0.0.0.0:0");
    assert_formats("255.255.255.255:65535", "255.255.255.255:65535");
    assert_formats("[::1]:9", "[::1]:9");
    assert_formats("[::]:9", "[::]:9");
    assert_formats("[fe80::1%2]:77", "[fe80::1%2]:77");
    assert_formats("[FE80:0:0:0:0:0:0:1]:77", "[fe80::1]:77");
    assert_formats("[2001:db8::1:0:0:1]:1", "[2001:db8::1:0:0:1]:1");
    assert_formats("[2001:db8:0:1:1:1:1:1]:1", "[2001:db8:0:1:1:1:1:1]:1");
    assert_formats("[1:2:3:4:5:6:7::]:1", "[1:2:3:4:5:6:7:0]:1");
    assert_formats("[::ffff:1.2.3.4]:5", "1.2.3.4:5");
    assert_formats("[64:ff9b::1.2.3.4]:5", "[64:ff9b::102:304]:5");
    assert_formats("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535",
                   "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535");
}
END_TEST

START_TEST(addr__bad_text_is_refused_and_changes_nothing)
{
    static const char *const bad[] = {
        "",
        "1.2.3.4",
        "1.2.3.4:",
        "1.2.3:4",
        "1.2.3.4.5:6",
        "256.1.1.1:1",
        "01.2.3.4:5",
        "1.2.3.4:65536",
        "1.2.3.4:+5",
        "1.2.3.4: 5",
        " 1.2.3.4:5",
        "1.2.3.4:5 ",
        "1.2.3.4:5x",
        "1..3.4:5",
        "localhost:5",
        "::1:5",
        "[::1]",
        "[::1]:",
        "[::1:5",
        "[]:5",
        "[:]:5",
        "[:::]:5",
        "[1:2:3:4:5:6:7]:5",
        "[1:2:3:4:5:6:7:8:9]:5",
        "[1:2:3:4:5:6:7:8::]:5",
        "[1::2::3]:5",
        "[12345::]:5",
        "[g::]:5",
        "[::1%]:5",
        "[::1%eth0]:5",
        "[::1%4294967296]:5",
        "[1:2:3:4:5:6:7:1.2.3.4]:5",
        "[::1.2.3]:5",
        "[1:]:5",
    };
    const struct rdt_addr before = rdt_addr_v4(9, 9, 9, 9, 9);

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rdt_addr addr = before;

        ck_assert_msg(rdt_addr_parse(&addr, bad[i]) == RDT_EINVAL, "%s", bad[i]);
        ck_assert(rdt_addr_equal(&addr, &before));
    }
}
END_TEST

START_TEST(addr__v4_is_mapped)
{
    static const uint8_t ip[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7};
    const struct rdt_addr addr = rdt_addr_v4(10, 0, 0, 7, 4711);
    struct rdt_addr six;

    ck_assert(rdt_addr_is_v4(&addr));
    ck_assert_mem_eq(addr.ip, ip, sizeof ip);
    ck_assert_uint_eq(addr.port, 4711);
    ck_assert_int_eq(rdt_addr_parse(&six, "[::1]:4711"), RDT_OK);
    ck_assert(!rdt_addr_is_v4(&six));
}
END_TEST

START_TEST(addr__equal_compares_all_of_it)
{
    const struct rdt_addr a = rdt_addr_v4(1, 2, 3, 4, 5);
    struct rdt_addr b = a;

    ck_assert(rdt_addr_equal(&a, &b));
    b.port++;
    ck_assert(!rdt_addr_equal(&a, &b));
    b = a;
    b.scope_id = 1;
    ck_assert(!rdt_addr_equal(&a, &b));
    b = a;
    b.ip[0] = 1;
    ck_assert(!rdt_addr_equal(&a, &b));
}
END_TEST

/* The system's own functions are the oracle, over addresses with many zero groups. */
START_TEST(addr__agrees_with_the_system)
{
    for (uint64_t n = 0; n < 5000; n++) {
        uint64_t random = suite_seed(n);
        struct rdt_addr addr = {.port = 1};
        struct rdt_addr back;
        char ours[RDT_ADDR_TEXT_MAX];
        char theirs[INET6_ADDRSTRLEN];
        char bracketed[INET6_ADDRSTRLEN + 8];

        for (size_t i = 0; i < 8; i++) {
            const uint64_t group = prng_splitmix64(&random);

            if (group % 2 == 0)
                continue;
            addr.ip[2 * i] = (uint8_t)(group >> 8) & (uint8_t)(group >> 40);
            addr.ip[2 * i + 1] = (uint8_t)(group >> 16);
        }
        addr.ip[0] |= 1; /* inet_ntop writes ::a.b.c.d with dots */
        ck_assert_ptr_nonnull(inet_ntop(AF_INET6, addr.ip, theirs, sizeof theirs));
        snprintf(bracketed, sizeof bracketed, "[%s]:1", theirs);
        rdt_addr_format(&addr, ours);
        ck_assert_str_eq(ours, bracketed);
        ck_assert_int_eq(rdt_addr_parse(&back, ours), RDT_OK);
        ck_assert(rdt_addr_equal(&addr, &back));
    }
}
END_TEST

START_TEST(error__every_code_has_a_text)
{
    for (int err = RDT_ABORTED; err <= RDT_OK; err++)
        ck_assert_str_ne(rdt_strerror(err), "unknown error");
    ck_assert_str_eq(rdt_strerror(1), "unknown error");
    ck_assert_str_eq(rdt_strerror(RDT_ABORTED - 1), "unknown error");
    for (int reason = RDT_CLOSED_LOCAL; reason <= RDT_CLOSED_REFUSED; reason++)
        ck_assert_str_ne(rdt_closed_name((enum rdt_closed)reason), "unknown");
    ck_assert_str_eq(rdt_closed_name(RDT_CLOSED_DEAD), "dead");
}
END_TEST

START_TEST(prng__same_entropy_same_numbers)
{
    uint8_t entropy[32] = {0};
    struct prng a;
    struct prng b;
    uint8_t bytes[19];

    prng_init(&a, entropy);
    prng_init(&b, entropy);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(prng_u64(&a), prng_u64(&b));
    entropy[31] = 1;
    prng_init(&b, entropy);
    ck_assert_uint_ne(prng_u64(&a), prng_u64(&b));
    memset(bytes, 0, sizeof bytes);
    prng_bytes(&a, bytes, 17);
    ck_assert_uint_eq(bytes[17], 0);
    ck_assert_uint_eq(bytes[18], 0);
}
END_TEST

/* The published first outputs of splitmix64 for the seed 1234567. */
START_TEST(prng__splitmix64_known_answers)
{
    static const uint64_t answers[] = {6457827717110365317u, 3203168211198807973u,
                                       9817491932198370423u, 4593380528125082431u,
                                       16408922859458223821u};
    uint64_t state = 1234567;

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        ck_assert_uint_eq(prng_splitmix64(&state), answers[i]);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        addr__text_forms,
        addr__bad_text_is_refused_and_changes_nothing,
        addr__v4_is_mapped,
        addr__equal_compares_all_of_it,
        addr__agrees_with_the_system,
        error__every_code_has_a_text,
        prng__same_entropy_same_numbers,
        prng__splitmix64_known_answers,
    };

    return SUITE_MAIN(argc, argv, "addr", tests);
}
