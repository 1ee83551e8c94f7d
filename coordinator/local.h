/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_LOCAL_H
#define COORDINATOR_LOCAL_H

/* Training and evaluation in this process: the jobs of a node and of the coordinator, one after
 * the other, without messages. */

#include <coordinator/session.h>

/* Trains; returns the exit code. */
int local_train(struct session *session, uint32_t threads);

/* Loss (mean) and number right over the test set. */
int local_evaluate(const struct setup *setup, const float *weights, uint32_t threads, double *loss,
                   uint64_t *correct);

#endif
