/* SPDX-License-Identifier: MIT */

/* Whether there are nodes enough to go on.  Steps are handed out while there are; a commit under
 * way needs none. */

#include <coordinator/state.h>

#include <cluster/text.h>

#include <inttypes.h>

static uint32_t able(const struct coord *coord)
{
    uint32_t count = 0;

    for (size_t i = 0; i < MEMBERS_MAX; i++)
        count += member_is_able(&coord->members[i]);
    return count;
}

static void wait_for_nodes(struct coord *coord, uint32_t nodes)
{
    coord->waiting = true;
    coord->wait_until = coord->now + coord->config.wait_ns;
    text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                "waiting nodes=%" PRIu32 " min_nodes=%" PRIu32 " seconds=%" PRIu64 " step=%" PRIu64
                " reason=too-few-nodes",
                nodes, coord->config.min_nodes, coord->config.wait_ns / 1000000000, coord->step);
}

static void give_up(struct coord *coord, uint32_t nodes)
{
    char text[ACTION_TEXT_MAX];

    text_format(text, sizeof text,
                "%s; %" PRIu32 " of at least %" PRIu32 " nodes left, no other came within "
                "%" PRIu64 " s",
                coord->last_lost, nodes, coord->config.min_nodes,
                coord->config.wait_ns / 1000000000);
    coord_finish(coord, EXIT_NODES, text);
}

void quorum_check(struct coord *coord)
{
    uint32_t nodes = able(coord);

    if (!coord_is_running(coord)) {
        coord->waiting = false;
        return;
    }
    if (nodes >= coord->config.min_nodes) {
        if (coord->waiting)
            text_format(coord_event(coord)->text, ACTION_TEXT_MAX,
                        "resumed nodes=%" PRIu32 " step=%" PRIu64 " reason=enough-nodes", nodes,
                        coord->step);
        coord->waiting = false;
        return;
    }
    if (coord->stopping && coord->phase != PHASE_COMMIT)
        coord_finish(coord, EXIT_STOPPED, "stopped by the user");
    else if (!coord->waiting)
        wait_for_nodes(coord, nodes);
    else if (coord->now >= coord->wait_until)
        give_up(coord, nodes);
}
