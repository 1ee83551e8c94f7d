/* SPDX-License-Identifier: MIT */
#include <cluster/tree.h>

#include <assert.h>
#include <string.h>

/*
 * DESIGN: every node of the tree is itself the tree over its own leaves, so one rule (tree_split)
 * serves all levels and a member that holds a subtree needs no other.  A left child always holds a
 * power of two of leaves; a cut at position p is therefore a boundary of the tree at the level
 * given by the trailing zeros of p, and the roundest cut costs the fewest partials.
 */

/* Floats of a block: with the sums that wait for their right halves it stays in the cache. */
enum { BLOCK = 1024, DEPTH_MAX = 13 };

static_assert(TREE_LEAVES_MAX <= 1 << (DEPTH_MAX - 1), "one sum waits at each level");

/* Speeds that differ by less than this are taken as equal. */
static const double skew = 1.10;

uint32_t tree_split(uint32_t count)
{
    uint32_t half = 1;

    assert(count >= 2);
    assert(count <= TREE_LEAVES_MAX);
    while (half * 2 < count)
        half *= 2;
    return half;
}

static struct span left_of(struct span node)
{
    return (struct span){node.first, tree_split(node.count)};
}

static struct span right_of(struct span node)
{
    uint32_t left = tree_split(node.count);

    return (struct span){node.first + left, node.count - left};
}

static bool same(struct span a, struct span b)
{
    return a.first == b.first && a.count == b.count;
}

bool tree_has(uint32_t leaves, struct span span)
{
    struct span node = {0, leaves};

    assert(leaves <= TREE_LEAVES_MAX);
    if (span.count == 0 || span.count > leaves || span.first > leaves - span.count)
        return false;
    while (!same(node, span)) {
        if (node.count <= span.count)
            return false;
        node = span.first < right_of(node).first ? left_of(node) : right_of(node);
    }
    return true;
}

static size_t parts_below(struct span node, struct span span, struct span *parts, size_t count)
{
    uint32_t end = span.first + span.count;

    if (node.first >= end || node.first + node.count <= span.first)
        return count;
    if (node.first >= span.first && node.first + node.count <= end) {
        assert(count < TREE_PARTS_MAX);
        parts[count] = node;
        return count + 1;
    }
    count = parts_below(left_of(node), span, parts, count);
    return parts_below(right_of(node), span, parts, count);
}

size_t tree_parts(uint32_t leaves, struct span span, struct span parts[TREE_PARTS_MAX])
{
    assert(leaves <= TREE_LEAVES_MAX);
    assert(span.count <= leaves);
    assert(span.first <= leaves - span.count);
    if (span.count == 0)
        return 0;
    return parts_below((struct span){0, leaves}, span, parts, 0);
}

static uint32_t trailing_zeros(uint32_t value)
{
    uint32_t zeros = 0;

    assert(value > 0);
    while (!(value & 1)) {
        value >>= 1;
        zeros++;
    }
    return zeros;
}

/* Nobody gets more than the fair share rounded up; within that every cut is as round as it can be.
 */
static void equal_shares(uint32_t leaves, size_t members, struct span *shares)
{
    uint64_t most = (leaves + members - 1) / members;
    uint64_t at = 0;

    for (size_t i = 0; i < members; i++) {
        uint64_t behind = members - i - 1;
        uint64_t low = at + 1;
        uint64_t high = at + most < leaves ? at + most : leaves;
        uint64_t best;

        if (leaves > behind * most && leaves - behind * most > low)
            low = leaves - behind * most;
        if (leaves >= members && high > leaves - behind)
            high = leaves - behind;
        best = high;
        for (uint64_t cut = low; cut < high; cut++) {
            if (trailing_zeros((uint32_t)cut) > trailing_zeros((uint32_t)best))
                best = cut;
        }
        shares[i] = (struct span){(uint32_t)at, (uint32_t)(best - at)};
        at = best;
    }
    assert(at == leaves);
}

/* One whole subtree for each member: the longest is split until there are enough.  False when that
 * makes the longest more than a third longer than it need be. */
static bool whole_shares(uint32_t leaves, size_t members, struct span *shares)
{
    uint32_t ideal = (uint32_t)((leaves + members - 1) / members);
    size_t count = 1;
    size_t longest = 0;

    shares[0] = (struct span){0, leaves};
    while (count < members && shares[longest].count > 1) {
        struct span span = shares[longest];

        memmove(shares + longest + 1, shares + longest, (count - longest) * sizeof *shares);
        shares[longest] = left_of(span);
        shares[longest + 1] = right_of(span);
        count++;
        longest = 0;
        for (size_t i = 1; i < count; i++)
            longest = shares[i].count >= shares[longest].count ? i : longest;
    }
    for (; count < members; count++)
        shares[count] = (struct span){leaves, 0};
    return 3 * shares[longest].count <= 4 * ideal;
}

/* Leaf by leaf to whoever would be done with it first: the longest share is as short as it can be.
 */
static void weighted_shares(uint32_t leaves, const double *weights, size_t members,
                            struct span *shares)
{
    uint32_t at = 0;

    for (size_t i = 0; i < members; i++)
        shares[i] = (struct span){0, 0};
    for (uint32_t leaf = 0; leaf < leaves; leaf++) {
        size_t best = 0;

        for (size_t i = 1; i < members; i++) {
            if ((shares[i].count + 1) / weights[i] < (shares[best].count + 1) / weights[best])
                best = i;
        }
        shares[best].count++;
    }
    for (size_t i = 0; i < members; i++) {
        shares[i].first = at;
        at += shares[i].count;
    }
}

void tree_shares(uint32_t leaves, const double *weights, size_t members, struct span *shares)
{
    double slowest;
    double fastest;

    assert(members > 0);
    assert(leaves <= TREE_LEAVES_MAX);
    if (!weights) {
        if (!whole_shares(leaves, members, shares))
            equal_shares(leaves, members, shares);
        return;
    }
    slowest = fastest = weights[0];
    for (size_t i = 0; i < members; i++) {
        assert(weights[i] > 0);
        slowest = weights[i] < slowest ? weights[i] : slowest;
        fastest = weights[i] > fastest ? weights[i] : fastest;
    }
    if (fastest <= slowest * skew)
        tree_shares(leaves, NULL, members, shares);
    else
        weighted_shares(leaves, weights, members, shares);
}

bool tree_covered(uint32_t leaves, const struct partial *partials, size_t partials_count)
{
    uint32_t at = 0;

    for (size_t i = 0; i < partials_count; i++) {
        if (partials[i].span.first != at || !tree_has(leaves, partials[i].span))
            return false;
        at += partials[i].span.count;
    }
    return at == leaves;
}

/* One block of the vector on its way through the tree. */
struct sum {
    const struct partial *next; /* partials are used up from left to right */
    size_t from;
    size_t count;
};

/* Two loops, each without aliases, so that both become vector code. */
static void add_to(float *restrict left, const float *restrict right, size_t count)
{
    for (size_t i = 0; i < count; i++)
        left[i] += right[i];
}

static void add_into(float *restrict out, const float *restrict left, const float *restrict right,
                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = left[i] + right[i];
}

/* The sum of a node: a partial where it lies, or left + right in dst.  The left sum waits there
 * while the right one uses the stack. */
static const float *sum_node(struct sum *sum, struct span node, float *dst, float *stack)
{
    const float *left;
    const float *right;

    if (same(sum->next->span, node))
        return (sum->next++)->floats + sum->from;
    left = sum_node(sum, left_of(node), dst, stack);
    right = sum_node(sum, right_of(node), stack, stack + sum->count);
    if (left == dst)
        add_to(dst, right, sum->count);
    else
        add_into(dst, left, right, sum->count);
    return dst;
}

void tree_sum(uint32_t leaves, const struct partial *partials, size_t partials_count, size_t from,
              size_t count, float *out)
{
    float stack[DEPTH_MAX * BLOCK];

    assert(tree_covered(leaves, partials, partials_count));
    assert(partials_count > 0);
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t block = count - done < BLOCK ? count - done : BLOCK;
        struct sum sum = {.next = partials, .from = from + done, .count = block};
        const float *floats = sum_node(&sum, (struct span){0, leaves}, out + done, stack);

        if (floats != out + done)
            memcpy(out + done, floats, block * sizeof *out);
        assert(sum.next == partials + partials_count);
    }
}

static double loss_node(const struct partial **next, struct span node)
{
    double left;

    if (same((*next)->span, node))
        return (*next)++->loss;
    left = loss_node(next, left_of(node));
    return left + loss_node(next, right_of(node));
}

double tree_sum_loss(uint32_t leaves, const struct partial *partials, size_t partials_count)
{
    const struct partial *next = partials;
    double loss;

    assert(tree_covered(leaves, partials, partials_count));
    assert(partials_count > 0);
    loss = loss_node(&next, (struct span){0, leaves});
    assert(next == partials + partials_count);
    return loss;
}
