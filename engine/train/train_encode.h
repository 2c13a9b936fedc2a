/* SPDX-License-Identifier: Apache-2.0 */
/* train_encode.h - the phase of a run in which its ranks encode pictures and captions into a cache (engine/encode)
 *
 * Before anything of the model is allocated. Each rank encodes its share; they go on when nothing is missing.  Another
 * job that fills the same cache is waited for, and named.  The agent is told in messages "encoding" (progress.h); on the
 * flight page the phase is "data", and its work done the pictures or captions of this rank.
 */
#ifndef ENGINE_TRAIN_TRAIN_ENCODE_H
#define ENGINE_TRAIN_TRAIN_ENCODE_H

struct train;

/* Opens t->data. */
int train_encode(struct train *t);

#endif
