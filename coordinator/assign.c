/* SPDX-License-Identifier: MIT */
#include <coordinator/state.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* DESIGN: a step begins as one piece of nobody, the whole tree.  Handing out cuts every piece of
 * nobody along the tree among those who can compute; losing a node makes its pieces pieces of
 * nobody again.  So the first share of a step and the leaves of a dead node take the same way. */

/* Of a new member: from here on it gets the weights of every step, the first ones now. */
static void give_weights(struct coord *coord, struct member *member)
{
    uint32_t slot = (uint32_t)(coord->step % 2);

    if (member->given == coord->step + 1)
        return;
    if (member->given == 0)
        member_send(coord, member, (struct message){.kind = MSG_STEP, .step = coord->step}, NULL, 0,
                    NULL);
    member->given = coord->step + 1;
    coord->loans[slot].kind = LOAN_WEIGHTS;
    coord->lent[slot]++;
    member_send(coord, member, (struct message){.kind = MSG_WEIGHTS, .step = coord->step},
                coord->weights[slot], coord->parameters * sizeof(float), &coord->loans[slot]);
}

/* Everybody gets the weights of every step, also who has no leaf in it: whoever takes over leaves
 * has them already. */
static void broadcast(struct coord *coord)
{
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        if (member_is_able(&coord->members[i]))
            give_weights(coord, &coord->members[i]);
}

void assign_begin(struct coord *coord, uint32_t leaves)
{
    assert(leaves <= coord->pieces_max);
    coord->pieces_count = 1;
    coord->pieces[0].state = PIECE_LOST;
    coord->pieces[0].span = (struct span){0, leaves};
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        coord->members[i].telling.count = 0;
    broadcast(coord);
}

/* ---------- handing out ---------- */

struct crew {
    size_t count;
    struct member *members[MEMBERS_MAX]; /* who has the least to do comes first */
    uint32_t load[MEMBERS_MAX];          /* leaves */
    size_t untold;                       /* pieces that somebody is still to be told of */
};

static void crew_add(struct crew *crew, struct member *member, uint32_t load)
{
    size_t at = crew->count++;

    for (; at > 0 && crew->load[at - 1] > load; at--) {
        crew->members[at] = crew->members[at - 1];
        crew->load[at] = crew->load[at - 1];
    }
    crew->members[at] = member;
    crew->load[at] = load;
}

/* Those who can take pieces now: they have the weights, and room in their queue. */
static void find_crew(struct coord *coord, struct crew *crew)
{
    uint32_t pieces[MEMBERS_MAX] = {0}, leaves[MEMBERS_MAX] = {0};

    crew->count = 0;
    crew->untold = 0;
    for (uint32_t i = 0; i < coord->pieces_count; i++) {
        const struct piece *piece = &coord->pieces[i];

        if (piece->state != PIECE_ASKED)
            continue;
        crew->untold += !piece->told;
        pieces[piece->member]++;
        leaves[piece->member] += piece->span.count;
    }
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *member = &coord->members[i];

        if (member_is_able(member) && member->given == coord->step + 1 &&
            pieces[i] < MEMBER_PIECES_MAX)
            crew_add(crew, member, leaves[i]);
    }
}

/* false: out of memory, the run is about to end. */
static bool ask(struct coord *coord, struct piece *piece, const struct member *member)
{
    size_t cap = MESSAGE_HEADER + body_partial_len(coord->parameters);
    struct action *action;

    if (coord->phase == PHASE_STEP && !piece->buf) {
        piece->buf = (uint8_t *)nn_floats((cap + sizeof(float) - 1) / sizeof(float));
        if (!piece->buf) {
            coord_fail(coord, EXIT_OTHER, "not enough memory for the partial sums of the nodes");
            return false;
        }
    }
    piece->state = PIECE_ASKED;
    piece->member = (uint32_t)(member - coord->members);
    piece->told = false;
    if (coord->phase != PHASE_STEP)
        return true;
    action = actions_add(coord->out, ACT_POST);
    action->conn = member->node.conn;
    action->head = (struct message){.kind = MSG_PARTIAL,
                                    .step = coord->step,
                                    .first = piece->span.first,
                                    .count = piece->span.count};
    action->buf = piece->buf;
    action->cap = cap;
    action->user = piece;
    return true;
}

/* The next free piece, for part of one that is being cut. */
static struct piece *new_piece(struct coord *coord)
{
    assert(coord->pieces_count < coord->pieces_max);
    return &coord->pieces[coord->pieces_count++];
}

static bool ask_parts(struct coord *coord, struct piece *whole, const struct crew *crew,
                      const struct span *shares)
{
    struct span span = whole->span, parts[TREE_PARTS_MAX];
    struct piece *piece = whole;

    for (size_t i = 0; i < crew->count; i++) {
        size_t count = tree_parts(span.count, shares[i], parts);

        for (size_t part = 0; part < count; part++) {
            if (!piece)
                piece = new_piece(coord);
            piece->state = PIECE_LOST;
            piece->span = (struct span){span.first + parts[part].first, parts[part].count};
            if (!ask(coord, piece, crew->members[i]))
                return false;
            piece = NULL;
        }
    }
    return true;
}

/* Cuts a piece of nobody among the crew: a node of the tree is the tree over its own leaves.
 * false: nothing more can be handed out in this call. */
static bool hand_out(struct coord *coord, struct piece *piece)
{
    struct span shares[MEMBERS_MAX], parts[TREE_PARTS_MAX];
    size_t actions, count = 0;
    struct crew crew;

    find_crew(coord, &crew);
    if (crew.count == 0)
        return false;
    tree_shares(piece->span.count, NULL, crew.count, shares);
    for (size_t i = 0; i < crew.count; i++)
        count += tree_parts(piece->span.count, shares[i], parts);
    /* A post for each part now, at most a STEP for each below, and SAMPLES. */
    actions =
        coord->out->count + crew.untold + 2 * count + (size_t)MEMBERS_MAX * SAMPLES_FLYING_MAX;
    if (coord->out->count > 0 && actions > ACTIONS_MAX) {
        coord->hurry = true;
        return false;
    }
    return ask_parts(coord, piece, &crew, shares);
}

static bool anybody_given(const struct coord *coord)
{
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        if (member_is_able(&coord->members[i]) && coord->members[i].given == coord->step + 1)
            return true;
    return false;
}

void assign_pieces(struct coord *coord)
{
    bool lost = false;

    coord->hurry = false;
    if ((coord->phase != PHASE_STEP && coord->phase != PHASE_EVAL) || coord->waiting)
        return;
    for (uint32_t i = 0; i < coord->pieces_count && !lost; i++)
        lost = coord->pieces[i].state == PIECE_LOST;
    if (!lost)
        return;
    /* Nobody is left of those the step began with: whoever has joined since then steps in. */
    if (!anybody_given(coord))
        broadcast(coord);
    for (uint32_t i = 0; i < coord->pieces_count; i++)
        if (coord->pieces[i].state == PIECE_LOST && !hand_out(coord, &coord->pieces[i]))
            break;
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        if (member_is_able(&coord->members[i]))
            assign_pump(coord, &coord->members[i]);
}

/* ---------- telling, with samples first ---------- */

static uint32_t leaves_at_hand(const struct coord *coord)
{
    return coord->phase == PHASE_EVAL ? coord->eval_leaves
                                      : schedule_step(&coord->config.schedule, coord->step).leaves;
}

static bool is_untold(const struct coord *coord, const struct member *member,
                      const struct piece *piece)
{
    return piece->state == PIECE_ASKED && &coord->members[piece->member] == member && !piece->told;
}

/* As many pieces from this one on as one STEP or EVAL can ask for: neighbours, and for a STEP the
 * very subtrees that the node will cut them into. */
static uint32_t run_of(const struct coord *coord, const struct member *member, uint32_t first,
                       struct span *span)
{
    struct span parts[TREE_PARTS_MAX];
    uint32_t count = 0;

    *span = (struct span){coord->pieces[first].span.first, 0};
    while (first + count < coord->pieces_count) {
        const struct piece *piece = &coord->pieces[first + count];

        if (!is_untold(coord, member, piece) || piece->span.first != span->first + span->count)
            break;
        span->count += piece->span.count;
        count++;
    }
    if (coord->phase == PHASE_EVAL || tree_parts(leaves_at_hand(coord), *span, parts) == count)
        return count;
    span->count = coord->pieces[first].span.count;
    return 1;
}

static struct slice leaf_of(const struct coord *coord, uint32_t leaf)
{
    if (coord->phase == PHASE_EVAL)
        return schedule_eval_leaf(nn_dataset_count(coord->config.test), leaf);
    return schedule_leaf(&coord->config.schedule, coord->step, leaf);
}

/* What it has to be told next; false: nothing. */
static bool tell_next(struct coord *coord, struct member *member)
{
    struct slice first, last;
    uint32_t at = 0, count;
    struct span span;

    while (at < coord->pieces_count && !is_untold(coord, member, &coord->pieces[at]))
        at++;
    if (at == coord->pieces_count)
        return false;
    count = run_of(coord, member, at, &span);
    for (uint32_t i = 0; i < count; i++)
        coord->pieces[at + i].told = true;
    first = leaf_of(coord, span.first);
    last = leaf_of(coord, span.first + span.count - 1);
    member->telling = span;
    member->position = first.position;
    member->end = last.position + last.count;
    return true;
}

static enum body_which set_at_hand(const struct coord *coord)
{
    return coord->phase == PHASE_EVAL ? BODY_TEST : BODY_TRAIN;
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
    enum body_which set = set_at_hand(coord);
    uint8_t *sent = member->sent[set];
    uint32_t count = 0;

    while (member->position < member->end && count < coord->ids_max) {
        uint64_t id = sample_at(coord, set, member->position++);
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
    enum body_which set = set_at_hand(coord);
    const struct nn_dataset *data = set == BODY_TRAIN ? coord->config.train : coord->config.test;
    uint32_t sample_bytes = (uint32_t)nn_dataset_sample_bytes(data);
    struct samples_buf *buf = assign_buf(coord, member);

    if (!buf)
        return;
    body_samples_start(buf->bytes, set, count, sample_bytes);
    for (uint32_t i = 0; i < count; i++)
        body_samples_put(buf->bytes, i, coord->ids[i], nn_dataset_get(data, coord->ids[i]));
    member->node.samples_sent += count;
    member_send(coord, member, (struct message){.kind = MSG_SAMPLES}, buf->bytes,
                body_samples_len(count, sample_bytes), &buf->loan);
}

/* Sends the samples that the member lacks, a few messages at a time, then what to do with them. */
void assign_pump(struct coord *coord, struct member *member)
{
    const uint8_t *sent = member->sent[set_at_hand(coord)];
    struct message head = {.step = coord->step};

    if (coord->phase != PHASE_STEP && coord->phase != PHASE_EVAL)
        return;
    head.kind = coord->phase == PHASE_STEP ? MSG_STEP : MSG_EVAL;
    while (member->telling.count > 0 || tell_next(coord, member)) {
        while (sent && member->position < member->end) {
            uint32_t count;

            if (member->flying >= SAMPLES_FLYING_MAX)
                return;
            count = collect(coord, member);
            if (count > 0)
                send_samples(coord, member, count);
        }
        head.first = member->telling.first;
        head.count = member->telling.count;
        member->telling.count = 0;
        member_send(coord, member, head, NULL, 0, NULL);
    }
}

void assign_released(struct coord *coord, struct samples_buf *buf)
{
    struct member *member = &coord->members[buf->member];

    buf->next = coord->spare;
    coord->spare = buf;
    /* What a connection had in flight is released before it is closed: the owner is the same. */
    assert(member->flying > 0);
    member->flying--;
    if (member_is_able(member))
        assign_pump(coord, member);
}
