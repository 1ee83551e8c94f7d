/* SPDX-License-Identifier: MIT */
#include <cluster/schedule.h>

#include <assert.h>

static uint64_t pieces(uint64_t whole, uint64_t piece)
{
    return whole / piece + (whole % piece != 0);
}

/* The idx-th piece of a whole that is cut into equal pieces, the last one short. */
static struct slice piece_of(uint64_t whole, uint32_t piece, uint64_t idx)
{
    uint64_t start = idx * piece;
    uint64_t rest;

    assert(start < whole);
    rest = whole - start;
    return (struct slice){.position = start, .count = rest < piece ? (uint32_t)rest : piece};
}

uint64_t schedule_epoch_steps(const struct schedule *schedule)
{
    assert(schedule->batch > 0);
    return schedule->drop_last ? schedule->samples / schedule->batch
                               : pieces(schedule->samples, schedule->batch);
}

uint64_t schedule_steps(const struct schedule *schedule)
{
    return schedule_epoch_steps(schedule) * schedule->epochs;
}

struct schedule_step schedule_step(const struct schedule *schedule, uint64_t step)
{
    uint64_t steps = schedule_epoch_steps(schedule);
    struct schedule_step out;

    assert(step < schedule_steps(schedule));
    out.epoch = (uint32_t)(step / steps);
    out.last_of_epoch = step % steps == steps - 1;
    out.slice = piece_of(schedule->samples, schedule->batch, step % steps);
    out.leaves = (uint32_t)pieces(out.slice.count, schedule->leaf);
    return out;
}

struct slice schedule_leaf(const struct schedule *schedule, uint64_t step, uint32_t leaf)
{
    struct slice batch = schedule_step(schedule, step).slice;
    struct slice out = piece_of(batch.count, schedule->leaf, leaf);

    out.position += batch.position;
    return out;
}

uint32_t schedule_leaves_max(const struct schedule *schedule)
{
    uint64_t batch = schedule->batch < schedule->samples ? schedule->batch : schedule->samples;

    return (uint32_t)pieces(batch, schedule->leaf);
}

uint64_t schedule_eval_leaves(uint64_t samples)
{
    return pieces(samples, SCHEDULE_EVAL_LEAF);
}

struct slice schedule_eval_leaf(uint64_t samples, uint32_t leaf)
{
    return piece_of(samples, SCHEDULE_EVAL_LEAF, leaf);
}
