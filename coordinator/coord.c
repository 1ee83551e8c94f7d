/* SPDX-License-Identifier: MIT */
#include <coordinator/coord.h>

#include <cluster/text.h>
#include <coordinator/state.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How long the nodes get to hear that the run is over. */
static const uint64_t goodbye_ns = 1000000000;

static int open_memory(struct coord *coord)
{
    const struct coord_config *config = &coord->config;
    uint32_t leaves = schedule_leaves_max(&config->schedule);

    coord->weights[0] = nn_floats(coord->parameters);
    coord->weights[1] = nn_floats(coord->parameters);
    coord->pieces_max = leaves > coord->eval_leaves ? leaves : coord->eval_leaves;
    coord->pieces = calloc(coord->pieces_max, sizeof *coord->pieces);
    coord->partials = calloc(leaves, sizeof *coord->partials);
    coord->evals = calloc(coord->eval_leaves + 1, sizeof *coord->evals);
    coord->eval_partials = calloc(coord->eval_leaves + 1, sizeof *coord->eval_partials);
    coord->ids_max = body_samples_max((uint32_t)nn_dataset_sample_bytes(config->train));
    coord->ids = calloc(coord->ids_max + 1, sizeof *coord->ids);
    if (!coord->weights[0] || !coord->weights[1] || !coord->pieces || !coord->partials ||
        !coord->evals || !coord->eval_partials || !coord->ids)
        return NN_ENOMEM;
    return committer_open(&coord->committer, coord->parameters, &config->optim);
}

int coord_open(struct coord **out, const struct coord_config *config)
{
    struct coord *coord = calloc(1, sizeof *coord);
    int err;

    assert(config->nodes >= 1);
    assert(config->nodes <= COORD_NODES_MAX);
    if (!coord)
        return NN_ENOMEM;
    coord->config = *config;
    if (coord->config.min_nodes == 0)
        coord->config.min_nodes = 1;
    coord->parameters = nn_model_parameters(config->model);
    coord->steps = schedule_steps(&config->schedule);
    coord->view = 1;
    if (config->test)
        coord->eval_leaves = (uint32_t)schedule_eval_leaves(nn_dataset_count(config->test));
    err = open_memory(coord);
    if (err < 0) {
        coord_free(coord);
        return err;
    }
    nn_model_init(config->model, config->seed, coord->weights[0]);
    *out = coord;
    return 0;
}

void coord_free(struct coord *coord)
{
    if (!coord)
        return;
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        for (size_t set = 0; set < SET_COUNT; set++)
            free(coord->members[i].sent[set]);
    for (uint32_t i = 0; coord->pieces && i < coord->pieces_max; i++)
        nn_floats_free((float *)(void *)coord->pieces[i].buf);
    while (coord->spare) {
        struct samples_buf *buf = coord->spare;

        coord->spare = buf->next;
        free(buf);
    }
    nn_floats_free(coord->weights[0]);
    nn_floats_free(coord->weights[1]);
    committer_free(coord->committer);
    free(coord->pieces);
    free(coord->partials);
    free(coord->evals);
    free(coord->eval_partials);
    free(coord->ids);
    free(coord);
}

struct action *coord_event(struct coord *coord)
{
    return actions_add(coord->out, ACT_EVENT);
}

void coord_record(struct coord *coord)
{
    coord->record.nodes = members_in(coord, MEMBER_READY);
    actions_add(coord->out, ACT_RECORD)->record = &coord->record;
}

bool coord_is_running(const struct coord *coord)
{
    return coord->phase == PHASE_STEP || coord->phase == PHASE_COMMIT || coord->phase == PHASE_EVAL;
}

/* ---------- the run ---------- */

static void begin_step(struct coord *coord)
{
    coord->phase = PHASE_STEP;
    coord->started_ns = coord->now;
    assign_begin(coord, schedule_step(&coord->config.schedule, coord->step).leaves);
}

static void begin_eval(struct coord *coord)
{
    coord->phase = PHASE_EVAL;
    coord->started_ns = coord->now;
    coord->eval_have = 0;
    memset(coord->evals, 0, coord->eval_leaves * sizeof *coord->evals);
    assign_begin(coord, coord->eval_leaves);
}

void coord_begin(struct coord *coord)
{
    uint32_t leaves = schedule_leaves_max(&coord->config.schedule);
    uint32_t nodes = members_in(coord, MEMBER_READY);
    uint64_t batch = (uint64_t)coord->config.schedule.batch;

    if (nodes > leaves && batch >= nodes) {
        text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                    "warning nodes=%" PRIu32 " leaves=%" PRIu32 " idle=%" PRIu32
                    " hint=train.leaf=%" PRIu64 "-would-use-all-nodes",
                    nodes, leaves, nodes - leaves, batch / nodes);
    }
    text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                "view view=%" PRIu64 " nodes=%" PRIu32 " reason=all-nodes-ready", coord->view,
                nodes);
    begin_step(coord);
}

void coord_finish(struct coord *coord, enum exit_code code, const char *text)
{
    if (coord->phase == PHASE_END)
        return;
    coord->phase = PHASE_END;
    coord->code = (int)code;
    coord->end_at = coord->now + 2 * goodbye_ns;
    text_format(coord->text, sizeof coord->text, "%s", text);
    text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                "end code=%d step=%" PRIu64 " reason=\"%s\"", coord->code, coord->step, text);
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *member = &coord->members[i];
        struct action *action;

        if (member->state == MEMBER_FREE || member->state == MEMBER_LEAVING)
            continue;
        member_send(coord, member, (struct message){.kind = MSG_BYE, .aux = (uint64_t)code}, NULL,
                    0, NULL);
        action = actions_add(coord->out, ACT_CLOSE);
        action->conn = member->node.conn;
        action->flush_ns = goodbye_ns;
        if (member->state != MEMBER_READY)
            member->node.name[0] = '\0'; /* was never one of us */
        member->state = MEMBER_LEAVING;
    }
}

static void on_stop(struct coord *coord)
{
    coord->stopping = true;
    if (coord->phase == PHASE_GATHER)
        coord_finish(coord, EXIT_STOPPED, "stopped by the user before the first step");
    else if (coord->phase == PHASE_EVAL)
        coord_finish(coord, EXIT_STOPPED, "stopped by the user");
    else
        text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                    "stopping step=%" PRIu64 " reason=signal", coord->step);
}

/* What follows when the weights of `step` are there. */
static void go_on(struct coord *coord, bool evaluated)
{
    bool epoch_over =
        coord->step > 0 && schedule_step(&coord->config.schedule, coord->step - 1).last_of_epoch;

    if (coord->stopping)
        coord_finish(coord, EXIT_STOPPED, "stopped by the user");
    else if (epoch_over && coord->eval_leaves > 0 && !evaluated)
        begin_eval(coord);
    else if (coord->step == coord->steps)
        coord_finish(coord, EXIT_DONE, "done");
    else
        begin_step(coord);
}

static void on_committed(struct coord *coord)
{
    const struct commit *commit = &coord->commit;
    char text[ACTION_TEXT_MAX];

    coord->committing = false;
    if (coord->phase != PHASE_COMMIT)
        return; /* the run ended meanwhile: the step is not kept */
    if (!commit->finite) {
        text_format(text, sizeof text,
                    "step %" PRIu64
                    ": the new weights are not finite (loss %g): lower train.optimizer.lr",
                    coord->step, commit->loss);
        coord_finish(coord, EXIT_NUMERIC, text);
        return;
    }
    coord->record = (struct record){.kind = RECORD_STEP,
                                    .step = coord->step,
                                    .samples = commit->samples,
                                    .loss = commit->loss,
                                    .taken_ns = coord->now - coord->started_ns};
    coord->record.epoch = schedule_step(&coord->config.schedule, coord->step).epoch;
    memcpy(coord->record.hash, commit->hash, sizeof coord->record.hash);
    coord_record(coord);
    coord->step++;
    go_on(coord, false);
}

static void finish_eval(struct coord *coord)
{
    struct record *record = &coord->record;
    uint64_t samples = nn_dataset_count(coord->config.test);

    *record = (struct record){.kind = RECORD_EVAL,
                              .step = coord->step,
                              .samples = samples,
                              .taken_ns = coord->now - coord->started_ns};
    record->epoch = schedule_step(&coord->config.schedule, coord->step - 1).epoch;
    for (uint32_t i = 0; i < coord->eval_leaves; i++) {
        coord->eval_partials[i] = (struct partial){.span = {i, 1}, .loss = coord->evals[i].loss};
        record->correct += coord->evals[i].correct;
    }
    record->loss = tree_sum_loss(coord->eval_leaves, coord->eval_partials, coord->eval_leaves) /
                   (double)samples;
    coord_record(coord);
    go_on(coord, true);
}

/* ---------- inputs ---------- */

static void append_names(const struct coord *coord, enum member_state state,
                         char text[ACTION_TEXT_MAX])
{
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        if (coord->members[i].state == state)
            text_append(text, ACTION_TEXT_MAX, " %s", coord->members[i].node.name);
    }
    if (members_in(coord, state) == 0)
        text_append(text, ACTION_TEXT_MAX, " none");
}

static void on_time(struct coord *coord)
{
    char text[ACTION_TEXT_MAX];
    uint32_t ready = members_in(coord, MEMBER_READY);

    if (!coord->begun) {
        coord->begun = true;
        coord->gather_until = coord->now + coord->config.wait_ns;
        coord->record = (struct record){.kind = RECORD_MEMBERS, .wanted = coord->config.nodes};
        coord_record(coord);
        return;
    }
    if (coord->phase != PHASE_GATHER || coord->now < coord->gather_until)
        return;
    text_format(text, sizeof text,
                "%" PRIu32 " of %" PRIu32 " nodes joined within %" PRIu64 " s; missing %" PRIu32
                " (joined:",
                ready, coord->config.nodes, coord->config.wait_ns / 1000000000,
                coord->config.nodes - ready);
    append_names(coord, MEMBER_READY, text);
    if (members_in(coord, MEMBER_JOINING) > 0) {
        text_append(text, sizeof text, "; still preparing:");
        append_names(coord, MEMBER_JOINING, text);
    }
    text_append(text, sizeof text, ")");
    coord_finish(coord, EXIT_NOT_STARTED, text);
}

static void on_message(struct coord *coord, const struct input *input)
{
    struct member *member = member_find(coord, input->conn);

    if (!member || member->state == MEMBER_LEAVING || member->dropped)
        return;
    if (input->head.kind == MSG_JOIN) {
        member_join(coord, member, input);
        return;
    }
    if (input->head.run_id != coord->config.run_id)
        return;
    if (input->head.kind == MSG_READY)
        member_ready(coord, member, input);
    else if (input->head.kind == MSG_PARTIAL)
        reduce_partial(coord, member, input);
    else if (input->head.kind == MSG_EVALUATED)
        reduce_evaluated(coord, member, input);
    else if (input->head.kind == MSG_LEAVE)
        member_drop(coord, member, RDT_CLOSED_PEER);
}

static void on_released(struct coord *coord, const struct input *input)
{
    struct loan *loan = input->user;

    if (!loan)
        return;
    if (loan->kind == LOAN_SAMPLES) {
        assign_released(coord, (struct samples_buf *)(void *)loan);
        return;
    }
    assert(loan == &coord->loans[0] || loan == &coord->loans[1]);
    assert(coord->lent[loan - coord->loans] > 0);
    coord->lent[loan - coord->loans]--;
}

static void dispatch(struct coord *coord, const struct input *input)
{
    switch (input->kind) {
    case IN_TIME:
        on_time(coord);
        break;
    case IN_CONNECTED:
        member_connected(coord, input);
        break;
    case IN_CLOSED:
        if (member_find(coord, input->conn))
            member_closed(coord, member_find(coord, input->conn), input->reason);
        break;
    case IN_MESSAGE:
        on_message(coord, input);
        break;
    case IN_RELEASED:
        on_released(coord, input);
        break;
    case IN_COMPUTED:
        on_committed(coord);
        break;
    case IN_STOP:
        on_stop(coord);
        break;
    }
}

/* Moves on as far as what has come in allows. */
static void advance(struct coord *coord)
{
    if (coord->phase == PHASE_STEP && reduce_covered(coord)) {
        coord->phase = PHASE_COMMIT;
        coord->owes_commit = true;
    }
    if (coord->owes_commit && coord->phase == PHASE_COMMIT &&
        coord->lent[(coord->step + 1) % 2] == 0) {
        coord->owes_commit = false;
        coord->committing = true;
        reduce_commit(coord);
    }
    if (coord->phase == PHASE_EVAL && coord->eval_have == coord->eval_leaves)
        finish_eval(coord);
}

static void fail_now(struct coord *coord)
{
    char text[ACTION_TEXT_MAX];

    coord->failing = false;
    memcpy(text, coord->text, sizeof text);
    coord_finish(coord, (enum exit_code)coord->code, text);
}

static void drop_ended(struct coord *coord)
{
    coord->ended = false;
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        if (coord->members[i].process_ended)
            member_drop(coord, &coord->members[i], RDT_CLOSED_DEAD);
}

void coord_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out)
{
    struct coord *coord = state;
    struct action *action;

    coord->out = out;
    coord->now = now_ns;
    dispatch(coord, input);
    if (coord->failing)
        fail_now(coord);
    if (coord->ended)
        drop_ended(coord);
    advance(coord);
    quorum_check(coord);
    assign_pieces(coord);
    if (coord->phase != PHASE_END || coord->committing)
        return;
    if (members_in(coord, MEMBER_FREE) < MEMBERS_MAX && now_ns < coord->end_at)
        return;
    action = actions_add(out, ACT_EXIT);
    action->code = coord->code;
    text_format(action->text, sizeof action->text, "%s", coord->text);
}

uint64_t coord_deadline(const void *state)
{
    const struct coord *coord = state;

    if (!coord->begun || coord->failing || coord->ended || coord->hurry)
        return 0;
    if (coord->phase == PHASE_GATHER)
        return coord->gather_until;
    if (coord->waiting)
        return coord->wait_until;
    return coord->phase == PHASE_END && !coord->committing ? coord->end_at : UINT64_MAX;
}

void coord_run(void *state, void *job)
{
    const struct coord *coord = state;

    commit_run(coord->committer, job);
}

void coord_fail(struct coord *coord, enum exit_code code, const char *text)
{
    if (coord->failing || coord->phase == PHASE_END)
        return;
    coord->failing = true;
    coord->code = (int)code;
    text_format(coord->text, sizeof coord->text, "%s", text);
}

void coord_drop(struct coord *coord, const char *name)
{
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *member = &coord->members[i];

        if ((member->state != MEMBER_READY && member->state != MEMBER_JOINING) ||
            strcmp(member->node.name, name) != 0)
            continue;
        member->process_ended = true;
        coord->ended = true;
    }
}

bool coord_is_gathering(const struct coord *coord)
{
    return coord->phase == PHASE_GATHER;
}

const float *coord_weights(const struct coord *coord)
{
    return coord->weights[coord->step % 2];
}

uint64_t coord_steps(const struct coord *coord)
{
    return coord->step;
}
