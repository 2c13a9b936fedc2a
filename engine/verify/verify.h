/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - the engine against numbers that the models' authors' code computed
 *
 * A case is NAME.json (configuration in the authors' keys) beside
 * NAME.safetensors (weights, inputs, expected outputs), and where they exist
 * NAME.ref64.safetensors (the same outputs from a double precision run, which
 * are then what we compare with) and NAME.optstate.safetensors.  What is in the
 * file is what is checked: "in.*" a forward pass with activations, "loss.*" and
 * "grad.*" a training step, "step0.*" and on a run of the optimizer.  Cases of Next-DiT
 * ("in.x1.0") have their runs in NAME.RUN.safetensors, which the JSON names.
 *
 * Tolerances: each kind of tensor has one (verify_compare.c says why).  A number
 * under "tolerance" in the JSON, by tensor name, replaces it.
 */
#ifndef ENGINE_VERIFY_VERIFY_H
#define ENGINE_VERIFY_VERIFY_H

#include <stdio.h>

struct err;

struct verify_result {
    int    tensors;      /* compared */
    int    failed;       /* of them */
    char   worst[160];   /* the one nearest to its tolerance, or furthest beyond */
    double error, tolerance;
    const char *measure; /* what error is: "relative L2", ... */
};

/* Runs one case. -1 when it could not be run; else look at result->failed. Every comparison is told
 * on `each`, a line of its own, unless that is NULL. */
int verify_case(struct verify_result *result, const char *json_path, FILE *each, struct err *err);

#endif
