/* SPDX-License-Identifier: MIT */
#include <coordinator/commit.h>

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct committer {
    size_t parameters;
    struct nn_optim optim;
    float *grad;
    float *state;
};

int committer_open(struct committer **out, size_t parameters, const struct nn_optim *optim)
{
    struct committer *committer = calloc(1, sizeof *committer);

    if (!committer)
        return NN_ENOMEM;
    committer->parameters = parameters;
    committer->optim = *optim;
    committer->grad = nn_floats(parameters);
    committer->state = nn_floats(parameters * nn_optim_vectors(optim) + 1);
    if (!committer->grad || !committer->state) {
        committer_free(committer);
        return NN_ENOMEM;
    }
    *out = committer;
    return 0;
}

void committer_free(struct committer *committer)
{
    if (!committer)
        return;
    nn_floats_free(committer->grad);
    nn_floats_free(committer->state);
    free(committer);
}

static bool all_finite(const float *floats, size_t count)
{
    uint32_t bad = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &floats[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

static const float *gradient_of(struct committer *committer, const struct commit *commit)
{
    /* One node computed the whole tree: its sum is the sum. */
    if (commit->partials_count == 1)
        return commit->partials[0].floats;
    tree_sum(commit->leaves, commit->partials, commit->partials_count, 0, committer->parameters,
             committer->grad);
    return committer->grad;
}

void commit_run(struct committer *committer, struct commit *commit)
{
    size_t count = committer->parameters;
    const float *grad;

    assert(tree_covered(commit->leaves, commit->partials, commit->partials_count));
    assert(commit->next != commit->weights);
    nn_thread_init();
    commit->loss = tree_sum_loss(commit->leaves, commit->partials, commit->partials_count) /
                   (double)commit->samples;
    grad = gradient_of(committer, commit);
    memcpy(commit->next, commit->weights, count * sizeof *commit->next);
    nn_optim_apply(&committer->optim, commit->step + 1, commit->samples, count, commit->next, grad,
                   committer->state);
    commit->finite = isfinite(commit->loss) && all_finite(commit->next, count);
    nn_weights_hash(commit->next, count, commit->hash);
}
