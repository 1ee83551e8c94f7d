/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_REMOTE_H
#define COORDINATOR_REMOTE_H

/* Training over nodes: the step function of coord.h on the host loop. */

#include <coordinator/session.h>
#include <coordinator/standalone.h>
#include <rdt/link.h>

/* What is known before anything heavy: where to listen, what to impair. */
struct remote_config {
    struct rdt_addr bind;
    char bind_text[128]; /* as the user wrote it */
    bool impaired;
    struct rdt_link_config impair;
};

/* Reads --listen and --impair.  0 or an exit code with one line in `why`. */
int remote_config(struct remote_config *config, const struct args *args, char *why, size_t cap);

/* Trains; `nodes` are the local ones, forked but not started (count 0: none).  Returns the exit
 * code. */
int remote_train(struct session *session, const struct remote_config *config,
                 struct standalone *nodes);

#endif
