/* SPDX-License-Identifier: Apache-2.0 */
/* verify_parts.h - the inside of verify, shared by verify*.c only */
#ifndef ENGINE_VERIFY_PARTS_H
#define ENGINE_VERIFY_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine/verify.h"

struct err;
struct layout;
struct model_config;
struct model_limits;
struct optim_config;
struct schedule;
struct st_file;
struct st_tensor;

/* A case in hand. */
struct verify_case_files {
    json_t         *config;
    struct st_file *golden;
    struct st_file *ref64;     /* or NULL */
    struct st_file *optstate;  /* or NULL */
    const char     *path;      /* of the JSON */
    const char     *run;       /* what `golden` is a run of, in front of names; or NULL */
    FILE           *each;      /* or NULL */
};

enum verify_kind {
    VERIFY_OUTPUT,      /* largest difference, against 1 or the largest number */
    VERIFY_LOSS,        /* relative difference of each number */
    VERIFY_GRADIENT,    /* L2 of the difference over L2 of the tensor */
    VERIFY_GRADIENT_QK, /* the same where the true gradient nearly cancels */
    VERIFY_NORM,        /* relative difference of a gradient norm */
    VERIFY_ADAMW,       /* L2 of the difference over L2 of what the steps changed */
    VERIFY_CAME,
    VERIFY_STATE_ADAMW, /* relative L2 of optimizer state */
    VERIFY_STATE_CAME,
    VERIFY_EXACT,       /* same bits */
    VERIFY_KINDS
};

/* One comparison. `scale`: for gradients the norm of all of them, for updates the
 * norm of the update of this tensor; else unused. */
struct verify_row {
    const char      *name;
    enum verify_kind kind;
    const float     *ours;
    const double    *want;
    size_t           count;
    double           scale;
};

/* Counts the comparison into the result, with the JSON's tolerance if it has one. */
void verify_compare(struct verify_result *result, const struct verify_case_files *files,
                    const struct verify_row *row);
/* The same with the tensor `name` of the case. */
int verify_check(struct verify_result *result, const struct verify_case_files *files,
                 const char *name, enum verify_kind kind, const float *ours, size_t count,
                 double scale, struct err *err);

/* The tensor `name` as doubles (freed by the caller), from ref64 where it is there and
 * the name is not an input. NULL with an error when it is missing or not `count` long. */
double *verify_want(const struct verify_case_files *files, const char *name, size_t count,
                    struct err *err);
/* An input as floats, likewise. */
float *verify_floats(const struct verify_case_files *files, const char *name, size_t count,
                     struct err *err);

/* verify_optim.c: "step0.*" and on */
int verify_optim(struct verify_result *result, const struct verify_case_files *files,
                 const struct model_config *cfg, struct err *err);

/* verify.c: CASE.json to CASE.`suffix` */
int verify_open_beside(struct st_file **out, const char *json_path, const char *suffix,
                       bool needed, struct err *err);

/* verify_load.c: weights into a block, sizes of a batch from the shapes under `prefix`. The names of
 * weights begin with `prefix`; with "" those are weights that are nothing else. */
int verify_load_weights(float *weights, const struct layout *l,
                        const struct verify_case_files *files, const char *prefix,
                        struct err *err);
int verify_limits(struct model_limits *max, const struct verify_case_files *files,
                  const char *x_name, const char *y_name, const struct model_config *cfg,
                  struct err *err);
/* train.optimizer and train.gradient_clip of the JSON. Without an optimizer section *opt is AdamW
 * with the authors' defaults. */
int verify_optimizer(struct optim_config *opt, const json_t *config, struct err *err);
/* train.lr_schedule; *known false: it is of a kind whose rates only the case itself can tell. */
int verify_schedule(struct schedule *lr, bool *known, const json_t *config, struct err *err);
double verify_flow_shift(const json_t *config);

/* One training batch of the case, inputs owned. */
struct verify_batch {
    float         *x0, *noise, *y, *mask;
    int           *t_index;
    unsigned char *drop;
};
int verify_batch_load(struct verify_batch *b, const struct verify_case_files *files,
                      const char *prefix, const struct model_limits *size,
                      const struct model_config *cfg, struct err *err);
void verify_batch_free(struct verify_batch *b);

#endif
