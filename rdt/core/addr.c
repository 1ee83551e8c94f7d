/* SPDX-License-Identifier: MIT */

/* Addresses as text and back.  Numeric only: names are the caller's business. */

#include <rdt/rdt.h>

#include <assert.h>
#include <string.h>

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool rdt_addr_is_v4(const struct rdt_addr *addr)
{
    return memcmp(addr->ip, v4_prefix, sizeof v4_prefix) == 0;
}

bool rdt_addr_equal(const struct rdt_addr *a, const struct rdt_addr *b)
{
    return memcmp(a->ip, b->ip, sizeof a->ip) == 0 && a->port == b->port &&
           a->scope_id == b->scope_id;
}

struct rdt_addr rdt_addr_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port)
{
    struct rdt_addr addr = {.port = port};

    memcpy(addr.ip, v4_prefix, sizeof v4_prefix);
    addr.ip[12] = a;
    addr.ip[13] = b;
    addr.ip[14] = c;
    addr.ip[15] = d;
    return addr;
}

/* A decimal number without sign, spaces or needless zeroes.  Moves *text past it. */
static bool parse_number(const char **text, uint32_t max, uint32_t *out)
{
    const char *at = *text;
    uint64_t value = 0;

    if (*at < '0' || *at > '9')
        return false;
    if (at[0] == '0' && at[1] >= '0' && at[1] <= '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > max)
            return false;
    }
    *text = at;
    *out = (uint32_t)value;
    return true;
}

static bool parse_v4(const char **text, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t value;

        if (i > 0 && *(*text)++ != '.')
            return false;
        if (!parse_number(text, 255, &value))
            return false;
        out[i] = (uint8_t)value;
    }
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* One group of an IPv6 address, one to four digits. */
static bool parse_group(const char **text, uint8_t out[2])
{
    const char *at = *text;
    unsigned value = 0;
    int digits = 0;

    for (; hex_digit(*at) >= 0; at++) {
        value = value << 4 | (unsigned)hex_digit(*at);
        if (++digits > 4)
            return false;
    }
    if (digits == 0)
        return false;
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
    *text = at;
    return true;
}

/* The last 32 bits of an IPv6 address may be dotted. */
static bool is_dotted(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return *at == '.';
}

static bool parse_v6(const char **text, uint8_t out[16])
{
    size_t len = 0;
    size_t gap = SIZE_MAX; /* where :: stands */
    const char *at = *text;

    if (at[0] == ':' && at[1] == ':') {
        gap = 0;
        at += 2;
    }
    memset(out, 0, 16);
    while (hex_digit(*at) >= 0) {
        if (is_dotted(at)) {
            if (len > 12 || !parse_v4(&at, out + len))
                return false;
            len += 4;
            break;
        }
        if (len > 14 || !parse_group(&at, out + len))
            return false;
        len += 2;
        if (*at != ':')
            break;
        at++;
        if (*at == ':') {
            if (gap != SIZE_MAX)
                return false;
            gap = len;
            at++;
        } else if (hex_digit(*at) < 0) {
            return false;
        }
    }
    if (gap == SIZE_MAX ? len != 16 : len > 14)
        return false;
    if (gap != SIZE_MAX) {
        memmove(out + 16 - (len - gap), out + gap, len - gap);
        memset(out + gap, 0, 16 - len);
    }
    *text = at;
    return true;
}

int rdt_addr_parse(struct rdt_addr *addr, const char *text)
{
    struct rdt_addr out = {.port = 0};
    const char *at = text;
    uint32_t port;

    assert(addr);
    assert(text);
    if (*at == '[') {
        at++;
        if (!parse_v6(&at, out.ip))
            return RDT_EINVAL;
        if (*at == '%') {
            at++;
            if (!parse_number(&at, UINT32_MAX, &out.scope_id))
                return RDT_EINVAL;
        }
        if (*at++ != ']')
            return RDT_EINVAL;
    } else {
        memcpy(out.ip, v4_prefix, sizeof v4_prefix);
        if (!parse_v4(&at, out.ip + 12))
            return RDT_EINVAL;
    }
    if (*at++ != ':' || !parse_number(&at, 65535, &port) || *at != '\0')
        return RDT_EINVAL;
    out.port = (uint16_t)port;
    *addr = out;
    return RDT_OK;
}

static char *put_number(char *at, uint32_t value)
{
    char digits[10];
    int count = 0;

    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static char *put_group(char *at, unsigned value)
{
    static const char hex[] = "0123456789abcdef";
    bool begun = false;

    for (int shift = 12; shift >= 0; shift -= 4) {
        const unsigned digit = value >> shift & 15u;

        begun = begun || digit != 0 || shift == 0;
        if (begun)
            *at++ = hex[digit];
    }
    return at;
}

static unsigned group(const uint8_t *ip, int i)
{
    return (unsigned)ip[2 * i] << 8 | ip[2 * i + 1];
}

/* The longest run of at least two zero groups, the first of equals (RFC 5952). */
static int zero_run(const uint8_t *ip, int *len)
{
    int best = -1;

    *len = 1;
    for (int i = 0; i < 8; i++) {
        int n = 0;

        while (i + n < 8 && group(ip, i + n) == 0)
            n++;
        if (n > *len) {
            *len = n;
            best = i;
        }
    }
    return best;
}

static char *put_v6(char *at, const uint8_t *ip)
{
    int run_len;
    const int run = zero_run(ip, &run_len);

    for (int i = 0; i < 8; i++) {
        if (i == run) {
            *at++ = ':';
            *at++ = ':';
            i += run_len - 1;
            continue;
        }
        if (i > 0 && !(run >= 0 && i == run + run_len))
            *at++ = ':';
        at = put_group(at, group(ip, i));
    }
    return at;
}

void rdt_addr_format(const struct rdt_addr *addr, char *buf)
{
    char *at = buf;

    if (rdt_addr_is_v4(addr) && addr->scope_id == 0) {
        for (int i = 12; i < 16; i++) {
            if (i > 12)
                *at++ = '.';
            at = put_number(at, addr->ip[i]);
        }
    } else {
        *at++ = '[';
        at = put_v6(at, addr->ip);
        if (addr->scope_id != 0) {
            *at++ = '%';
            at = put_number(at, addr->scope_id);
        }
        *at++ = ']';
    }
    *at++ = ':';
    at = put_number(at, addr->port);
    *at = '\0';
    assert(at - buf < RDT_ADDR_TEXT_MAX);
}
