/* SPDX-License-Identifier: Apache-2.0 */
/* train_encode.h - encodes pictures and captions into a cache before training, by all ranks (engine/encode)
 *
 * It runs before any memory of the model is allocated. Each rank encodes its share; training starts when nothing is
 * missing. If another job fills the same cache, the run waits for it and names it. The agent gets messages "encoding"
 * (progress.h); on the flight page the phase is "data", and the work done is this rank's number of pictures or
 * captions.
 */
#ifndef ENGINE_TRAIN_TRAIN_ENCODE_H
#define ENGINE_TRAIN_TRAIN_ENCODE_H

struct train;

/* Opens t->data. */
int train_encode(struct train *t);

#endif
