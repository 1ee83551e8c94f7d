/* SPDX-License-Identifier: MIT */
#include <coordinator/state.h>

#include <cluster/text.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static bool holds(struct span outer, struct span inner)
{
    return inner.first >= outer.first && inner.first + inner.count <= outer.first + outer.count;
}

/* The piece that is here and covers this span, if any. */
static const struct piece *covering(const struct coord *coord, struct span span)
{
    for (uint32_t i = 0; i < coord->pieces_count; i++)
        if (coord->pieces[i].state == PIECE_HERE && holds(coord->pieces[i].span, span))
            return &coord->pieces[i];
    return NULL;
}

static void name_liar(struct coord *coord, const struct member *member, const struct piece *piece)
{
    char text[ACTION_TEXT_MAX];

    text_format(text, sizeof text,
                "step %" PRIu64 ": nodes %s and %s computed different sums of leaves %" PRIu32
                " to %" PRIu32,
                coord->step, member->node.name, piece->by, piece->span.first,
                piece->span.first + piece->span.count - 1);
    coord_finish(coord, EXIT_NUMERIC, text);
}

static void not_finite(struct coord *coord, const struct member *member, const struct message *head)
{
    char text[ACTION_TEXT_MAX];

    text_format(text, sizeof text,
                "step %" PRIu64 ": loss or gradient is not finite (node %s, leaf %" PRIu64
                "): lower train.optimizer.lr, look at the data",
                coord->step, member->node.name, head->aux);
    coord_finish(coord, EXIT_NUMERIC, text);
}

/* For a partial that came without a landing (a small one, rdt pooled it): the piece it can be,
 * covering all pieces below it.  NULL: one of those is asked of a node, and its landing is not ours
 * to write to: the parts will come. */
static struct piece *piece_for(struct coord *coord, const struct input *input)
{
    struct span span = {input->head.first, input->head.count};
    struct piece *piece = NULL;
    uint32_t leaves = 0;

    for (uint32_t i = 0; i < coord->pieces_count; i++) {
        struct piece *part = &coord->pieces[i];

        if (part->state == PIECE_GONE || !holds(span, part->span))
            continue;
        if (part->state == PIECE_ASKED)
            return NULL;
        leaves += part->span.count;
        if (part->buf)
            piece = part;
    }
    if (!piece || leaves != span.count)
        return NULL;
    for (uint32_t i = 0; i < coord->pieces_count; i++)
        if (coord->pieces[i].state != PIECE_GONE && holds(span, coord->pieces[i].span))
            coord->pieces[i].state = PIECE_GONE;
    piece->span = span;
    memcpy(piece->buf + MESSAGE_HEADER, input->body, input->body_len);
    return piece;
}

/* What lands in a posted buffer has its tag; the fields of the head may still differ beyond it. */
static bool is_that(const struct coord *coord, const struct piece *piece,
                    const struct message *head)
{
    return head->step == coord->step && head->first == piece->span.first &&
           head->count == piece->span.count;
}

static void take(struct piece *piece, struct member *member, const struct input *input, double loss)
{
    piece->state = PIECE_HERE;
    piece->loss = loss;
    piece->hash = input->head.hash;
    memcpy(piece->by, member->node.name, sizeof piece->by);
    member->node.leaves += piece->span.count;
}

void reduce_partial(struct coord *coord, struct member *member, const struct input *input)
{
    const struct message *head = &input->head;
    struct span span = {head->first, head->count};
    struct piece *piece = input->user;
    const struct piece *have;
    struct body_trailer trailer;

    if (coord->phase != PHASE_STEP || member->state != MEMBER_READY ||
        (!piece && head->step != coord->step) ||
        !tree_has(schedule_step(&coord->config.schedule, coord->step).leaves, span))
        return;
    if (!body_partial_decode(&trailer, coord->parameters, input->body, input->body_len) ||
        (piece && !is_that(coord, piece, head))) {
        member_drop(coord, member, RDT_CLOSED_PROTOCOL);
        return;
    }
    if (!trailer.finite) {
        not_finite(coord, member, head);
        return;
    }
    have = covering(coord, span);
    if (have) {
        if (have->span.count == span.count && have->hash != head->hash)
            name_liar(coord, member, have);
        return;
    }
    if (!piece)
        piece = piece_for(coord, input);
    if (piece)
        take(piece, member, input, trailer.loss);
}

/* Do the partials that are here cover the tree? */
bool reduce_covered(const struct coord *coord)
{
    uint32_t leaves = 0;

    for (uint32_t i = 0; i < coord->pieces_count; i++)
        if (coord->pieces[i].state == PIECE_HERE)
            leaves += coord->pieces[i].span.count;
    return leaves == schedule_step(&coord->config.schedule, coord->step).leaves;
}

void reduce_commit(struct coord *coord)
{
    struct schedule_step step = schedule_step(&coord->config.schedule, coord->step);
    size_t count = 0;

    for (uint32_t i = 0; i < coord->pieces_count; i++) {
        const struct piece *piece = &coord->pieces[i];
        size_t at = count;

        assert(piece->state == PIECE_HERE || piece->state == PIECE_GONE);
        if (piece->state == PIECE_GONE)
            continue;
        while (at > 0 && coord->partials[at - 1].span.first > piece->span.first) {
            coord->partials[at] = coord->partials[at - 1];
            at--;
        }
        coord->partials[at] =
            (struct partial){.span = piece->span,
                             .floats = (const float *)(void *)(piece->buf + MESSAGE_HEADER),
                             .loss = piece->loss};
        count++;
    }
    assert(tree_covered(step.leaves, coord->partials, count));
    coord->commit = (struct commit){.step = coord->step,
                                    .samples = step.slice.count,
                                    .leaves = step.leaves,
                                    .partials = coord->partials,
                                    .partials_count = count,
                                    .weights = coord->weights[coord->step % 2],
                                    .next = coord->weights[(coord->step + 1) % 2]};
    actions_add(coord->out, ACT_COMPUTE)->job = &coord->commit;
}

static bool evaluated_fits(const struct coord *coord, const struct input *input)
{
    const struct message *head = &input->head;
    uint64_t samples = nn_dataset_count(coord->config.test);

    if (head->count > coord->eval_leaves || head->first > coord->eval_leaves - head->count ||
        !body_evaluated_ok(head->count, input->body_len))
        return false;
    for (uint32_t i = 0; i < head->count; i++)
        if (body_evaluated_get(input->body, i).correct >
            schedule_eval_leaf(samples, head->first + i).count)
            return false;
    return true;
}

void reduce_evaluated(struct coord *coord, struct member *member, const struct input *input)
{
    const struct message *head = &input->head;
    struct span span = {head->first, head->count};

    if (coord->phase != PHASE_EVAL || member->state != MEMBER_READY || head->step != coord->step)
        return;
    if (!evaluated_fits(coord, input)) {
        member_drop(coord, member, RDT_CLOSED_PROTOCOL);
        return;
    }
    for (uint32_t i = 0; i < head->count; i++) {
        struct body_result result = body_evaluated_get(input->body, i);
        struct eval_leaf *leaf = &coord->evals[head->first + i];

        if (leaf->have)
            continue;
        *leaf = (struct eval_leaf){.have = true, .loss = result.loss, .correct = result.correct};
        coord->eval_have++;
    }
    for (uint32_t i = 0; i < coord->pieces_count; i++)
        if (holds(span, coord->pieces[i].span))
            coord->pieces[i].state = PIECE_HERE;
    member->node.leaves += head->count;
}
