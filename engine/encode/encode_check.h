/* SPDX-License-Identifier: Apache-2.0 */
/* encode_check.h - what a spec names for its data besides the samples: encoders, instruction, sizes, cache
 *
 * The same check serves jobctl submit, plan and doctor, and the run. It reads headers and configurations, not data.
 */
#ifndef ENGINE_ENCODE_ENCODE_CHECK_H
#define ENGINE_ENCODE_ENCODE_CHECK_H

struct encoder_pair;
struct err;
struct train_spec;

/* Checks data to be encoded, and features in shards; other data passes. The error begins with the key.
 * ERR_NOT_FOUND: an encoder on a hub is not in the cache; all that can be checked without it was. */
int encode_check(const struct train_spec *s, struct err *err);

/* The same for encoders that encoder_pair_find() has found. */
int encode_check_found(const struct encoder_pair *e, const struct train_spec *s, struct err *err);

#endif
