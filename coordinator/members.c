/* SPDX-License-Identifier: MIT */
#include <coordinator/state.h>

#include <cluster/text.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t refuse_flush_ns = 1000000000;

static uint32_t index_of(const struct coord *coord, const struct member *member)
{
    return (uint32_t)(member - coord->members);
}

struct member *member_find(struct coord *coord, struct rdt_conn conn)
{
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *member = &coord->members[i];

        if (member->state != MEMBER_FREE && member->node.conn.slot == conn.slot &&
            member->node.conn.generation == conn.generation)
            return member;
    }
    return NULL;
}

uint32_t members_in(const struct coord *coord, enum member_state state)
{
    uint32_t count = 0;

    for (size_t i = 0; i < MEMBERS_MAX; i++)
        count += coord->members[i].state == state;
    return count;
}

bool member_is_able(const struct member *member)
{
    return member->state == MEMBER_READY && !member->dropped;
}

void member_send(struct coord *coord, struct member *member, struct message head, const void *body,
                 size_t body_len, void *user)
{
    struct action *action = actions_add(coord->out, ACT_SEND);

    head.run_id = coord->config.run_id;
    head.view = coord->view;
    head.body_len = (uint32_t)body_len;
    action->conn = member->node.conn;
    action->head = head;
    action->body = body;
    action->body_len = body_len;
    action->user = user;
}

static void close_member(struct coord *coord, struct member *member)
{
    struct action *action = actions_add(coord->out, ACT_CLOSE);

    action->conn = member->node.conn;
    action->flush_ns = refuse_flush_ns;
    member->state = MEMBER_LEAVING;
}

void member_connected(struct coord *coord, const struct input *input)
{
    struct action *action;

    for (size_t i = 0; i < MEMBERS_MAX && coord->phase != PHASE_END; i++) {
        struct member *member = &coord->members[i];

        if (member->state != MEMBER_FREE)
            continue;
        memset(member, 0, sizeof *member);
        member->state = MEMBER_CONNECTED;
        member->node.conn = input->conn;
        member->node.peer = input->peer;
        return;
    }
    action = actions_add(coord->out, ACT_ABORT);
    action->conn = input->conn;
}

/* Was ready, is no member any more: kept for nodes.csv, as far as there is room. */
static void remember(struct coord *coord, const struct member *member, bool lost)
{
    if (coord->gone_count == MEMBERS_MAX)
        return;
    coord->gone[coord->gone_count] = member->node;
    coord->gone[coord->gone_count].lost = lost;
    coord->gone_count++;
}

static void free_member(struct member *member)
{
    for (size_t set = 0; set < SET_COUNT; set++) {
        free(member->sent[set]);
        member->sent[set] = NULL;
    }
    member->state = MEMBER_FREE;
}

/* What was asked of it is asked of others.  Landings of a closed connection are ours again. */
static void take_pieces_back(struct coord *coord, const struct member *member)
{
    for (uint32_t i = 0; i < coord->pieces_count; i++) {
        struct piece *piece = &coord->pieces[i];

        if (piece->state == PIECE_ASKED && piece->member == index_of(coord, member))
            piece->state = PIECE_LOST;
    }
}

static const char *reason_text(const struct member *member, enum rdt_closed reason)
{
    if (member->process_ended)
        return "process-ended";
    switch (reason) {
    case RDT_CLOSED_DEAD:
        return "silent";
    case RDT_CLOSED_PEER:
        return "left";
    case RDT_CLOSED_PROTOCOL:
        return "protocol-error";
    case RDT_CLOSED_LOCAL:
    case RDT_CLOSED_TIMEOUT:
    case RDT_CLOSED_REFUSED:
        break;
    }
    return "closed";
}

/* Its connection ends now; the rest happens when it is closed and our buffers are ours again. */
void member_drop(struct coord *coord, struct member *member, enum rdt_closed reason)
{
    if (member->dropped)
        return;
    member->dropped = true;
    member->reason = reason;
    actions_add(coord->out, ACT_ABORT)->conn = member->node.conn;
}

/* The number of members has changed.  While the run goes on nobody is waited for. */
static void note_members(struct coord *coord)
{
    coord->record = (struct record){.kind = RECORD_MEMBERS};
    if (coord->phase == PHASE_GATHER)
        coord->record.wanted = coord->config.nodes;
    coord_record(coord);
}

void member_closed(struct coord *coord, struct member *member, enum rdt_closed reason)
{
    enum member_state state = member->state;
    const char *why;

    if (member->dropped)
        reason = member->reason;
    why = reason_text(member, reason);
    member->node.banned = reason == RDT_CLOSED_PROTOCOL;
    take_pieces_back(coord, member);
    if (state == MEMBER_JOINING || state == MEMBER_READY) {
        coord->view++;
        text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                    "%s node=%s reason=%s view=%" PRIu64 " step=%" PRIu64,
                    reason == RDT_CLOSED_PEER ? "left" : "lost", member->node.name, why,
                    coord->view, coord->step);
    }
    if (state == MEMBER_READY) {
        remember(coord, member, reason != RDT_CLOSED_PEER);
        text_format(coord->last_lost, sizeof coord->last_lost,
                    "node %s lost at step %" PRIu64 " (%s)", member->node.name, coord->step, why);
    }
    if (state == MEMBER_LEAVING && member->node.name[0])
        remember(coord, member, false);
    free_member(member);
    if (state == MEMBER_READY && coord->phase != PHASE_END)
        note_members(coord);
}

void member_refuse(struct coord *coord, struct member *member, const char *reason, bool for_good)
{
    struct samples_buf *buf = assign_buf(coord, member);

    text_format(coord_event(coord)->text, ACTION_TEXT_MAX, "refused node=%s reason=\"%s\"",
                member->node.name, reason);
    if (buf)
        member_send(coord, member, (struct message){.kind = MSG_REFUSE, .aux = for_good},
                    buf->bytes, body_refuse_encode(reason, buf->bytes), &buf->loan);
    member->node.name[0] = '\0'; /* was never one of us */
    close_member(coord, member);
}

/* Another member with the identity of this one. */
static struct member *twin_of(struct coord *coord, const struct member *member)
{
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *other = &coord->members[i];

        if (other != member && other->node.instance == member->node.instance && !other->dropped &&
            (other->state == MEMBER_JOINING || other->state == MEMBER_READY))
            return other;
    }
    return NULL;
}

static bool is_banned(const struct coord *coord, uint64_t instance)
{
    for (size_t i = 0; i < coord->gone_count; i++)
        if (coord->gone[i].instance == instance && coord->gone[i].banned)
            return true;
    return false;
}

/* May it become a member?  Else it is refused. */
static bool is_welcome(struct coord *coord, struct member *member)
{
    uint32_t taken = members_in(coord, MEMBER_JOINING) + members_in(coord, MEMBER_READY);
    struct member *twin = twin_of(coord, member);
    char text[BODY_TEXT_MAX];

    if (is_banned(coord, member->node.instance)) {
        member_refuse(coord, member, "it broke the protocol of this run before", true);
        return false;
    }
    if (twin && !rdt_addr_equal(&twin->node.peer, &member->node.peer)) {
        /* Its old connection is about to be found dead, or somebody copied a machine. */
        member_refuse(coord, member, "this node is a member already", false);
        return false;
    }
    if (twin) /* the same socket: it has given its old connection up */
        member_drop(coord, twin, RDT_CLOSED_DEAD);
    if (taken < COORD_NODES_MAX || twin)
        return true;
    text_format(text, sizeof text, "the run has %d nodes already", COORD_NODES_MAX);
    member_refuse(coord, member, text, false);
    return false;
}

void member_join(struct coord *coord, struct member *member, const struct input *input)
{
    struct body_join join;

    if (member->state != MEMBER_CONNECTED || coord->phase == PHASE_END ||
        !body_join_decode(&join, input->body, input->body_len))
        return;
    member->node.instance = join.instance;
    member->node.threads = join.threads;
    text_format(member->node.name, sizeof member->node.name, "%s", join.name);
    if (!is_welcome(coord, member))
        return;
    member->state = MEMBER_JOINING;
    text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                "joining node=%s instance=%016" PRIx64 " threads=%" PRIu32, member->node.name,
                join.instance, join.threads);
    member_send(coord, member, (struct message){.kind = MSG_WELCOME, .step = coord->step},
                coord->config.welcome, coord->config.welcome_len, NULL);
}

static int open_sent(struct coord *coord, struct member *member)
{
    const struct nn_dataset *sets[SET_COUNT] = {coord->config.train, coord->config.test};
    const bool has[SET_COUNT] = {member->node.has_train, member->node.has_test};

    for (size_t set = 0; set < SET_COUNT; set++) {
        if (!sets[set] || has[set])
            continue;
        if (body_samples_max((uint32_t)nn_dataset_sample_bytes(sets[set])) == 0)
            return -1;
        member->sent[set] = calloc(nn_dataset_count(sets[set]) / 8 + 1, 1);
        if (!member->sent[set])
            return -1;
    }
    return 0;
}

/* It was a member before: its numbers go on. */
static void recall(struct coord *coord, struct member *member)
{
    for (size_t i = 0; i < coord->gone_count; i++) {
        if (coord->gone[i].instance != member->node.instance ||
            strcmp(coord->gone[i].name, member->node.name) != 0)
            continue;
        member->node.leaves = coord->gone[i].leaves;
        member->node.samples_sent = coord->gone[i].samples_sent;
        coord->gone[i] = coord->gone[--coord->gone_count];
        return;
    }
}

void member_ready(struct coord *coord, struct member *member, const struct input *input)
{
    struct body_ready ready;
    char text[BODY_TEXT_MAX];

    if (member->state != MEMBER_JOINING || !body_ready_decode(&ready, input->body, input->body_len))
        return;
    member->node.has_train = ready.has_train;
    member->node.has_test = ready.has_test;
    if (ready.fingerprint != coord->config.fingerprint) {
        text_format(text, sizeof text,
                    "its numerics differ: fingerprint %016" PRIx64 ", the coordinator's is "
                    "%016" PRIx64,
                    ready.fingerprint, coord->config.fingerprint);
        member_refuse(coord, member, text, true);
        return;
    }
    if (open_sent(coord, member) < 0) {
        member_refuse(coord, member,
                      "it has no copy of the data, and samples are too large to send", true);
        return;
    }
    member->state = MEMBER_READY;
    recall(coord, member);
    if (coord_is_running(coord))
        coord->view++;
    text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                "joined node=%s train_data=%s test_data=%s view=%" PRIu64 " step=%" PRIu64,
                member->node.name, ready.has_train ? "own" : "sent",
                ready.has_test ? "own" : "sent", coord->view, coord->step);
    note_members(coord);
    if (coord->phase == PHASE_GATHER && members_in(coord, MEMBER_READY) >= coord->config.nodes)
        coord_begin(coord);
}

static bool is_node(const struct member *member)
{
    return member->state == MEMBER_READY ||
           (member->state == MEMBER_LEAVING && member->node.name[0]);
}

size_t coord_nodes(const struct coord *coord)
{
    size_t count = coord->gone_count;

    for (size_t i = 0; i < MEMBERS_MAX; i++)
        count += is_node(&coord->members[i]);
    return count;
}

struct coord_node coord_node(const struct coord *coord, size_t idx)
{
    size_t at = coord->gone_count;

    if (idx < at)
        return coord->gone[idx];
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        if (!is_node(&coord->members[i]))
            continue;
        if (at++ == idx)
            return coord->members[i].node;
    }
    assert(false && "idx < coord_nodes");
    return (struct coord_node){.lost = false};
}
