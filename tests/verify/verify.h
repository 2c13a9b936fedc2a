/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - compare the engine with numbers computed by the models' authors' code
 *
 * A case is NAME.json (configuration in the authors' keys) next to NAME.safetensors (weights, inputs, expected
 * outputs), and optionally NAME.ref64.safetensors (the same outputs from a double precision run, which
 * then replace the expected ones) and NAME.optstate.safetensors.  The tensors of the
 * file determine the checks: "in.*" a forward pass with activations, "loss.*" and
 * "grad.*" a training step, "step0.*" and on a run of the optimizer.  Cases of Next-DiT
 * ("in.x1.0") have their runs in NAME.RUN.safetensors, which the JSON names.
 *
 * Tolerances: each kind of tensor has one (reasons: verify_compare.c).  A number
 * under "tolerance" in the JSON, by tensor name, replaces it.
 */
#ifndef TESTS_VERIFY_VERIFY_H
#define TESTS_VERIFY_VERIFY_H

#include <stdio.h>

struct err;

struct verify_result {
    int    tensors;      /* tensors compared */
    int    failed;       /* of which failed */
    char   worst[160];   /* the one nearest to its tolerance, or furthest beyond */
    double error, tolerance;
    const char *measure; /* unit of the error: "relative L2", ... */
};

/* Runs one case. -1 if it cannot be run; else see result->failed. Prints every comparison
 * to `each`, one per line, unless that is NULL. */
int verify_case(struct verify_result *result, const char *json_path, FILE *each, struct err *err);

#endif
