/* SPDX-License-Identifier: Apache-2.0 */
/* encode_check.h - what a spec names for its data besides the samples: encoders, instruction, sizes, cache
 *
 * The same check for all who look at a spec: jobctl submit, plan and doctor, and the run.  It reads headers and
 * configurations, not data.
 */
#ifndef ENGINE_ENCODE_ENCODE_CHECK_H
#define ENGINE_ENCODE_ENCODE_CHECK_H

struct encoder_pair;
struct err;
struct train_spec;

/* Of data that is encoded, and of features in shards; any other data passes. A sentence that begins with the key.
 * ERR_NOT_FOUND: an encoder on a hub is not in the cache; all that can be checked without it was. */
int encode_check(const struct train_spec *s, struct err *err);

/* The same of encoders that encoder_pair_find() has found. */
int encode_check_found(const struct encoder_pair *e, const struct train_spec *s, struct err *err);

#endif
