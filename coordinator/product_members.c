/* SPDX-License-Identifier: MIT */
#include <cluster/text.h>
#include <coordinator/product_state.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const uint64_t refuse_flush_ns = 1000000000;

static_assert(BODY_TEXT_MAX + 2 <= BODY_PRODUCT_BYTES, "a refusal fits where a welcome does");

struct mill *mill_find(struct product *product, struct rdt_conn conn)
{
    for (size_t i = 0; i < MILLS_MAX; i++) {
        struct mill *mill = &product->mills[i];

        if (mill->state != MILL_FREE && mill->conn.slot == conn.slot &&
            mill->conn.generation == conn.generation)
            return mill;
    }
    return NULL;
}

uint32_t mills_in(const struct product *product, enum mill_state state)
{
    uint32_t count = 0;

    for (size_t i = 0; i < MILLS_MAX; i++)
        count += product->mills[i].state == state;
    return count;
}

void mill_send(struct product *product, struct mill *mill, struct message head, const void *body,
               size_t body_len, void *user)
{
    struct action *action = actions_add(product->actions, ACT_SEND);

    head.run_id = product->config.run_id;
    head.view = product->view;
    head.body_len = (uint32_t)body_len;
    action->conn = mill->conn;
    action->head = head;
    action->body = body;
    action->body_len = body_len;
    action->user = user;
}

void mill_connected(struct product *product, const struct input *input)
{
    for (size_t i = 0; i < MILLS_MAX && product->phase != PRODUCT_END; i++) {
        struct mill *mill = &product->mills[i];

        if (mill->state != MILL_FREE)
            continue;
        memset(mill, 0, sizeof *mill);
        mill->state = MILL_CONNECTED;
        mill->conn = input->conn;
        return;
    }
    actions_add(product->actions, ACT_ABORT)->conn = input->conn;
}

static const char *reason_text(const struct mill *mill, enum rdt_closed reason)
{
    if (mill->dropped)
        return mill->reason;
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

/* Its blocks are open again, its landings ours. */
void mill_closed(struct product *product, struct mill *mill, enum rdt_closed reason)
{
    enum mill_state state = mill->state;
    const char *why = reason_text(mill, reason);
    uint32_t blocks = mill->blocks;

    deal_take_back(product, mill);
    mill->state = MILL_FREE;
    if (product->phase == PRODUCT_END || (state != MILL_READY && state != MILL_JOINING))
        return;
    product->view++;
    text_format(product_event(product)->text, ACTION_TEXT_MAX,
                "lost node=%s reason=%s blocks=%" PRIu32 " finished=%" PRIu64 " nodes=%" PRIu32,
                mill->name, why, blocks, mill->finished, mills_in(product, MILL_READY));
    if (product->phase != PRODUCT_RUN || state != MILL_READY || mills_in(product, MILL_READY) > 0)
        return;
    product->wait_until = product->now + product->config.wait_ns;
    text_format(product_event(product)->text, ACTION_TEXT_MAX,
                "warning reason=\"no node is left; waiting %" PRIu64 " s for one\"",
                product->config.wait_ns / 1000000000);
}

void mill_drop(struct product *product, struct mill *mill, const char *reason)
{
    if (mill->dropped)
        return;
    mill->dropped = true;
    mill->reason = reason;
    actions_add(product->actions, ACT_ABORT)->conn = mill->conn;
}

static void refuse(struct product *product, struct mill *mill, const char *reason, bool for_good)
{
    size_t len = body_refuse_encode(reason, product->scratch);
    struct action *action;

    assert(len <= sizeof mill->body);
    memcpy(mill->body, product->scratch, len);
    text_format(product_event(product)->text, ACTION_TEXT_MAX, "refused node=%s reason=\"%s\"",
                mill->name, reason);
    mill_send(product, mill, (struct message){.kind = MSG_REFUSE, .aux = for_good}, mill->body, len,
              NULL);
    action = actions_add(product->actions, ACT_CLOSE);
    action->conn = mill->conn;
    action->flush_ns = refuse_flush_ns;
    mill->state = MILL_LEAVING;
}

static bool knows(const struct product *product, const struct mill *mill)
{
    for (size_t i = 0; i < MILLS_MAX; i++) {
        const struct mill *other = &product->mills[i];

        if (other != mill && other->instance == mill->instance &&
            (other->state == MILL_JOINING || other->state == MILL_READY))
            return true;
    }
    return false;
}

static bool was_wrong(const struct product *product, const struct mill *mill)
{
    for (uint32_t i = 0; i < product->status.wrong && i < COORD_NODES_MAX; i++)
        if (product->wrong[i] == mill->instance)
            return true;
    return false;
}

/* One being sent, one that comes back, and one for every thread; never more than there are. */
static uint32_t depth_for(const struct product *product, uint32_t threads)
{
    uint64_t depth = threads + 2u;

    if (depth > BODY_DEPTH_MAX)
        depth = BODY_DEPTH_MAX;
    return (uint32_t)(depth < product->blocks ? depth : product->blocks);
}

void mill_join(struct product *product, struct mill *mill, const struct input *input)
{
    struct body_product welcome = product->config.shape;
    struct body_join join;

    if (mill->state != MILL_CONNECTED || !body_join_decode(&join, input->body, input->body_len))
        return;
    mill->instance = join.instance;
    text_format(mill->name, sizeof mill->name, "%s", join.name);
    if (was_wrong(product, mill)) {
        refuse(product, mill, "it computed wrong", true);
        return;
    }
    if (knows(product, mill)) {
        /* Its old connection is about to be found dead. */
        refuse(product, mill, "this node is a member already", false);
        return;
    }
    if (mills_in(product, MILL_JOINING) + mills_in(product, MILL_READY) >= COORD_NODES_MAX) {
        refuse(product, mill, "there are as many nodes as there can be", false);
        return;
    }
    mill->state = MILL_JOINING;
    mill->depth = depth_for(product, join.threads);
    welcome.depth = mill->depth;
    for (uint32_t i = 0; i < mill->depth; i++)
        mill->serials[i] = i;
    text_format(product_event(product)->text, ACTION_TEXT_MAX,
                "joining node=%s instance=%016" PRIx64 " threads=%" PRIu32, mill->name,
                join.instance, join.threads);
    mill_send(product, mill, (struct message){.kind = MSG_WELCOME, .aux = PURPOSE_PRODUCT},
              mill->body, body_product_encode(&welcome, mill->body), NULL);
}

void mill_ready(struct product *product, struct mill *mill, const struct input *input)
{
    struct body_ready ready;
    char text[BODY_TEXT_MAX];

    if (mill->state != MILL_JOINING || !body_ready_decode(&ready, input->body, input->body_len))
        return;
    if (ready.fingerprint != product->config.fingerprint) {
        text_format(text, sizeof text,
                    "its numerics differ: fingerprint %016" PRIx64 ", the coordinator's is "
                    "%016" PRIx64,
                    ready.fingerprint, product->config.fingerprint);
        refuse(product, mill, text, true);
        return;
    }
    mill->state = MILL_READY;
    product->view++;
    product->status.helped++;
    text_format(product_event(product)->text, ACTION_TEXT_MAX, "joined node=%s nodes=%" PRIu32,
                mill->name, mills_in(product, MILL_READY));
    if (product->phase == PRODUCT_GATHER && mills_in(product, MILL_READY) >= product->config.nodes)
        product_begin(product);
}
