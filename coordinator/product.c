/* SPDX-License-Identifier: MIT */
#include <coordinator/product.h>

#include <cluster/text.h>
#include <coordinator/product_state.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How long the nodes get to hear that the product is there. */
static const uint64_t goodbye_ns = 1000000000;
static const uint64_t second_ns = 1000000000;

static int open_checker(struct product *product)
{
    const struct checker_config config = {
        .shape = &product->config.shape,
        .a = product->config.a,
        .b = product->config.b,
        .seed = product->config.run_id,
    };

    return product->config.check ? checker_open(&product->checker, &config) : 0;
}

int product_open(struct product **out, const struct product_config *config)
{
    struct product *product = calloc(1, sizeof *product);

    assert(config->nodes >= 1);
    assert(config->nodes <= COORD_NODES_MAX);
    if (!product)
        return NN_ENOMEM;
    product->config = *config;
    product->config.shape.depth = 1;
    assert(body_product_ok(&product->config.shape));
    product->view = 1;
    product->blocks = blocks_count(&product->config.shape);
    product->status.blocks = product->blocks;
    product->lost = calloc((size_t)MILLS_MAX * BODY_DEPTH_MAX, sizeof *product->lost);
    product->copies = calloc(product->blocks, sizeof *product->copies);
    product->come = calloc(product->blocks, sizeof *product->come);
    if (!product->lost || !product->copies || !product->come || open_checker(product) < 0) {
        product_free(product);
        return NN_ENOMEM;
    }
    *out = product;
    return 0;
}

void product_free(struct product *product)
{
    if (!product)
        return;
    deal_free(product);
    checker_free(product->checker);
    free(product->lost);
    free(product->copies);
    free(product->come);
    free(product);
}

struct action *product_event(struct product *product)
{
    return actions_add(product->actions, ACT_EVENT);
}

void product_begin(struct product *product)
{
    product->phase = PRODUCT_RUN;
    product->status.begun_ns = product->now;
    text_format(product_event(product)->text, ACTION_TEXT_MAX,
                "begin nodes=%" PRIu32 " blocks=%" PRIu64 " rows=%" PRIu64,
                mills_in(product, MILL_READY), product->blocks, product->config.shape.block_rows);
}

void product_finish(struct product *product, enum exit_code code, const char *text)
{
    if (product->phase == PRODUCT_END)
        return;
    product->phase = PRODUCT_END;
    product->code = (int)code;
    product->end_at = product->now + 2 * goodbye_ns;
    product->status.end_ns = product->now;
    text_format(product->text, sizeof product->text, "%s", text);
    for (size_t i = 0; i < MILLS_MAX; i++) {
        struct mill *mill = &product->mills[i];
        struct action *action;

        if (mill->state == MILL_FREE || mill->state == MILL_LEAVING)
            continue;
        mill_send(product, mill, (struct message){.kind = MSG_BYE, .aux = (uint64_t)code}, NULL, 0,
                  NULL);
        action = actions_add(product->actions, ACT_CLOSE);
        action->conn = mill->conn;
        action->flush_ns = goodbye_ns;
        mill->state = MILL_LEAVING;
    }
}

/* ---------- inputs ---------- */

static void gathered_too_few(struct product *product)
{
    char text[ACTION_TEXT_MAX];
    uint32_t ready = mills_in(product, MILL_READY);

    text_format(text, sizeof text,
                "%" PRIu32 " of %" PRIu32 " nodes joined within %" PRIu64 " s; missing %" PRIu32
                " (joined:%s",
                ready, product->config.nodes, product->config.wait_ns / second_ns,
                product->config.nodes - ready, ready == 0 ? " none" : "");
    for (size_t i = 0; i < MILLS_MAX; i++)
        if (product->mills[i].state == MILL_READY)
            text_append(text, sizeof text, " %s", product->mills[i].name);
    text_append(text, sizeof text, ")");
    product_finish(product, EXIT_NOT_STARTED, text);
}

static void on_time(struct product *product)
{
    char text[ACTION_TEXT_MAX];

    if (!product->begun) {
        product->begun = true;
        product->wait_until = product->now + product->config.wait_ns;
        return;
    }
    if (product->now < product->wait_until)
        return;
    if (product->phase == PRODUCT_GATHER) {
        gathered_too_few(product);
    } else if (product->phase == PRODUCT_RUN && mills_in(product, MILL_READY) == 0) {
        text_format(text, sizeof text,
                    "no node is left, and none came within %" PRIu64 " s: %" PRIu64 " of %" PRIu64
                    " blocks done",
                    product->config.wait_ns / second_ns, product->status.done, product->blocks);
        product_finish(product, EXIT_NODES, text);
    }
}

static void on_message(struct product *product, const struct input *input)
{
    struct mill *mill = mill_find(product, input->conn);

    if (!mill || mill->state == MILL_LEAVING || mill->dropped)
        return;
    if (input->head.kind == MSG_JOIN) {
        mill_join(product, mill, input);
        return;
    }
    if (input->head.run_id != product->config.run_id)
        return;
    if (input->head.kind == MSG_READY)
        mill_ready(product, mill, input);
    else if (input->head.kind == MSG_RESULT)
        deal_result(product, mill, input);
    else if (input->head.kind == MSG_LEAVE)
        mill_drop(product, mill, "left");
}

static void dispatch(struct product *product, const struct input *input)
{
    struct mill *mill;

    switch (input->kind) {
    case IN_TIME:
        on_time(product);
        break;
    case IN_CONNECTED:
        mill_connected(product, input);
        break;
    case IN_CLOSED:
        mill = mill_find(product, input->conn);
        if (mill)
            mill_closed(product, mill, input->reason);
        break;
    case IN_MESSAGE:
        on_message(product, input);
        break;
    case IN_RELEASED:
        mill = input->user; /* of a piece of B; all else needs no thanks */
        if (mill) {
            assert(mill->flying > 0);
            mill->flying--;
        }
        break;
    case IN_COMPUTED:
        deal_checked(product);
        break;
    case IN_STOP:
        product_finish(product, EXIT_STOPPED, "stopped by the user; nothing was written");
        break;
    }
}

static void drop_ended(struct product *product)
{
    for (size_t i = 0; i < MILLS_MAX; i++) {
        struct mill *mill = &product->mills[i];

        if ((mill->state == MILL_READY || mill->state == MILL_JOINING) &&
            strcmp(mill->name, product->ended) == 0)
            mill_drop(product, mill, "process-ended");
    }
    product->ended[0] = '\0';
}

static void fail_now(struct product *product)
{
    char text[ACTION_TEXT_MAX];

    product->failing = false;
    memcpy(text, product->text, sizeof text);
    product_finish(product, (enum exit_code)product->code, text);
}

void product_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out)
{
    struct product *product = state;
    struct action *action;

    product->actions = out;
    product->now = now_ns;
    dispatch(product, input);
    if (product->failing)
        fail_now(product);
    if (product->ended[0])
        drop_ended(product);
    if (product->phase == PRODUCT_RUN && product->status.done == product->blocks)
        product_finish(product, EXIT_DONE, "done");
    if (product->phase == PRODUCT_RUN)
        deal_pump(product);
    if (product->phase != PRODUCT_END || product->checking)
        return;
    if (mills_in(product, MILL_FREE) < MILLS_MAX && now_ns < product->end_at)
        return;
    action = actions_add(out, ACT_EXIT);
    action->code = product->code;
    text_format(action->text, sizeof action->text, "%s", product->text);
}

uint64_t product_deadline(const void *state)
{
    const struct product *product = state;

    if (!product->begun || product->failing || product->ended[0] ||
        (product->more && product->phase == PRODUCT_RUN))
        return 0;
    if (product->phase == PRODUCT_GATHER)
        return product->wait_until;
    if (product->phase == PRODUCT_RUN)
        return mills_in(product, MILL_READY) == 0 ? product->wait_until : UINT64_MAX;
    return product->checking ? UINT64_MAX : product->end_at;
}

void product_run(void *state, void *job)
{
    const struct product *product = state;

    check_run(product->checker, job);
}

void product_fail(struct product *product, enum exit_code code, const char *text)
{
    if (product->failing || product->phase == PRODUCT_END)
        return;
    product->failing = true;
    product->code = (int)code;
    text_format(product->text, sizeof product->text, "%s", text);
}

void product_drop(struct product *product, const char *name)
{
    text_format(product->ended, sizeof product->ended, "%s", name);
}

bool product_is_gathering(const struct product *product)
{
    return product->phase == PRODUCT_GATHER;
}

struct product_status product_status(const struct product *product)
{
    struct product_status status = product->status;

    status.ready = mills_in(product, MILL_READY);
    return status;
}
