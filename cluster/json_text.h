/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_JSON_TEXT_H
#define CLUSTER_JSON_TEXT_H

/*
 * JSON as text, for what a parsed tree has forgotten: comments and the lines of keys.
 */

#include <stdbool.h>
#include <stddef.h>

/* Turns comments (to the end of the line, or between slash-star and star-slash) into spaces; lines
 * stay where they are.  0, or the line on which a comment begins that never ends. */
unsigned json_text_strip(char *text, size_t len);

/* The line of a key path ("model.layers[2].dense"), or of its deepest part that is there; 0: not
 * even the first is.  Any text is taken; what is not JSON is not found. */
unsigned json_text_line(const char *text, size_t len, const char *path);

/* How many characters must be added, dropped, changed or swapped with their neighbour to make one
 * name of the other.  Names beyond 63 characters are cut. */
unsigned json_text_distance(const char *a, const char *b);

#endif
