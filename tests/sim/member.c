/* SPDX-License-Identifier: MIT */
#include "member.h"

#include "plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* As long as host.c takes for what is under way when the step function is done. */
static const uint64_t flush_ns = 2000000000;

static struct actions actions; /* large; one member moves at a time */

static void draw_entropy(uint64_t seed, uint8_t out[32])
{
    for (int i = 0; i < 4; i++) {
        uint64_t word = plan_random(&seed);

        memcpy(out + 8 * i, &word, sizeof word);
    }
}

/* ---------- actions ---------- */

static void begin_job(struct member *member, void *job, uint64_t now_ns)
{
    uint64_t begins = now_ns;
    double cost = member->slowness * (double)(plan_random(&member->random) % 100000);

    assert(member->jobs_count < MEMBER_JOBS_MAX);
    if (member->jobs_count > 0)
        begins = member->jobs[member->jobs_count - 1].done_ns;
    member->jobs[member->jobs_count++] =
        (struct member_job){.job = job, .done_ns = begins + 1000 + (uint64_t)cost};
}

static void perform(struct member *member, const struct action *action, uint64_t now_ns)
{
    switch (action->kind) {
    case ACT_COMPUTE:
        begin_job(member, action->job, now_ns);
        break;
    case ACT_EVENT:
        member->client.on_event(member->client.state, action->text, now_ns);
        break;
    case ACT_RECORD:
        member->client.on_record(member->client.state, action->record, now_ns);
        break;
    case ACT_EXIT:
        member->exited = true;
        member->code = action->code;
        memcpy(member->text, action->text, sizeof member->text);
        break;
    case ACT_CONNECT:
    case ACT_CLOSE:
    case ACT_ABORT:
    case ACT_SEND:
    case ACT_POST:
    case ACT_UNPOST:
        watch_action(&member->watch, action);
        wire_perform(member->wire, action, now_ns);
        break;
    }
}

static void step(struct member *member, const struct input *input, uint64_t now_ns)
{
    watch_input(&member->watch, input, now_ns);
    if (member->exited)
        return;
    actions.count = 0;
    member->client.step(member->client.state, input, now_ns, &actions);
    for (size_t i = 0; i < actions.count; i++)
        perform(member, &actions.items[i], now_ns);
    if (!member->exited)
        return;
    member->leave_ns = now_ns + flush_ns;
    wire_close_all(member->wire, flush_ns, now_ns);
}

/* ---------- a turn ---------- */

static void finish_jobs(struct member *member, uint64_t now_ns)
{
    while (member->jobs_count > 0 && member->jobs[0].done_ns <= now_ns && !member->exited) {
        struct input input = {.kind = IN_COMPUTED, .job = member->jobs[0].job};

        member->jobs_count--;
        memmove(member->jobs, member->jobs + 1, member->jobs_count * sizeof *member->jobs);
        /* At its end: what it reads must have stayed as it was all the while. */
        member->client.run(member->client.state, input.job);
        step(member, &input, now_ns);
    }
}

bool member_arrival(struct member *member, const struct rdt_arrival *arrival, uint64_t now_ns)
{
    return watch_arrival(&member->watch, member->ep, arrival, now_ns);
}

void member_turn(struct member *member, uint64_t now_ns)
{
    struct input input;

    if (rdt_deadline(member->ep) <= now_ns)
        rdt_on_timeout(member->ep, now_ns);
    while (wire_next(member->wire, &input, now_ns))
        step(member, &input, now_ns);
    finish_jobs(member, now_ns);
    if (!member->exited && member->client.deadline(member->client.state) <= now_ns)
        step(member, &(struct input){.kind = IN_TIME}, now_ns);
    if (member->exited && wire_connections(member->wire) == 0)
        watch_end(&member->watch, member->ep);
}

uint64_t member_deadline(const struct member *member)
{
    uint64_t at = rdt_deadline(member->ep);
    uint64_t asked = member->leave_ns;

    if (!member->exited)
        asked = member->client.deadline(member->client.state);
    if (asked < at)
        at = asked;
    if (!member->exited && member->jobs_count > 0 && member->jobs[0].done_ns < at)
        at = member->jobs[0].done_ns;
    return at;
}

bool member_is_done(const struct member *member, uint64_t now_ns)
{
    bool silent = wire_connections(member->wire) == 0 && rdt_deadline(member->ep) == UINT64_MAX;

    return member->exited && (silent || now_ns >= member->leave_ns);
}

void member_stop(struct member *member, uint64_t now_ns)
{
    step(member, &(struct input){.kind = IN_STOP}, now_ns);
}

/* ---------- life ---------- */

void member_start(struct member *member, const struct member_config *config, uint64_t now_ns)
{
    struct rdt_config rdt = {.size = sizeof rdt,
                             .listen = config->listen,
                             .connections_max = config->listen ? 24 : 2,
                             .pool_bytes = config->listen ? 4 << 20 : 1 << 20};

    memset(member, 0, sizeof *member);
    member->name = config->name;
    member->addr = config->addr;
    member->client = config->client;
    member->slowness = config->slowness;
    member->random = config->seed;
    draw_entropy(config->seed, rdt.entropy);
    assert(rdt.connections_max <= WATCH_SLOTS);
    if (rdt_open(&member->ep, &rdt) < 0 || wire_open(&member->wire, member->ep) < 0) {
        fprintf(stderr, "%s: out of memory\n", config->name);
        abort();
    }
    member->running = true;
    member_turn(member, now_ns);
}

void member_end(struct member *member)
{
    if (!member->running)
        return;
    member->running = false;
    wire_free(member->wire);
    rdt_free(member->ep);
}
