/* SPDX-License-Identifier: Apache-2.0 */
/* recipe_rows.h - every key of a configuration of NVlabs/Sana, and its treatment */
#ifndef CONTROLLER_SPEC_RECIPE_ROWS_H
#define CONTROLLER_SPEC_RECIPE_ROWS_H

enum recipe_fate {
    RECIPE_TAKE,   /* the value of `ours` */
    RECIPE_MUST,   /* one of `ours`, separated by | */
    RECIPE_NOTHING, /* no effect: logs, files of their program, settings that are other keys of a job */
    RECIPE_MAKE    /* translated in recipe.c */
};

struct recipe_row {
    const char      *path; /* "train.optimizer.lr"; ending in ".": all keys below */
    enum recipe_fate fate;
    const char      *ours; /* a path of ours without "train.", or values */
};

/* NULL: unknown. */
const struct recipe_row *recipe_row_find(const char *path);
/* What another value would mean for a key that must have a fixed value; NULL: the key's name is clear. */
const char *recipe_meaning(const char *path);
/* "SanaMS_600M_P1_D28" to "sana-600m", "CAMEWrapper" to "came"; NULL: not supported. */
const char *recipe_preset(const char *model);
const char *recipe_optimizer(const char *type);

#endif
