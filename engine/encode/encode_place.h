/* SPDX-License-Identifier: Apache-2.0 */
/* encode_place.h - where the cache of a data set is, and whether it can be made
 *
 * train.data.cache, else beside the data: DIR.encoded for a folder DIR, and for a single file DIR/x.tar, so that
 * nothing is written into a folder of data.
 */
#ifndef ENGINE_ENCODE_ENCODE_PLACE_H
#define ENGINE_ENCODE_ENCODE_PLACE_H

#include <stdbool.h>

struct err;
struct train_spec;

enum { ENCODE_PLACE = 1100 };

void encode_place_name(char out[ENCODE_PLACE], const struct train_spec *s);

/* Checks that `cache` can be made, by making a directory of another name, which is removed at once. `fill`: an existing
 * cache must take more files. ERR_USAGE: it cannot; the sentence begins with the key. */
int encode_place_check(const char *cache, bool fill, struct err *err);

#endif
