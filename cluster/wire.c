/* SPDX-License-Identifier: MIT */
#include <cluster/wire.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Inputs that come from here and not from the transport; drained before its next event.  A few
 * steps may run without a drain in between. */
enum { NOTES_MAX = 8 * ACTIONS_MAX + WIRE_BACKLOG_MAX };

struct note {
    enum input_kind kind; /* IN_RELEASED (aborted) or IN_CLOSED (a connect that failed) */
    struct rdt_conn conn;
    struct rdt_addr peer;
    void *user;
};

/* A send, or a close that must not overtake sends. */
struct waiting {
    bool close;
    struct rdt_conn conn;
    struct message head;
    const void *body;
    size_t body_len;
    void *user;
    uint64_t flush_ns;
};

struct slot {
    struct rdt_conn conn; /* generation 0: closed */
    uint32_t offers;
};

struct wire {
    struct rdt_endpoint *ep;
    const uint8_t *pooled; /* of the last input; to be released */
    bool closing;          /* `closed` waits until the notes are drained */
    struct rdt_event closed;
    struct wire_stats stats;
    size_t waiting_count;
    size_t notes_first, notes_count;
    struct slot slots[WIRE_SLOTS];
    struct waiting waiting[WIRE_BACKLOG_MAX];
    struct note notes[NOTES_MAX];
};

int wire_open(struct wire **out, struct rdt_endpoint *ep)
{
    struct wire *wire = calloc(1, sizeof *wire);

    assert(ep);
    if (!wire)
        return RDT_ENOMEM;
    wire->ep = ep;
    *out = wire;
    return 0;
}

void wire_free(struct wire *wire)
{
    free(wire);
}

struct wire_stats wire_stats(const struct wire *wire)
{
    struct wire_stats stats = wire->stats;

    stats.backlog = wire->waiting_count;
    return stats;
}

static bool same(struct rdt_conn a, struct rdt_conn b)
{
    return a.slot == b.slot && a.generation == b.generation;
}

static struct slot *slot_of(struct wire *wire, struct rdt_conn conn)
{
    return &wire->slots[conn.slot % WIRE_SLOTS];
}

static void note(struct wire *wire, const struct note *note)
{
    assert(wire->notes_count < NOTES_MAX);
    wire->notes[(wire->notes_first + wire->notes_count) % NOTES_MAX] = *note;
    wire->notes_count++;
}

static void note_released(struct wire *wire, struct rdt_conn conn, void *user)
{
    if (user)
        note(wire, &(struct note){.kind = IN_RELEASED, .conn = conn, .user = user});
}

/* ---------- sending ---------- */

static int send_now(struct wire *wire, const struct waiting *send, uint64_t now_ns)
{
    uint8_t head[MESSAGE_HEADER];
    struct rdt_message message = {
        .head = head,
        .head_len = sizeof head,
        .body = send->body,
        .body_len = send->body_len,
        .channel = message_channel(send->head.kind),
        .ordered = message_channel(send->head.kind) == CHANNEL_CONTROL,
        .kind = message_is_update(send->head.kind) ? RDT_UPDATE : RDT_DATA,
        .tag = message_tag(&send->head),
        .user = send->user,
    };
    int err;

    message_encode(&send->head, head);
    err = rdt_send(wire->ep, send->conn, &message, now_ns);
    assert(err != RDT_EINVAL);
    return err;
}

static bool is_waiting(const struct wire *wire, struct rdt_conn conn)
{
    for (size_t i = 0; i < wire->waiting_count; i++) {
        if (same(wire->waiting[i].conn, conn))
            return true;
    }
    return false;
}

/* false: there is no room. */
static bool wait_for_room(struct wire *wire, const struct waiting *waiting)
{
    if (wire->waiting_count == WIRE_BACKLOG_MAX)
        return false;
    wire->waiting[wire->waiting_count++] = *waiting;
    return true;
}

static void overflow(struct wire *wire, struct rdt_conn conn, uint64_t now_ns)
{
    wire->stats.overflows++;
    rdt_abort(wire->ep, conn, now_ns);
}

static void send_or_wait(struct wire *wire, const struct action *action, uint64_t now_ns)
{
    struct waiting send = {
        .conn = action->conn,
        .head = action->head,
        .body = action->body,
        .body_len = action->body_len,
        .user = action->user,
    };
    int err = RDT_EAGAIN;

    assert(action->body_len <= UINT32_MAX);
    send.head.body_len = (uint32_t)action->body_len;
    if (!is_waiting(wire, send.conn))
        err = send_now(wire, &send, now_ns);
    if (err == 0 || (err == RDT_EAGAIN && wait_for_room(wire, &send)))
        return;
    if (err != RDT_ECONN)
        overflow(wire, send.conn, now_ns);
    note_released(wire, send.conn, send.user);
}

/* After WRITABLE: what waits for this connection, in order, until it is full again. */
static void send_waiting(struct wire *wire, struct rdt_conn conn, uint64_t now_ns)
{
    bool full = false;
    size_t kept = 0;

    for (size_t i = 0; i < wire->waiting_count; i++) {
        const struct waiting *waiting = &wire->waiting[i];
        int err = RDT_EAGAIN;

        if (same(waiting->conn, conn) && !full)
            err = waiting->close ? rdt_close(wire->ep, conn, waiting->flush_ns, now_ns)
                                 : send_now(wire, waiting, now_ns);
        if (err == RDT_EAGAIN) {
            full = full || same(waiting->conn, conn);
            wire->waiting[kept++] = *waiting;
        } else if (err != 0 && !waiting->close) {
            note_released(wire, conn, waiting->user);
        }
    }
    wire->waiting_count = kept;
}

/* The connection is gone: what waited for it is its owner's again. */
static void drop_waiting(struct wire *wire, struct rdt_conn conn)
{
    size_t kept = 0;

    for (size_t i = 0; i < wire->waiting_count; i++) {
        const struct waiting *waiting = &wire->waiting[i];

        if (!same(waiting->conn, conn))
            wire->waiting[kept++] = *waiting;
        else if (!waiting->close)
            note_released(wire, conn, waiting->user);
    }
    wire->waiting_count = kept;
}

/* ---------- actions ---------- */

static void connect_to(struct wire *wire, const struct rdt_addr *peer, uint64_t now_ns)
{
    struct rdt_conn conn;

    if (rdt_connect(wire->ep, peer, now_ns, &conn) == 0)
        *slot_of(wire, conn) = (struct slot){.conn = conn};
    else
        note(wire, &(struct note){.kind = IN_CLOSED, .peer = *peer});
}

static void close_one(struct wire *wire, struct rdt_conn conn, uint64_t flush_ns, uint64_t now_ns)
{
    struct waiting close = {.close = true, .conn = conn, .flush_ns = flush_ns};

    if (!is_waiting(wire, conn))
        rdt_close(wire->ep, conn, flush_ns, now_ns);
    else if (!wait_for_room(wire, &close))
        overflow(wire, conn, now_ns);
}

static void post(struct wire *wire, const struct action *action, uint64_t now_ns)
{
    struct rdt_landing landing = {
        .buf = action->buf,
        .cap = action->cap,
        .tag = message_tag(&action->head),
        .channel = message_channel(action->head.kind),
        .user = action->user,
    };
    int err;

    assert(action->user);
    err = rdt_post(wire->ep, action->conn, &landing, now_ns);
    assert(err != RDT_EINVAL);
    assert(err != RDT_EEXIST);
    /* Too large a message is waiting for it, or too many buffers are posted.  When the connection
     * is closed the buffer is its owner's again. */
    if (err == RDT_EMSGSIZE || err == RDT_ELIMIT)
        overflow(wire, action->conn, now_ns);
}

bool wire_perform(struct wire *wire, const struct action *action, uint64_t now_ns)
{
    switch (action->kind) {
    case ACT_CONNECT:
        connect_to(wire, &action->peer, now_ns);
        return true;
    case ACT_CLOSE:
        close_one(wire, action->conn, action->flush_ns, now_ns);
        return true;
    case ACT_ABORT:
        rdt_abort(wire->ep, action->conn, now_ns);
        return true;
    case ACT_SEND:
        send_or_wait(wire, action, now_ns);
        return true;
    case ACT_POST:
        post(wire, action, now_ns);
        return true;
    case ACT_UNPOST:
        rdt_unpost(wire->ep, action->conn, message_channel(action->head.kind),
                   message_tag(&action->head));
        return true;
    case ACT_COMPUTE:
    case ACT_EVENT:
    case ACT_RECORD:
    case ACT_EXIT:
        break;
    }
    return false;
}

void wire_close_all(struct wire *wire, uint64_t flush_ns, uint64_t now_ns)
{
    for (size_t i = 0; i < WIRE_SLOTS; i++) {
        if (wire->slots[i].conn.generation != 0)
            close_one(wire, wire->slots[i].conn, flush_ns, now_ns);
    }
}

size_t wire_connections(const struct wire *wire)
{
    size_t count = 0;

    for (size_t i = 0; i < WIRE_SLOTS; i++)
        count += wire->slots[i].conn.generation != 0;
    return count;
}

/* ---------- events ---------- */

/* The header, if it is one and the message came the way it says. */
static bool is_sound(const struct rdt_event *event, struct message *head)
{
    return message_decode(head, event->bytes, event->len) &&
           event->channel == message_channel(head->kind) && event->tag == message_tag(head) &&
           (event->type == RDT_UPDATE) == message_is_update(head->kind);
}

static bool on_message(struct wire *wire, const struct rdt_event *event, struct input *out,
                       uint64_t now_ns)
{
    struct slot *slot = slot_of(wire, event->conn);
    struct message head;

    if (!event->pooled && slot->offers > 0)
        slot->offers--;
    if (!is_sound(event, &head)) {
        wire->stats.garbage++;
        if (event->pooled)
            rdt_release(wire->ep, event->bytes, now_ns);
        else
            rdt_abort(wire->ep, event->conn, now_ns);
        return false;
    }
    *out = (struct input){
        .kind = IN_MESSAGE,
        .conn = event->conn,
        .head = head,
        .body = event->bytes + MESSAGE_HEADER,
        .body_len = event->len - MESSAGE_HEADER,
        .user = event->pooled ? NULL : event->user,
    };
    if (event->pooled)
        wire->pooled = event->bytes;
    return true;
}

static void on_offer(struct wire *wire, const struct rdt_event *event, uint64_t now_ns)
{
    struct slot *slot = slot_of(wire, event->conn);

    wire->stats.offers++;
    if (++slot->offers > WIRE_OFFERS_MAX) {
        slot->offers = 0;
        overflow(wire, event->conn, now_ns);
    }
}

/* false: the event makes no input. */
static bool translate(struct wire *wire, const struct rdt_event *event, struct input *out,
                      uint64_t now_ns)
{
    switch (event->kind) {
    case RDT_EV_CONNECTED:
        *slot_of(wire, event->conn) = (struct slot){.conn = event->conn};
        *out = (struct input){.kind = IN_CONNECTED,
                              .conn = event->conn,
                              .peer = event->peer,
                              .incoming = event->incoming};
        return true;
    case RDT_EV_MESSAGE:
        return on_message(wire, event, out, now_ns);
    case RDT_EV_OFFER:
        on_offer(wire, event, now_ns);
        return false;
    case RDT_EV_RELEASED:
        *out = (struct input){
            .kind = IN_RELEASED, .conn = event->conn, .user = event->user, .status = event->status};
        return event->user != NULL;
    case RDT_EV_WRITABLE:
        send_waiting(wire, event->conn, now_ns);
        return false;
    case RDT_EV_CLOSED:
        drop_waiting(wire, event->conn);
        slot_of(wire, event->conn)->conn.generation = 0;
        wire->closing = true;
        wire->closed = *event;
        return false;
    }
    return false;
}

static bool next_note(struct wire *wire, struct input *out)
{
    const struct note *note = &wire->notes[wire->notes_first];

    if (wire->notes_count == 0)
        return false;
    *out = (struct input){
        .kind = note->kind,
        .conn = note->conn,
        .peer = note->peer,
        .user = note->user,
        .status = note->kind == IN_RELEASED ? RDT_ABORTED : 0,
        .reason = RDT_CLOSED_LOCAL,
    };
    wire->notes_first = (wire->notes_first + 1) % NOTES_MAX;
    wire->notes_count--;
    return true;
}

bool wire_next(struct wire *wire, struct input *out, uint64_t now_ns)
{
    struct rdt_event event;

    if (wire->pooled)
        rdt_release(wire->ep, wire->pooled, now_ns);
    wire->pooled = NULL;
    for (;;) {
        if (next_note(wire, out))
            return true;
        if (wire->closing) {
            wire->closing = false;
            *out = (struct input){.kind = IN_CLOSED,
                                  .conn = wire->closed.conn,
                                  .peer = wire->closed.peer,
                                  .reason = wire->closed.reason};
            return true;
        }
        if (!rdt_next_event(wire->ep, &event))
            return false;
        if (translate(wire, &event, out, now_ns))
            return true;
    }
}
