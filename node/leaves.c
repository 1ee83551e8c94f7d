/* SPDX-License-Identifier: MIT */
#include <node/leaves.h>

#include <cluster/text.h>
#include <node/compute.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * DESIGN: leaves are taken in order from one counter.  Whoever completes the second of two siblings
 * adds right into left, gives the right buffer back and goes on to the parent.  The first leaf of
 * the subtree writes straight into the caller's vector, which therefore ends up holding the root.
 * A completed subtree waits only for a sibling that is being computed, so with T threads at most
 * (T + 1) * depth buffers wait and 2 T are being worked on, however many leaves there are.
 */

#define NO_NODE UINT32_MAX

struct lane { /* what one thread computes with */
    struct nn_scratch *scratch;
    float *x;
    uint32_t *labels;
    uint64_t *ids;
};

struct tree_node {
    struct span span;
    uint32_t parent, left, right; /* NO_NODE: none */
    bool done;
    float *grad;
    struct leaves_sum sum;
};

struct leaves {
    struct leaves_config config;
    size_t parameters;
    struct crew *crew;
    struct lane *lanes;
    struct tree_node *nodes;
    uint32_t nodes_count;
    uint32_t *leaf_nodes; /* node of the i-th leaf of the subtree */
    float **spare;        /* buffers nobody uses */
    uint32_t spare_count, buffers_count;
    /* the work at hand */
    const float *weights;
    uint64_t step;
    struct span span;
    uint32_t next; /* leaf to take, counted from span.first */
    struct nn_result *results;
};

static uint32_t depth_of(uint32_t leaves)
{
    uint32_t depth = 0;

    while ((1u << depth) < leaves)
        depth++;
    return depth;
}

static int open_lane(struct lane *lane, const struct leaves_config *config, size_t samples)
{
    int err = nn_scratch_open(&lane->scratch, config->model, samples);

    if (err < 0)
        return err;
    lane->x = nn_floats(samples * nn_model_inputs(config->model));
    lane->labels = calloc(samples, sizeof *lane->labels);
    lane->ids = calloc(samples, sizeof *lane->ids);
    return lane->x && lane->labels && lane->ids ? 0 : NN_ENOMEM;
}

static int open_buffers(struct leaves *leaves, uint32_t leaves_max)
{
    uint32_t threads = leaves->config.threads;
    uint64_t need = (uint64_t)(threads + 1) * depth_of(leaves_max) + 2 * (uint64_t)threads;

    /* The first leaf needs none. */
    if (need > leaves_max - 1)
        need = leaves_max - 1;
    leaves->spare = calloc(need + 1, sizeof *leaves->spare);
    leaves->nodes = calloc(2 * (size_t)leaves_max, sizeof *leaves->nodes);
    leaves->leaf_nodes = calloc(leaves_max, sizeof *leaves->leaf_nodes);
    if (!leaves->spare || !leaves->nodes || !leaves->leaf_nodes)
        return NN_ENOMEM;
    while (leaves->spare_count < need) {
        float *grad = nn_floats(leaves->parameters);

        if (!grad)
            return NN_ENOMEM;
        leaves->spare[leaves->spare_count++] = grad;
        leaves->buffers_count++;
    }
    return 0;
}

int leaves_open(struct leaves **out, const struct leaves_config *config, struct nn_error *error)
{
    struct leaves *leaves = calloc(1, sizeof *leaves);
    size_t samples = config->schedule.leaf;
    int err = NN_ENOMEM;

    assert(config->threads >= 1);
    assert(config->threads <= CREW_MAX);
    if (!leaves)
        goto out;
    if (samples < SCHEDULE_EVAL_LEAF)
        samples = SCHEDULE_EVAL_LEAF;
    leaves->config = *config;
    leaves->parameters = nn_model_parameters(config->model);
    leaves->lanes = calloc(config->threads, sizeof *leaves->lanes);
    if (!leaves->lanes)
        goto out;
    for (uint32_t i = 0; i < config->threads; i++) {
        err = open_lane(&leaves->lanes[i], config, samples);
        if (err < 0)
            goto out;
    }
    err = open_buffers(leaves, schedule_leaves_max(&config->schedule));
    if (err < 0)
        goto out;
    err = NN_ENOMEM;
    if (crew_open(&leaves->crew, config->threads, nn_thread_init) < 0)
        goto out;
    *out = leaves;
    return 0;
out:
    memset(error, 0, sizeof *error);
    text_format(error->text, sizeof error->text,
                "not enough memory to compute leaves of %u samples in %u threads (%zu parameters)",
                config->schedule.leaf, config->threads, nn_model_parameters(config->model));
    leaves_free(leaves);
    return err;
}

void leaves_free(struct leaves *leaves)
{
    if (!leaves)
        return;
    crew_free(leaves->crew);
    for (uint32_t i = 0; leaves->lanes && i < leaves->config.threads; i++) {
        nn_scratch_free(leaves->lanes[i].scratch);
        nn_floats_free(leaves->lanes[i].x);
        free(leaves->lanes[i].labels);
        free(leaves->lanes[i].ids);
    }
    assert(leaves->spare_count == leaves->buffers_count);
    for (uint32_t i = 0; i < leaves->spare_count; i++)
        nn_floats_free(leaves->spare[i]);
    free(leaves->lanes);
    free(leaves->spare);
    free(leaves->nodes);
    free(leaves->leaf_nodes);
    free(leaves);
}

/* Lays the nodes of the subtree out in the array, the parent before its children. */
static uint32_t add_nodes(struct leaves *leaves, struct span span, uint32_t parent)
{
    uint32_t idx = leaves->nodes_count++;
    struct tree_node *node = &leaves->nodes[idx];
    uint32_t left;

    *node = (struct tree_node){.span = span, .parent = parent, .left = NO_NODE, .right = NO_NODE};
    if (span.count == 1) {
        leaves->leaf_nodes[span.first - leaves->span.first] = idx;
        return idx;
    }
    left = tree_split(span.count);
    node->left = add_nodes(leaves, (struct span){span.first, left}, idx);
    node->right = add_nodes(leaves, (struct span){span.first + left, span.count - left}, idx);
    return idx;
}

static void fill_batch(struct leaves *leaves, struct lane *lane, const struct nn_dataset *data,
                       uint32_t count, struct nn_batch *batch)
{
    int err =
        nn_dataset_gather(data, &leaves->config.normalize, lane->ids, count, lane->x, lane->labels);

    assert(err == 0); /* the caller has made sure that the samples are here */
    *batch = (struct nn_batch){.x = lane->x, .labels = lane->labels, .count = count};
}

static void compute_leaf(struct leaves *leaves, struct lane *lane, struct tree_node *node)
{
    const struct leaves_config *config = &leaves->config;
    uint32_t epoch = schedule_step(&config->schedule, leaves->step).epoch;
    struct slice slice = schedule_leaf(&config->schedule, leaves->step, node->span.first);
    struct nn_batch batch;
    struct nn_result result;

    for (uint32_t i = 0; i < slice.count; i++)
        lane->ids[i] = nn_order(config->seed, epoch, config->schedule.samples, slice.position + i);
    fill_batch(leaves, lane, config->train, slice.count, &batch);
    nn_gradient(lane->scratch, leaves->weights, &batch, node->grad, &result);
    node->sum = (struct leaves_sum){.loss = result.loss,
                                    .samples = result.count,
                                    .correct = result.correct,
                                    .finite = result.finite,
                                    .bad_leaf = node->span.first};
}

static void add_into(float *left, const float *right, size_t count)
{
    for (size_t i = 0; i < count; i++)
        left[i] += right[i];
}

/* Left and right are complete: the parent is their sum, in the left one's buffer. */
static void merge(struct leaves *leaves, struct tree_node *parent)
{
    struct tree_node *left = &leaves->nodes[parent->left];
    struct tree_node *right = &leaves->nodes[parent->right];

    add_into(left->grad, right->grad, leaves->parameters);
    parent->grad = left->grad;
    parent->sum = (struct leaves_sum){.loss = left->sum.loss + right->sum.loss,
                                      .samples = left->sum.samples + right->sum.samples,
                                      .correct = left->sum.correct + right->sum.correct,
                                      .finite = left->sum.finite && right->sum.finite,
                                      .bad_leaf = left->sum.finite ? right->sum.bad_leaf
                                                                   : left->sum.bad_leaf};
}

/* A node is computed: climbs as long as the sibling is complete too.  Called with the lock held;
 * the sums are added without it. */
static void complete(struct leaves *leaves, struct tree_node *node)
{
    for (;;) {
        struct tree_node *parent;

        node->done = true;
        if (node->parent == NO_NODE)
            return;
        parent = &leaves->nodes[node->parent];
        if (!leaves->nodes[parent->left].done || !leaves->nodes[parent->right].done)
            return;
        crew_unlock(leaves->crew);
        merge(leaves, parent);
        crew_lock(leaves->crew);
        leaves->spare[leaves->spare_count++] = leaves->nodes[parent->right].grad;
        node = parent;
    }
}

static void gradient_work(void *arg, uint32_t hand)
{
    struct leaves *leaves = arg;

    crew_lock(leaves->crew);
    while (leaves->next < leaves->span.count) {
        uint32_t leaf = leaves->next++;
        struct tree_node *node = &leaves->nodes[leaves->leaf_nodes[leaf]];

        if (leaf > 0) {
            assert(leaves->spare_count > 0);
            node->grad = leaves->spare[--leaves->spare_count];
        }
        crew_unlock(leaves->crew);
        compute_leaf(leaves, &leaves->lanes[hand], node);
        crew_lock(leaves->crew);
        complete(leaves, node);
    }
    crew_unlock(leaves->crew);
}

void leaves_gradient(struct leaves *leaves, const float *weights, uint64_t step, struct span span,
                     float *grad, struct leaves_sum *sum)
{
    assert(tree_has(schedule_step(&leaves->config.schedule, step).leaves, span));
    leaves->weights = weights;
    leaves->step = step;
    leaves->span = span;
    leaves->next = 0;
    leaves->nodes_count = 0;
    add_nodes(leaves, span, NO_NODE);
    leaves->nodes[leaves->leaf_nodes[0]].grad = grad;
    crew_run(leaves->crew, gradient_work, leaves);
    assert(leaves->nodes[0].done);
    assert(leaves->nodes[0].grad == grad);
    *sum = leaves->nodes[0].sum;
}

static void evaluate_work(void *arg, uint32_t hand)
{
    struct leaves *leaves = arg;
    struct lane *lane = &leaves->lanes[hand];
    const struct nn_dataset *test = leaves->config.test;
    struct nn_batch batch;

    for (;;) {
        struct slice slice;
        uint32_t leaf;

        crew_lock(leaves->crew);
        leaf = leaves->next++;
        crew_unlock(leaves->crew);
        if (leaf >= leaves->span.count)
            return;
        slice = schedule_eval_leaf(nn_dataset_count(test), leaves->span.first + leaf);
        for (uint32_t i = 0; i < slice.count; i++)
            lane->ids[i] = slice.position + i;
        fill_batch(leaves, lane, test, slice.count, &batch);
        nn_evaluate(lane->scratch, leaves->weights, &batch, &leaves->results[leaf]);
    }
}

void leaves_evaluate(struct leaves *leaves, const float *weights, struct span span,
                     struct nn_result *results)
{
    leaves->weights = weights;
    leaves->span = span;
    leaves->next = 0;
    leaves->results = results;
    crew_run(leaves->crew, evaluate_work, leaves);
}
