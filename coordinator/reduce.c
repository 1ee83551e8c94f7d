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

/* The full landing that covers this span, if any. */
static struct landing *covering(struct coord *coord, struct span span)
{
    for (uint32_t i = 0; i < coord->landings_count; i++)
        if (coord->landings[i].state == LANDING_FULL && holds(coord->landings[i].span, span))
            return &coord->landings[i];
    return NULL;
}

static void name_liar(struct coord *coord, const struct member *member,
                      const struct landing *landing)
{
    char text[ACTION_TEXT_MAX];

    text_format(text, sizeof text,
                "step %" PRIu64 ": nodes %s and %s computed different sums of leaves %" PRIu32
                " to %" PRIu32,
                coord->step, member->node.name, coord->members[landing->member].node.name,
                landing->span.first, landing->span.first + landing->span.count - 1);
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

/* A partial that came without a landing (a small one, rdt pooled it) moves into the one that waits
 * for its span. */
static struct landing *landing_for(struct coord *coord, const struct input *input)
{
    struct landing *landing = input->user;

    if (landing)
        return landing;
    for (uint32_t i = 0; i < coord->landings_count; i++) {
        landing = &coord->landings[i];
        if (landing->state == LANDING_FREE && landing->span.first == input->head.first &&
            landing->span.count == input->head.count) {
            memcpy(landing->buf + MESSAGE_HEADER, input->body, input->body_len);
            return landing;
        }
    }
    return NULL;
}

void reduce_partial(struct coord *coord, struct member *member, const struct input *input)
{
    const struct message *head = &input->head;
    struct span span = {head->first, head->count};
    struct landing *landing = input->user, *have;
    struct body_trailer trailer;

    if (landing)
        landing->state = LANDING_FREE;
    if (coord->phase != PHASE_STEP || head->step != coord->step ||
        !tree_has(schedule_step(&coord->config.schedule, coord->step).leaves, span))
        return;
    if (!body_partial_decode(&trailer, coord->parameters, input->body, input->body_len)) {
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
    landing = landing_for(coord, input);
    if (!landing)
        return;
    landing->state = LANDING_FULL;
    landing->member = (uint32_t)(member - coord->members);
    landing->loss = trailer.loss;
    landing->hash = head->hash;
    member->node.leaves += span.count;
}

/* Do the partials that are here cover the tree?  They are disjoint: a covered one is dropped. */
bool reduce_covered(const struct coord *coord)
{
    uint32_t leaves = 0;

    for (uint32_t i = 0; i < coord->landings_count; i++)
        if (coord->landings[i].state == LANDING_FULL)
            leaves += coord->landings[i].span.count;
    return leaves == schedule_step(&coord->config.schedule, coord->step).leaves;
}

void reduce_commit(struct coord *coord)
{
    struct schedule_step step = schedule_step(&coord->config.schedule, coord->step);
    size_t count = 0;

    for (uint32_t i = 0; i < coord->landings_count; i++) {
        const struct landing *landing = &coord->landings[i];
        size_t at = count;

        if (landing->state != LANDING_FULL)
            continue;
        while (at > 0 && coord->partials[at - 1].span.first > landing->span.first) {
            coord->partials[at] = coord->partials[at - 1];
            at--;
        }
        coord->partials[at] =
            (struct partial){.span = landing->span,
                             .floats = (const float *)(void *)(landing->buf + MESSAGE_HEADER),
                             .loss = landing->loss};
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

void reduce_reset(struct coord *coord)
{
    for (uint32_t i = 0; i < coord->landings_count; i++) {
        assert(coord->landings[i].state != LANDING_POSTED);
        coord->landings[i].state = LANDING_FREE;
    }
    coord->landings_count = 0;
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

    if (coord->phase != PHASE_EVAL || head->step != coord->step)
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
    member->node.leaves += head->count;
}
