/* SPDX-License-Identifier: MIT */
#include <cluster/text.h>
#include <coordinator/product_state.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Actions of one step that the pump leaves to others. */
enum { ACTIONS_KEPT = 256 };

static bool is_full(struct product *product)
{
    product->more = product->actions->count > ACTIONS_MAX - ACTIONS_KEPT;
    return product->more;
}

/* ---------- grists ---------- */

static void push(struct grist **list, struct grist *grist)
{
    grist->next = *list;
    *list = grist;
}

static struct grist *pull(struct grist **at)
{
    struct grist *grist = *at;

    *at = grist->next;
    grist->next = NULL;
    return grist;
}

static void free_list(struct grist **list)
{
    while (*list) {
        struct grist *grist = pull(list);

        nn_floats_free((float *)(void *)grist->buf);
        free(grist);
    }
}

void deal_free(struct product *product)
{
    free_list(&product->spare);
    free_list(&product->out);
    free_list(&product->unchecked);
}

static size_t landing_len(const struct product *product)
{
    const struct body_product *shape = &product->config.shape;

    return MESSAGE_HEADER + shape->block_rows * shape->cols * sizeof(float);
}

/* NULL: memory is out; those that are out must do. */
static struct grist *take_grist(struct product *product)
{
    struct grist *grist;

    if (product->spare)
        return pull(&product->spare);
    grist = calloc(1, sizeof *grist);
    if (!grist)
        return NULL;
    grist->buf = (uint8_t *)nn_floats(landing_len(product) / sizeof(float));
    if (grist->buf)
        return grist;
    free(grist);
    return NULL;
}

/* ---------- giving ---------- */

static void send_pieces(struct product *product, struct mill *mill)
{
    const struct body_product *shape = &product->config.shape;
    uint64_t pieces = blocks_pieces(shape);

    while (mill->piece < pieces && mill->flying < PIECES_FLYING_MAX) {
        uint64_t idx = mill->piece++;

        mill->flying++;
        mill_send(product, mill, (struct message){.kind = MSG_OPERAND, .step = idx},
                  product->config.b + idx * BODY_PIECE_FLOATS,
                  blocks_piece_floats(shape, idx) * sizeof(float), mill);
    }
}

static void send_block(struct product *product, struct mill *mill, struct grist *grist)
{
    const struct body_product *shape = &product->config.shape;
    struct block block = blocks_at(shape, grist->idx);
    struct message head = {.kind = MSG_BLOCK, .step = grist->serial, .aux = block.first};
    struct action *action = actions_add(product->actions, ACT_POST);

    action->conn = mill->conn;
    action->head = (struct message){.kind = MSG_RESULT, .step = grist->serial};
    action->buf = grist->buf;
    action->cap = landing_len(product);
    action->user = grist;
    mill_send(product, mill, head, product->config.a + block.first * shape->inner,
              block.rows * shape->inner * sizeof(float), NULL);
    head.kind = MSG_OPERAND;
    if (shape->op == BODY_COMBINE)
        mill_send(product, mill, head, product->config.b + block.first * shape->cols,
                  block.rows * shape->cols * sizeof(float), NULL);
}

static uint64_t take_serial(struct mill *mill)
{
    uint32_t slot = 0;

    while (mill->taken[slot])
        slot++;
    assert(slot < mill->depth); /* blocks < depth */
    mill->taken[slot] = true;
    mill->blocks++;
    return mill->serials[slot];
}

static void give_serial_back(struct mill *mill, uint64_t serial)
{
    uint32_t slot = (uint32_t)(serial % mill->depth);

    assert(mill->taken[slot]);
    mill->taken[slot] = false;
    mill->serials[slot] = serial + mill->depth;
    mill->blocks--;
}

/* The newest block of a node that has several, for one that has none: most likely nobody computes
 * it yet.  Whichever comes first is kept.  false: there is none. */
static bool find_theft(const struct product *product, const struct mill *thief, uint64_t *idx)
{
    for (const struct grist *grist = product->out; grist && thief->blocks == 0;
         grist = grist->next) {
        if (grist->mill == thief || grist->mill->blocks < 2 || product->copies[grist->idx] > 1 ||
            product->come[grist->idx])
            continue;
        *idx = grist->idx;
        return true;
    }
    return false;
}

/* The next block for this node; false: there is none. */
static bool find_block(struct product *product, const struct mill *mill, uint64_t *idx)
{
    if (product->lost_count > 0)
        *idx = product->lost[--product->lost_count];
    else if (product->next < product->blocks)
        *idx = product->next++;
    else if (find_theft(product, mill, idx))
        product->status.again++;
    else
        return false;
    return true;
}

/* false: there is none, or no memory to receive it. */
static bool give_block(struct product *product, struct mill *mill)
{
    struct grist *grist;
    uint64_t idx;

    grist = take_grist(product);
    if (!grist) {
        if (!product->out && !product->unchecked)
            product_finish(product, EXIT_OTHER, "not enough memory for one block of C");
        return false;
    }
    if (!find_block(product, mill, &idx)) {
        push(&product->spare, grist);
        return false;
    }
    grist->idx = idx;
    product->copies[idx]++;
    grist->mill = mill;
    grist->instance = mill->instance;
    memcpy(grist->name, mill->name, sizeof grist->name);
    grist->serial = take_serial(mill);
    push(&product->out, grist);
    send_block(product, mill, grist);
    return true;
}

static bool wants_block(const struct product *product, const struct mill *mill)
{
    return mill->state == MILL_READY && !mill->dropped && mill->blocks < mill->depth &&
           mill->piece == blocks_pieces(&product->config.shape);
}

/* In turn, one at a time: so that few blocks are spread over many nodes, too. */
void deal_pump(struct product *product)
{
    uint32_t idle = 0;

    for (size_t i = 0; i < MILLS_MAX && !is_full(product); i++)
        if (product->mills[i].state == MILL_READY && !product->mills[i].dropped)
            send_pieces(product, &product->mills[i]);
    while (idle < MILLS_MAX && !is_full(product) && product->phase == PRODUCT_RUN) {
        struct mill *mill = &product->mills[product->turn];

        product->turn = (product->turn + 1) % MILLS_MAX;
        idle++;
        if (wants_block(product, mill) && give_block(product, mill))
            idle = 0;
    }
}

/* ---------- taking ---------- */

void deal_take_back(struct product *product, const struct mill *mill)
{
    for (struct grist **at = &product->out; *at;) {
        struct grist *grist;

        if ((*at)->mill != mill) {
            at = &(*at)->next;
            continue;
        }
        grist = pull(at);
        push(&product->spare, grist);
        product->copies[grist->idx]--;
        if (product->copies[grist->idx] > 0 || product->come[grist->idx])
            continue; /* nobody misses it */
        assert(product->lost_count < MILLS_MAX * BODY_DEPTH_MAX);
        product->lost[product->lost_count++] = grist->idx;
        product->status.again++;
    }
}

static void keep(struct product *product, const struct grist *grist)
{
    const struct body_product *shape = &product->config.shape;
    struct block block = blocks_at(shape, grist->idx);

    memcpy(product->config.c + block.first * shape->cols, grist->buf + MESSAGE_HEADER,
           block.rows * shape->cols * sizeof(float));
    product->status.done++;
}

static void start_check(struct product *product)
{
    struct grist *grist = product->unchecked;

    if (!grist || product->checking)
        return;
    product->checking = true;
    product->job = (struct check_job){.block = blocks_at(&product->config.shape, grist->idx),
                                      .c = (float *)(void *)(grist->buf + MESSAGE_HEADER)};
    actions_add(product->actions, ACT_COMPUTE)->job = &product->job;
}

/* A stolen block's second copy: blocks have the same bits on every machine. */
static void come_twice(struct product *product, const struct grist *grist)
{
    const struct body_product *shape = &product->config.shape;
    struct block block = blocks_at(shape, grist->idx);
    char text[ACTION_TEXT_MAX];

    if (product->checker ||
        memcmp(product->config.c + block.first * shape->cols, grist->buf + MESSAGE_HEADER,
               block.rows * shape->cols * sizeof(float)) == 0)
        return;
    text_format(text, sizeof text,
                "two nodes computed rows %" PRIu64 "..%" PRIu64
                " differently, one of them was %s: --check names who is wrong",
                block.first, block.first + block.rows - 1, grist->name);
    product_finish(product, EXIT_OTHER, text);
}

void deal_result(struct product *product, struct mill *mill, const struct input *input)
{
    const struct body_product *shape = &product->config.shape;
    struct grist **at = &product->out, *grist;
    struct block block;

    while (*at && *at != input->user)
        at = &(*at)->next;
    if (!*at || (*at)->mill != mill || (*at)->serial != input->head.step) {
        mill_drop(product, mill, "protocol-error"); /* nobody asked for it */
        return;
    }
    block = blocks_at(shape, (*at)->idx);
    if (input->head.aux != block.first ||
        input->body_len != block.rows * shape->cols * sizeof(float)) {
        mill_drop(product, mill, "protocol-error");
        return;
    }
    grist = pull(at);
    give_serial_back(mill, grist->serial);
    mill->finished++;
    product->copies[grist->idx]--;
    if (product->come[grist->idx]) {
        come_twice(product, grist);
        push(&product->spare, grist);
        return;
    }
    product->come[grist->idx] = true;
    if (product->checker) {
        for (at = &product->unchecked; *at;)
            at = &(*at)->next;
        *at = grist;
        start_check(product);
    } else {
        keep(product, grist);
        push(&product->spare, grist);
    }
}

static void blame(struct product *product, const struct grist *grist)
{
    struct block block = blocks_at(&product->config.shape, grist->idx);

    for (uint32_t i = 0; i < product->status.wrong && i < COORD_NODES_MAX; i++)
        if (product->wrong[i] == grist->instance)
            return; /* has been said */
    text_format(product_event(product)->text, ACTION_TEXT_MAX,
                "wrong node=%s rows=%" PRIu64 "..%" PRIu64
                " reason=\"it computed wrong; computed here instead\"",
                grist->name, block.first, block.first + block.rows - 1);
    if (product->status.wrong < COORD_NODES_MAX)
        product->wrong[product->status.wrong++] = grist->instance;
    for (size_t i = 0; i < MILLS_MAX; i++) {
        struct mill *mill = &product->mills[i];

        if (mill->state == MILL_READY && mill->instance == grist->instance)
            mill_drop(product, mill, "computed-wrong");
    }
}

void deal_checked(struct product *product)
{
    struct grist *grist = pull(&product->unchecked);

    product->checking = false;
    if (!product->job.right && product->phase != PRODUCT_END)
        blame(product, grist);
    keep(product, grist);
    push(&product->spare, grist);
    if (product->phase != PRODUCT_END)
        start_check(product);
}
