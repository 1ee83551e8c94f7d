/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_TREE_H
#define CLUSTER_TREE_H

/*
 * The fixed binary tree over the leaves of a step, and sums in its order.
 *
 * A span of n leaves splits at the largest power of two below n.  Every synchronous sum adds
 * sum(left) + sum(right) at every tree node, whoever computes which: that is what makes the weights
 * the same for any number of members.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
    uint32_t first;
    uint32_t count;
};

enum { TREE_LEAVES_MAX = 4096, TREE_PARTS_MAX = 64 };

/* Where a span of count >= 2 leaves splits: leaves in its left child. */
uint32_t tree_split(uint32_t count);

/* Is this span a node of the tree over `leaves` leaves? */
bool tree_has(uint32_t leaves, struct span span);

/* The fewest whole subtrees that make up a span, in order.  Returns their number, at most
 * 2 log2(leaves). */
size_t tree_parts(uint32_t leaves, struct span span, struct span parts[TREE_PARTS_MAX]);

/* Cuts `leaves` leaves into shares for `members` members, in order, weights[i] > 0 being their
 * speeds (NULL: equal).  While speeds differ by at most 10 % they count as equal and every share is
 * one whole subtree, so one PARTIAL a step: eight leaves over three members are 4, 2, 2, for the
 * coordinator's link is scarcer than a leaf's time.  Where that would make the longest share more
 * than a third longer than it need be, and for unequal speeds, the longest share in time is as
 * short as it can be, its cuts on the highest tree boundaries that allow.  A member may get an
 * empty share (count 0) when there are more members than leaves or it is very slow.  */
void tree_shares(uint32_t leaves, const double *weights, size_t members, struct span *shares);

/* One subtree's sum that a reduction starts from. */
struct partial {
    struct span span;
    const float *floats;
    double loss;
};

/*
 * Adds partials, in tree order, for the floats [from, from + count) of the vector: out[0 ...
 * count). The partials are sorted by span and cover the tree over `leaves` exactly; `out` overlaps
 * none of them.
 *
 * Every node of the tree is the tree over its own leaves: who sums a subtree of n leaves asks for
 * the tree over n, with spans counted from the subtree's first leaf.
 */
void tree_sum(uint32_t leaves, const struct partial *partials, size_t partials_count, size_t from,
              size_t count, float *out);

/* The same for the losses. */
double tree_sum_loss(uint32_t leaves, const struct partial *partials, size_t partials_count);

/* Do the sorted partials cover the tree over `leaves` exactly, without overlap? */
bool tree_covered(uint32_t leaves, const struct partial *partials, size_t partials_count);

#endif
