/* SPDX-License-Identifier: MIT */
#include <coordinator/state.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Everybody gets the weights of every step, also who has no leaf in it: whoever takes over leaves
 * has them already. */
void assign_broadcast(struct coord *coord)
{
    uint32_t slot = (uint32_t)(coord->step % 2);

    if (coord->broadcast)
        return;
    coord->broadcast = true;
    coord->loans[slot].kind = LOAN_WEIGHTS;
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *member = &coord->members[i];

        if (member->state != MEMBER_READY)
            continue;
        coord->lent[slot]++;
        member_send(coord, member, (struct message){.kind = MSG_WEIGHTS, .step = coord->step},
                    coord->weights[slot], coord->parameters * sizeof(float), &coord->loans[slot]);
    }
}

static size_t share_out(struct coord *coord, uint32_t leaves, struct member **members,
                        struct span *shares)
{
    size_t count = 0;

    for (size_t i = 0; i < MEMBERS_MAX; i++)
        if (coord->members[i].state == MEMBER_READY)
            members[count++] = &coord->members[i];
    assert(count > 0);
    tree_shares(leaves, NULL, count, shares);
    return count;
}

static void post_landing(struct coord *coord, uint32_t member, struct span span)
{
    size_t cap = MESSAGE_HEADER + body_partial_len(coord->parameters);
    struct landing *landing = &coord->landings[coord->landings_count++];
    struct action *action;

    assert(coord->landings_count <= schedule_leaves_max(&coord->config.schedule));
    if (!landing->buf)
        landing->buf = (uint8_t *)nn_floats((cap + sizeof(float) - 1) / sizeof(float));
    if (!landing->buf) {
        coord_fail(coord, EXIT_OTHER, "not enough memory for the partial sums of the nodes");
        coord->landings_count--;
        return;
    }
    landing->state = LANDING_POSTED;
    landing->member = member;
    landing->span = span;
    action = actions_add(coord->out, ACT_POST);
    action->conn = coord->members[member].node.conn;
    action->head = (struct message){
        .kind = MSG_PARTIAL, .step = coord->step, .first = span.first, .count = span.count};
    action->buf = landing->buf;
    action->cap = cap;
    action->user = landing;
}

void assign_step(struct coord *coord)
{
    struct schedule_step step = schedule_step(&coord->config.schedule, coord->step);
    struct member *members[MEMBERS_MAX];
    struct span shares[MEMBERS_MAX], parts[TREE_PARTS_MAX];
    size_t count = share_out(coord, step.leaves, members, shares);

    for (size_t i = 0; i < count; i++) {
        size_t parts_count = tree_parts(step.leaves, shares[i], parts);
        struct slice first, last;

        members[i]->share = shares[i];
        members[i]->owed = shares[i].count > 0;
        if (shares[i].count == 0)
            continue;
        for (size_t part = 0; part < parts_count; part++)
            post_landing(coord, (uint32_t)(members[i] - coord->members), parts[part]);
        first = schedule_leaf(&coord->config.schedule, coord->step, shares[i].first);
        last = schedule_leaf(&coord->config.schedule, coord->step,
                             shares[i].first + shares[i].count - 1);
        members[i]->set = BODY_TRAIN;
        members[i]->position = first.position;
        members[i]->end = last.position + last.count;
        assign_pump(coord, members[i]);
    }
}

void assign_eval(struct coord *coord)
{
    uint64_t samples = nn_dataset_count(coord->config.test);
    struct member *members[MEMBERS_MAX];
    struct span shares[MEMBERS_MAX];
    size_t count = share_out(coord, coord->eval_leaves, members, shares);

    for (size_t i = 0; i < count; i++) {
        struct slice first, last;

        members[i]->share = shares[i];
        members[i]->owed = shares[i].count > 0;
        if (shares[i].count == 0)
            continue;
        first = schedule_eval_leaf(samples, shares[i].first);
        last = schedule_eval_leaf(samples, shares[i].first + shares[i].count - 1);
        members[i]->set = BODY_TEST;
        members[i]->position = first.position;
        members[i]->end = last.position + last.count;
        assign_pump(coord, members[i]);
    }
}

static uint64_t sample_at(const struct coord *coord, enum body_which set, uint64_t position)
{
    const struct coord_config *config = &coord->config;

    if (set == BODY_TEST)
        return position;
    return nn_order(config->seed, schedule_step(&config->schedule, coord->step).epoch,
                    config->schedule.samples, position);
}

/* The next samples of its positions that the member has not got, as many as a message holds. */
static uint32_t collect(struct coord *coord, struct member *member)
{
    uint8_t *sent = member->sent[member->set];
    uint32_t count = 0;

    while (member->position < member->end && count < coord->ids_max) {
        uint64_t id = sample_at(coord, member->set, member->position++);
        uint8_t bit = (uint8_t)(1u << id % 8);

        if (sent[id / 8] & bit)
            continue;
        sent[id / 8] |= bit;
        coord->ids[count++] = id;
    }
    return count;
}

struct samples_buf *assign_buf(struct coord *coord, struct member *member)
{
    struct samples_buf *buf = coord->spare;

    if (buf)
        coord->spare = buf->next;
    else
        buf = calloc(1, sizeof *buf);
    if (!buf) {
        coord_fail(coord, EXIT_OTHER, "not enough memory for messages to the nodes");
        return NULL;
    }
    buf->loan.kind = LOAN_SAMPLES;
    buf->member = (uint32_t)(member - coord->members);
    member->flying++;
    return buf;
}

static void send_samples(struct coord *coord, struct member *member, uint32_t count)
{
    const struct nn_dataset *data =
        member->set == BODY_TRAIN ? coord->config.train : coord->config.test;
    uint32_t sample_bytes = (uint32_t)nn_dataset_sample_bytes(data);
    struct samples_buf *buf = assign_buf(coord, member);

    if (!buf)
        return;
    body_samples_start(buf->bytes, member->set, count, sample_bytes);
    for (uint32_t i = 0; i < count; i++)
        body_samples_put(buf->bytes, i, coord->ids[i], nn_dataset_get(data, coord->ids[i]));
    member->node.samples_sent += count;
    member_send(coord, member, (struct message){.kind = MSG_SAMPLES}, buf->bytes,
                body_samples_len(count, sample_bytes), &buf->loan);
}

/* Sends the samples that the member lacks, a few messages at a time, then what to do with them. */
void assign_pump(struct coord *coord, struct member *member)
{
    struct message head = {.step = coord->step};

    if (!member->owed)
        return;
    while (member->sent[member->set] && member->position < member->end) {
        uint32_t count;

        if (member->flying >= SAMPLES_FLYING_MAX)
            return;
        count = collect(coord, member);
        if (count > 0)
            send_samples(coord, member, count);
    }
    member->owed = false;
    head.kind = member->set == BODY_TRAIN ? MSG_STEP : MSG_EVAL;
    head.first = member->share.first;
    head.count = member->share.count;
    member_send(coord, member, head, NULL, 0, NULL);
}

void assign_released(struct coord *coord, struct samples_buf *buf)
{
    struct member *member = &coord->members[buf->member];

    buf->next = coord->spare;
    coord->spare = buf;
    /* What a connection had in flight is released before it is closed: the owner is the same. */
    assert(member->flying > 0);
    member->flying--;
    if (member->state == MEMBER_READY)
        assign_pump(coord, member);
}
