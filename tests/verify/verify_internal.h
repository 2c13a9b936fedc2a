/* SPDX-License-Identifier: Apache-2.0 */
/* verify_internal.h - internals of verify, shared by verify*.c only */
#ifndef TESTS_VERIFY_VERIFY_INTERNAL_H
#define TESTS_VERIFY_VERIFY_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tests/verify/verify.h"

struct err;
struct layout;
struct model;
struct model_config;
struct model_limits;
struct st_file;
struct st_tensor;
struct vae_config;

/* The current case. */
struct verify_case_files {
    json_t         *config;
    struct st_file *golden;
    struct st_file *ref64;     /* or NULL */
    struct st_file *optstate;  /* or NULL */
    const char     *path;      /* of the JSON */
    const char     *run;       /* the run that `golden` belongs to, for names; or NULL */
    FILE           *each;      /* or NULL */
};

enum verify_kind {
    VERIFY_OUTPUT,      /* largest difference, against 1 or the largest number */
    VERIFY_LOSS,        /* relative difference of each number */
    VERIFY_GRADIENT,    /* L2 of the difference over L2 of the tensor */
    VERIFY_GRADIENT_QK, /* the same for a true gradient that nearly cancels */
    VERIFY_NORM,        /* relative difference of a gradient norm */
    VERIFY_ADAMW,       /* L2 of the difference over L2 of the change by the steps */
    VERIFY_CAME,
    VERIFY_STATE_ADAMW, /* relative L2 of optimizer state */
    VERIFY_STATE_CAME,
    VERIFY_GRADIENT_ZERO, /* for true zeros: L2 of the rounding over that of all gradients */
    VERIFY_RATES,       /* largest difference of one weight, over the learning rate: a loose bound */
    VERIFY_TEXT,        /* relative L2 of an encoder's vectors */
    VERIFY_PICTURE,     /* relative L2 of what an autoencoder makes */
    VERIFY_EXACT,       /* same bits */
    VERIFY_KINDS
};

/* One comparison. `scale`: for gradients the norm of all of them, for updates the
 * norm of the update of this tensor, or the learning rate; else unused. */
struct verify_row {
    const char      *name;
    enum verify_kind kind;
    const float     *ours;
    const double    *want;
    size_t           count;
    double           scale;
};

/* Counts the comparison into the result, with the JSON's tolerance if it has one. */
void verify_compare(struct verify_result *result, const struct verify_case_files *files, const struct verify_row *row);
/* The scale of VERIFY_ADAMW: the update's norm `change`, and the noise that the tolerance allows:
 * the rounding of stored weights, and one element whose gradient nearly cancels. `step`: a full
 * step. */
double verify_update_scale(const double *want, size_t count, double change, double step);
/* L2 norm of the change from `start` to `want`: the scale of VERIFY_ADAMW and _CAME. */
double verify_change(const double *want, const float *start, size_t count);
/* One exact comparison: the number of differences. */
void verify_count(struct verify_result *result, const struct verify_case_files *files, const char *name, int differ);
/* verify_compare() with the tensor `name` of the case. */
int verify_check(struct verify_result *result, const struct verify_case_files *files, const char *name,
                 enum verify_kind kind, const float *ours, size_t count, double scale, struct err *err);

/* The tensor `name` as doubles (freed by the caller), from ref64 if it is there and
 * the name is not an input. NULL with an error if it is missing or not `count` long. */
double *verify_want(const struct verify_case_files *files, const char *name, size_t count, struct err *err);
/* An input as floats, likewise. */
float *verify_floats(const struct verify_case_files *files, const char *name, size_t count, struct err *err);

/* verify_nextdit.c: a case of Next-DiT. verify_nextdit_train.c: its runs of the optimizer */
int verify_nextdit(struct verify_result *result, const struct verify_case_files *files,
                   const struct model_config *cfg, struct err *err);
int verify_nextdit_train(struct verify_result *result, const struct verify_case_files *files,
                         const struct model_config *cfg, struct err *err);

/* verify_gemma.c: kinds "gemma1" and "gemma2" */
int verify_gemma(struct verify_result *result, const struct verify_case_files *files, int version, struct err *err);

/* verify_vae.c: kinds "dcae" and "sdxl-vae" */
int verify_vae(struct verify_result *result, const struct verify_case_files *files, bool dcae, struct err *err);
/* verify_vae_config.c: width_list, block_type, ... of DC-AE, block_out_channels, ... of AutoencoderKL. ERR_DATA names the
 * key that is missing or impossible. */
int verify_vae_config(struct vae_config *out, bool dcae, const json_t *config, struct err *err);
/* verify_vae_names.c: kind "names-table", of an autoencoder */
bool verify_is_vae_table(const struct verify_case_files *files);
int verify_vae_names(struct verify_result *result, const struct verify_case_files *files, struct err *err);

/* verify_tokenizer.c: kind "tokenizer" */
int verify_tokenizer(struct verify_result *result, const struct verify_case_files *files, struct err *err);

/* verify_resize.c: kind "resize". verify_data.c: kind "data" */
int verify_resize(struct verify_result *result, const struct verify_case_files *files, struct err *err);
int verify_data(struct verify_result *result, const struct verify_case_files *files, struct err *err);

/* verify_pth.c: kind "pth", and lists of files that must be refused */
int verify_pth(struct verify_result *result, const struct verify_case_files *files, struct err *err);

/* verify_names.c: kinds "names" and "names-table" */
int verify_names(struct verify_result *result, const struct verify_case_files *files, struct err *err);

/* The sizes of a SanaMS whose case has them without sections. */
void verify_flat_config(struct model_config *c, const json_t *config, int channels);

/* verify_lora.c: kind "lora" */
int verify_lora(struct verify_result *result, const struct verify_case_files *files, struct err *err);

/* verify_rule.c: weights of a case that contains a rule instead of weights */
int verify_rule_weights(float *weights, const struct layout *l, const json_t *rule, struct err *err);
/* One tensor by its name, of any shape. */
int verify_rule_tensor(float *to, const json_t *rule, const char *name, size_t count, struct err *err);
/* The same with an offset and a scale of the caller. */
int verify_rule_draw(float *to, const json_t *rule, const char *name, size_t count, double offset, double scale,
                     struct err *err);
/* Number of stored gradients out of `count`; index of the j-th stored one. */
enum { VERIFY_SAMPLES = 64 };
size_t verify_rule_samples(size_t count);
size_t verify_rule_sample(size_t count, size_t j);

/* verify_optim.c: "step0.*" and on */
int verify_optim(struct verify_result *result, const struct verify_case_files *files,
                 const struct model_config *cfg, struct err *err);

/* verify_load.c: opens CASE.`suffix`; *out is unchanged if the file is missing and optional */
int verify_open_beside(struct st_file **out, const char *json_path, const char *suffix, bool needed, struct err *err);
/* Weights into a block; their names begin with `prefix`; "": all tensors of no other
 * kind. */
int verify_load_weights(float *weights, const struct layout *l, const struct verify_case_files *files,
                        const char *prefix, struct err *err);
/* Into a model: "param.*", or the values of the case's rule. */
int verify_begin_weights(struct model *m, const struct verify_case_files *files, struct err *err);
/* Sizes of a batch from the shapes of two tensors. */
int verify_limits(struct model_limits *max, const struct verify_case_files *files, const char *x_name,
                  const char *y_name, const struct model_config *cfg, struct err *err);
/* One training batch of the case, inputs owned. */
struct verify_batch {
    float         *x0, *noise, *y, *mask;
    int           *t_index;
    unsigned char *drop;
};
int verify_batch_load(struct verify_batch *b, const struct verify_case_files *files, const char *prefix,
                      const struct model_limits *size, const struct model_config *cfg, struct err *err);
void verify_batch_free(struct verify_batch *b);

#endif
