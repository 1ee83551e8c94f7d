/* SPDX-License-Identifier: MIT */
#include <cluster/bytes.h>
#include <node/state.h>

#include <assert.h>
#include <string.h>

static uint64_t sample_at(const struct worker *worker, const struct assignment *assignment,
                          uint64_t position)
{
    const struct schedule *schedule = &worker->engine.schedule;

    if (assignment->kind == JOB_EVALUATE)
        return position;
    return nn_order(worker->welcome.seed, schedule_step(schedule, assignment->step).epoch,
                    schedule->samples, position);
}

static struct slice positions_of(const struct worker *worker, const struct assignment *assignment,
                                 uint32_t leaf)
{
    if (assignment->kind == JOB_EVALUATE)
        return schedule_eval_leaf(worker->welcome.test.count, leaf);
    return schedule_leaf(&worker->engine.schedule, assignment->step, leaf);
}

/* Are all samples of all its parts here?  Computing starts only then: samples never arrive while
 * their set is being read. */
static bool samples_here(const struct worker *worker, const struct assignment *assignment)
{
    const struct nn_dataset *data =
        assignment->kind == JOB_EVALUATE ? worker->engine.test : worker->engine.train;

    for (size_t part = 0; part < assignment->parts_count; part++) {
        struct span span = assignment->parts[part];

        for (uint32_t leaf = span.first; leaf < span.first + span.count; leaf++) {
            struct slice slice = positions_of(worker, assignment, leaf);

            for (uint32_t i = 0; i < slice.count; i++)
                if (!nn_dataset_has(data, sample_at(worker, assignment, slice.position + i)))
                    return false;
        }
    }
    return true;
}

static uint32_t leaves_of(const struct worker *worker, const struct message *head)
{
    const struct schedule *schedule = &worker->engine.schedule;

    if (head->kind == MSG_EVAL)
        return worker->engine.test ? (uint32_t)schedule_eval_leaves(worker->welcome.test.count) : 0;
    return head->step < schedule_steps(schedule) ? schedule_step(schedule, head->step).leaves : 0;
}

void work_assign(struct worker *worker, const struct message *head)
{
    uint32_t leaves = leaves_of(worker, head);
    struct span span = {head->first, head->count};
    struct assignment *assignment;

    if (head->kind == MSG_STEP && span.count == 0) {
        weights_expect(worker, head->step);
        return;
    }
    if (span.count == 0 || span.count > leaves || span.first > leaves - span.count ||
        worker->assignments_count == ASSIGNMENTS_MAX) {
        worker_give_up(worker, "an assignment that does not fit the run");
        return;
    }
    assignment = &worker->assignments[worker->assignments_count++];
    memset(assignment, 0, sizeof *assignment);
    assignment->kind = head->kind == MSG_EVAL ? JOB_EVALUATE : JOB_GRADIENT;
    assignment->view = head->view;
    assignment->step = head->step;
    if (assignment->kind == JOB_EVALUATE) {
        assignment->parts[0] = span;
        assignment->parts_count = 1;
    } else {
        assignment->parts_count = tree_parts(leaves, span, assignment->parts);
    }
}

static bool labels_fit(const struct worker *worker, const struct body_samples *samples)
{
    size_t at = samples->sample_bytes - sizeof(uint32_t); /* the label stands last */

    for (uint32_t i = 0; i < samples->count; i++) {
        struct wire_reader label = wire_reader(body_samples_at(samples, i) + at, sizeof(uint32_t));

        if (read_u32(&label) >= nn_model_outputs(worker->engine.model))
            return false;
    }
    return true;
}

void work_samples(struct worker *worker, const struct input *input)
{
    struct body_samples samples;
    struct nn_dataset *data;

    if (!body_samples_decode(&samples, input->body, input->body_len))
        return;
    data = samples.which == BODY_TEST ? worker->engine.test : worker->engine.train;
    if (!data || samples.sample_bytes != nn_dataset_sample_bytes(data)) {
        worker_give_up(worker, "samples of another size");
        return;
    }
    if (!labels_fit(worker, &samples)) {
        worker_give_up(worker, "samples with labels that the model has no output for");
        return;
    }
    for (uint32_t i = 0; i < samples.count; i++) {
        uint64_t id = body_samples_id(&samples, i);

        if (id < nn_dataset_count(data) && !nn_dataset_has(data, id))
            nn_dataset_put(data, id, body_samples_at(&samples, i));
    }
}

static void drop_first(struct worker *worker)
{
    worker->assignments_count--;
    memmove(&worker->assignments[0], &worker->assignments[1],
            worker->assignments_count * sizeof worker->assignments[0]);
}

static bool start_job(struct worker *worker, struct assignment *assignment)
{
    const float *weights = weights_held(worker, assignment->step);
    struct job *job = &worker->job;

    if (!weights)
        return false;
    if (!assignment->samples_here)
        assignment->samples_here = samples_here(worker, assignment);
    if (!assignment->samples_here)
        return false;
    worker->job_out = outs_take(worker);
    if (!worker->job_out)
        return false;
    worker->job_out->state = OUT_COMPUTING;
    worker->job_view = assignment->view;
    job->kind = assignment->kind;
    job->engine = &worker->engine;
    job->weights = weights;
    job->step = assignment->step;
    job->span = assignment->parts[assignment->next++];
    job->body = worker->job_out->bytes;
    worker->busy = true;
    worker->stale = false;
    actions_add(worker->out, ACT_COMPUTE)->job = job;
    return true;
}

void work_advance(struct worker *worker)
{
    while (!worker->busy && worker->assignments_count > 0) {
        struct assignment *first = &worker->assignments[0];

        /* The cluster has moved on without us. */
        if (first->step < worker->newest || first->next == first->parts_count) {
            drop_first(worker);
            continue;
        }
        if (!start_job(worker, first))
            break;
    }
    weights_recycle(worker);
}

void work_done(struct worker *worker)
{
    const struct job *job = &worker->job;
    struct out *out = worker->job_out;
    struct message head = {.kind = job->kind == JOB_EVALUATE ? MSG_EVALUATED : MSG_PARTIAL,
                           .view = worker->job_view,
                           .step = job->step,
                           .first = job->span.first,
                           .count = job->span.count,
                           .hash = job->hash};

    assert(out->state == OUT_COMPUTING);
    worker->job_out = NULL;
    if (worker->stale || worker->state != WORKER_READY) {
        out->state = OUT_FREE;
        return;
    }
    if (job->kind == JOB_GRADIENT && !job->finite)
        head.aux = job->bad_leaf;
    out->state = OUT_SENDING;
    worker_send(worker, head, out->bytes, job->body_len, out);
}
