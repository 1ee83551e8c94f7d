/* SPDX-License-Identifier: MIT */
#ifndef NN_DATASET_H
#define NN_DATASET_H

/*
 * What a reader of a file format may do to a dataset beyond nn.h.
 */

#include "nn/nn.h"

/* The place of sample id, to be filled with the image bytes and the label (u32 LE), before other
 * threads know of the dataset.  From then on the sample counts as held. */
uint8_t *dataset_place(struct nn_dataset *data, uint64_t id);

#endif
