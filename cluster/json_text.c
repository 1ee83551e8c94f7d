/* SPDX-License-Identifier: MIT */
#include <cluster/json_text.h>

#include <stdint.h>
#include <string.h>

enum { NAME_MAX_LEN = 63 };

static unsigned line_of(const char *text, size_t at)
{
    unsigned line = 1;

    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

/* Past the string that begins at `at`. */
static size_t skip_string(const char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++) {
        if (text[at] == '\\')
            at++;
    }
    return at < len ? at + 1 : len;
}

/* Blanks one comment; returns where it ends, or SIZE_MAX. */
static size_t blank_comment(char *text, size_t len, size_t at)
{
    bool block = text[at + 1] == '*';
    size_t end = at + 2;

    while (end < len) {
        if (!block && text[end] == '\n')
            break;
        if (block && text[end] == '*' && end + 1 < len && text[end + 1] == '/')
            break;
        end++;
    }
    if (block && end >= len)
        return SIZE_MAX;
    if (block)
        end += 2;
    for (; at < end; at++) {
        if (text[at] != '\n')
            text[at] = ' ';
    }
    return end;
}

unsigned json_text_strip(char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t end = at + 1;

        if (text[at] == '"')
            end = skip_string(text, len, at);
        else if (text[at] == '/' && at + 1 < len && (text[at + 1] == '/' || text[at + 1] == '*'))
            end = blank_comment(text, len, at);
        if (end == SIZE_MAX)
            return line_of(text, at);
        at = end;
    }
    return 0;
}

static size_t skip_space(const char *text, size_t len, size_t at)
{
    while (at < len && strchr(" \t\r\n", text[at]) && text[at] != '\0')
        at++;
    return at;
}

/* To the comma or bracket behind the value that begins at `at`. */
static size_t skip_value(const char *text, size_t len, size_t at)
{
    size_t depth = 0;

    while (at < len) {
        char c = text[at];

        if (c == '"') {
            at = skip_string(text, len, at);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            break;
        if (c == '{' || c == '[')
            depth++;
        if (c == '}' || c == ']')
            depth--;
        at++;
    }
    return at;
}

/* One step of a path: a key, or an index in brackets. */
struct part {
    const char *name;
    size_t len;
    size_t idx;
    bool is_index;
};

static const char *next_part(const char *path, struct part *out)
{
    *out = (struct part){.is_index = *path == '['};
    if (out->is_index) {
        for (path++; *path >= '0' && *path <= '9'; path++)
            out->idx = out->idx * 10 + (size_t)(*path - '0');
        path += *path == ']';
    } else {
        out->name = path;
        out->len = strcspn(path, ".[");
        path += out->len;
    }
    return path + (*path == '.');
}

/* In the object at `at`: the position of the key, and of its value. */
static bool find_key(const char *text, size_t len, size_t at, const struct part *part,
                     size_t found[2])
{
    if (at >= len || text[at] != '{')
        return false;
    at = skip_space(text, len, at + 1);
    while (at < len && text[at] == '"') {
        size_t key = at;
        size_t end = skip_string(text, len, at);

        at = skip_space(text, len, end);
        if (at >= len || text[at] != ':')
            return false;
        at = skip_space(text, len, at + 1);
        if (end - key == part->len + 2 && memcmp(text + key + 1, part->name, part->len) == 0) {
            found[0] = key;
            found[1] = at;
            return true;
        }
        at = skip_value(text, len, at);
        if (at < len && text[at] == ',')
            at = skip_space(text, len, at + 1);
    }
    return false;
}

static bool find_index(const char *text, size_t len, size_t at, const struct part *part,
                       size_t found[2])
{
    if (at >= len || text[at] != '[')
        return false;
    at = skip_space(text, len, at + 1);
    for (size_t idx = 0; at < len && text[at] != ']'; idx++) {
        if (idx == part->idx) {
            found[0] = found[1] = at;
            return true;
        }
        at = skip_value(text, len, at);
        if (at < len && text[at] == ',')
            at = skip_space(text, len, at + 1);
    }
    return false;
}

unsigned json_text_line(const char *text, size_t len, const char *path)
{
    size_t found[2] = {0, skip_space(text, len, 0)};
    unsigned line = 0;

    while (*path != '\0') {
        struct part part;
        bool there;

        path = next_part(path, &part);
        there = part.is_index ? find_index(text, len, found[1], &part, found)
                              : find_key(text, len, found[1], &part, found);
        if (!there)
            break;
        line = line_of(text, found[0]);
    }
    return line;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned json_text_distance(const char *a, const char *b)
{
    unsigned rows[3][NAME_MAX_LEN + 1]; /* two above, above, this one; in turns */
    size_t a_len = strlen(a) < NAME_MAX_LEN ? strlen(a) : NAME_MAX_LEN;
    size_t b_len = strlen(b) < NAME_MAX_LEN ? strlen(b) : NAME_MAX_LEN;

    for (unsigned j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *before = rows[(i + 1) % 3];

        row[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            unsigned best = least(above[j], row[j - 1]) + 1;

            best = least(best, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = least(best, before[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}
