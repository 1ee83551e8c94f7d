/* SPDX-License-Identifier: MIT */

/*
 * The one parser of impairments: "loss=5%,delay=2ms,...".  Written by hand, for the numbers of the
 * C library depend on the locale.
 */

#include <rdt/link.h>

#include <assert.h>
#include <string.h>

enum {
    OVERHEAD_IPV4_UDP = 28,
    MTU_LEAST = 68, /* RFC 791 */
    MTU_MOST = 65535,
    DIGITS_MAX = 15, /* more than a double can tell apart */
};

/* A piece of the text. */
struct text {
    const char *at;
    size_t len;
};

enum key {
    KEY_LOSS,
    KEY_BURST,
    KEY_DELAY,
    KEY_JITTER,
    KEY_REORDER,
    KEY_DUPLICATE,
    KEY_CORRUPT,
    KEY_RATE,
    KEY_QUEUE,
    KEY_MTU,
    KEY_SEED,
    KEY_COUNT,
};

static const struct {
    const char *name;
    const char *allowed;
} keys[KEY_COUNT] = {
    [KEY_LOSS] = {"loss", "0% to 100%, or 0 to 1"},
    [KEY_BURST] = {"burst", "a mean length of 1 to 1000000, or ENTER:LEAVE in percent"},
    [KEY_DELAY] = {"delay", "a time with unit: ns, us, ms, s; at most 3600s"},
    [KEY_JITTER] = {"jitter", "a time with unit: ns, us, ms, s; at most 3600s"},
    [KEY_REORDER] = {"reorder", "0% to 100%, or 0 to 1"},
    [KEY_DUPLICATE] = {"duplicate", "0% to 100%, or 0 to 1"},
    [KEY_CORRUPT] = {"corrupt", "0% to 100%, or 0 to 1"},
    [KEY_RATE] = {"rate", "bits a second with unit: bit, kbit, mbit, gbit; 1kbit to 1000gbit"},
    [KEY_QUEUE] = {"queue", "bytes: 1 to 1g, with k, m or g for powers of 1024"},
    [KEY_MTU] = {"mtu", "68 to 65535"},
    [KEY_SEED] = {"seed", "0 to 18446744073709551615"},
};

struct unit {
    const char *name;
    double factor;
};

static const struct unit share_units[] = {{"", 1}, {"%", 0.01}, {NULL, 0}};
static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};
static const struct unit time_units[] = {
    {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const struct unit rate_units[] = {
    {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {NULL, 0}};
static const struct unit size_units[] = {
    {"", 1}, {"k", 1024}, {"m", 1048576}, {"g", 1073741824}, {NULL, 0}};

/* ---------- saying what is wrong ---------- */

struct complaint {
    char *at;
    size_t left;
};

static void say(struct complaint *c, const char *text, size_t len)
{
    for (size_t i = 0; i < len && c->left > 1; i++) {
        *c->at++ = text[i];
        c->left--;
    }
    if (c->left > 0)
        *c->at = '\0';
}

static void say_text(struct complaint *c, const char *text)
{
    say(c, text, strlen(text));
}

static int complain_value(struct complaint *c, enum key key, struct text value)
{
    say_text(c, keys[key].name);
    say_text(c, "=");
    say(c, value.at, value.len);
    say_text(c, ": allowed is ");
    say_text(c, keys[key].allowed);
    return RDT_EINVAL;
}

static int complain_key(struct complaint *c, struct text name)
{
    say_text(c, "unknown impairment \"");
    say(c, name.at, name.len);
    say_text(c, "\": allowed are");
    for (int key = 0; key < KEY_COUNT; key++) {
        say_text(c, key > 0 ? ", " : " ");
        say_text(c, keys[key].name);
    }
    return RDT_EINVAL;
}

static int complain_key_text(struct complaint *c, enum key key, const char *text)
{
    say_text(c, keys[key].name);
    say_text(c, text);
    return RDT_EINVAL;
}

/* ---------- numbers ---------- */

static bool equals(struct text text, const char *name)
{
    return strlen(name) == text.len && memcmp(text.at, name, text.len) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes digits off the front of *text; false when there are none or too many. */
static bool take_digits(struct text *text, double *value, double *scale)
{
    size_t count = 0;

    while (count < text->len && is_digit(text->at[count])) {
        *value = *value * 10 + (text->at[count] - '0');
        *scale *= 10;
        count++;
    }
    text->at += count;
    text->len -= count;
    return count > 0 && count <= DIGITS_MAX;
}

/* "12", "0.5", "12ms": a decimal number and one of the units. */
static bool parse_number(struct text text, const struct unit *units, double *out)
{
    double value = 0;
    double scale = 1;

    if (!take_digits(&text, &value, &scale))
        return false;
    scale = 1;
    if (text.len > 0 && text.at[0] == '.') {
        text.at++;
        text.len--;
        if (!take_digits(&text, &value, &scale))
            return false;
    }
    for (; units->name; units++) {
        if (equals(text, units->name)) {
            *out = value / scale * units->factor;
            return true;
        }
    }
    return false;
}

static bool parse_within(struct text text, const struct unit *units, double low, double high,
                         double *out)
{
    double value;

    if (!parse_number(text, units, &value) || value < low || value > high)
        return false;
    *out = value;
    return true;
}

static bool parse_time(struct text text, uint64_t *out_ns)
{
    double value = 0;

    if (!equals(text, "0") && !parse_within(text, time_units, 0, 3600e9, &value))
        return false;
    *out_ns = (uint64_t)(value + 0.5);
    return true;
}

static bool parse_seed(struct text text, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.at[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.at[i] - '0'), &value))
            return false;
    }
    *out = value;
    return text.len > 0;
}

/* "4", a mean length, or "1:20": percent to enter and to leave a burst. */
static bool parse_burst(struct text text, struct rdt_link_config *config, bool *is_pair)
{
    const char *colon = memchr(text.at, ':', text.len);
    struct text enter_text;
    struct text leave_text;
    double enter;
    double leave;

    *is_pair = colon != NULL;
    if (!colon)
        return parse_within(text, plain_units, 1, 1e6, &config->burst);
    enter_text = (struct text){text.at, (size_t)(colon - text.at)};
    leave_text = (struct text){colon + 1, text.len - enter_text.len - 1};
    if (!parse_within(enter_text, plain_units, 0, 100, &enter) ||
        !parse_within(leave_text, plain_units, 0.0001, 100, &leave))
        return false;
    config->loss = enter / (enter + leave);
    config->burst = 100 / leave;
    return true;
}

/* ---------- keys ---------- */

static bool parse_whole(struct text text, const struct unit *units, double low, double high,
                        uint64_t *out)
{
    double value;

    if (!parse_within(text, units, low, high, &value))
        return false;
    *out = (uint64_t)(value + 0.5);
    return true;
}

static bool parse_value(struct rdt_link_config *config, enum key key, struct text value,
                        bool *burst_is_pair)
{
    uint64_t whole = 0;
    bool good;

    switch (key) {
    case KEY_LOSS:
        return parse_within(value, share_units, 0, 1, &config->loss);
    case KEY_BURST:
        return parse_burst(value, config, burst_is_pair);
    case KEY_DELAY:
        return parse_time(value, &config->delay_ns);
    case KEY_JITTER:
        return parse_time(value, &config->jitter_ns);
    case KEY_REORDER:
        return parse_within(value, share_units, 0, 1, &config->reorder);
    case KEY_DUPLICATE:
        return parse_within(value, share_units, 0, 1, &config->duplicate);
    case KEY_CORRUPT:
        return parse_within(value, share_units, 0, 1, &config->corrupt);
    case KEY_RATE:
        return parse_whole(value, rate_units, 1e3, 1e12, &config->rate_bps);
    case KEY_QUEUE:
        return parse_whole(value, size_units, 1, 1073741824, &config->queue_bytes);
    case KEY_MTU:
        good = parse_whole(value, plain_units, MTU_LEAST, MTU_MOST, &whole);
        config->mtu = (uint32_t)whole;
        return good;
    case KEY_SEED:
        return parse_seed(value, &config->seed);
    case KEY_COUNT:
        break;
    }
    return false;
}

static enum key find_key(struct text name)
{
    int key = 0;

    while (key < KEY_COUNT && !equals(name, keys[key].name))
        key++;
    return (enum key)key;
}

/* The part up to `end` or the end of the text; *text moves past it. */
static struct text take_until(const char **text, char end)
{
    const char *stop = strchr(*text, end);
    const struct text part = {*text, stop ? (size_t)(stop - *text) : strlen(*text)};

    *text = stop ? stop + 1 : *text + part.len;
    return part;
}

int rdt_link_parse(struct rdt_link_config *config, const char *text, char *why, size_t why_cap)
{
    struct rdt_link_config out = {.overhead_bytes = OVERHEAD_IPV4_UDP};
    struct complaint c;
    bool seen[KEY_COUNT] = {false};
    bool burst_is_pair = false;
    double loss = -1;

    assert(config);
    assert(text);
    c.at = why;
    c.left = why_cap;
    say(&c, "", 0);
    while (*text != '\0') {
        struct text item = take_until(&text, ',');
        const char *equal = memchr(item.at, '=', item.len);
        const struct text name = {item.at, equal ? (size_t)(equal - item.at) : item.len};
        const enum key key = find_key(name);

        if (key == KEY_COUNT)
            return complain_key(&c, name);
        if (seen[key])
            return complain_key_text(&c, key, " is given twice");
        seen[key] = true;
        item.at += equal ? name.len + 1 : name.len;
        item.len -= equal ? name.len + 1 : name.len;
        if (!parse_value(&out, key, item, &burst_is_pair))
            return complain_value(&c, key, item);
        if (key == KEY_LOSS)
            loss = out.loss;
    }
    if (burst_is_pair && loss >= 0)
        return complain_key_text(&c, KEY_LOSS, " is said by burst=ENTER:LEAVE already");
    *config = out;
    return RDT_OK;
}
