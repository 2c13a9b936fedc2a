/* SPDX-License-Identifier: Apache-2.0 */
/* weights_choice.h - which file of a folder to take, if it has the same weights in several forms
 *
 * An index of safetensors hides a single file of them, which hides an index of other shards, and so on down to .bin;
 * "x.fp16.safetensors" is a smaller copy of "x.safetensors".
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_HUB_WEIGHTS_CHOICE_H
#define ENGINE_HUB_WEIGHTS_CHOICE_H

#include <limits.h>
#include <stdbool.h>

/* Begin with zeros. */
struct weights_choice {
    int  form;  /* 0: no weights yet; of two forms the larger number is taken */
    int  files; /* of this form, variants apart */
    char name[NAME_MAX + 1];
};

/* One more file of the folder, shards included, by its name. */
void weights_choice_add(struct weights_choice *c, const char *name);
/* ".safetensors" of the form that was chosen */
const char *weights_choice_ending(const struct weights_choice *c);
/* Whether `name` is weights of any form, shards and indexes included. */
bool weights_choice_is_weights(const char *name);
/* Whether a shard, by its name, belongs to this index; *number of *total, from 1. */
bool weights_choice_is_shard(const char *index, const char *name, int *number, int *total);

#endif
