/* SPDX-License-Identifier: MIT */
#include <cluster/step.h>

#include <assert.h>
#include <string.h>

struct action *actions_add(struct actions *actions, enum action_kind kind)
{
    struct action *action;

    assert(actions->count < ACTIONS_MAX);
    action = &actions->items[actions->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}
