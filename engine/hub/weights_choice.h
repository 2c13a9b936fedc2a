/* SPDX-License-Identifier: Apache-2.0 */
/* weights_choice.h - which file of a folder to use if it has the same weights in several forms
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
    int  form;  /* 0: no weights yet; the form with the larger number is preferred */
    int  files; /* files of this form, not counting variants */
    char name[NAME_MAX + 1];
};

/* Adds one file of the folder by its name, shards included. */
void weights_choice_add(struct weights_choice *c, const char *name);
/* Suffix of the chosen form, such as ".safetensors" */
const char *weights_choice_ending(const struct weights_choice *c);
/* Is `name` a file of weights in any form, including shards and indexes? */
bool weights_choice_is_weights(const char *name);
/* Does a shard, by its name, belong to this index? Its number *number of *total, from 1. */
bool weights_choice_is_shard(const char *index, const char *name, int *number, int *total);

#endif
