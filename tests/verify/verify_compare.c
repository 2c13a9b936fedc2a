/* SPDX-License-Identifier: Apache-2.0 */
/* verify_compare.c - tolerances of the golden cases, and the comparison
 *
 * The tolerances are the differences between two correct fp32 programs, times
 * about ten: the authors' own fp32 run is 2e-7 to 6e-7 from their double
 * precision run in most gradients, and 3e-5 in those of the cross-attention's
 * queries and keys, where y is scaled by 0.01 and nearly cancels.  A gradient
 * that is truly zero leaves only rounding, so it is measured against a small
 * part of all gradients together.  The changes made by an optimizer are measured per tensor,
 * because AdamW divides each gradient by its own size: an element whose gradient nearly cancels
 * moves by a tenth of the learning rate with the rounding of one instruction set or another.  The
 * bound for a single element is therefore loose; a gradient of the wrong sign is two learning rates
 * per step.
 *
 * In bf16 inputs of products carry 8 bits: 2e-3 of rounding each, which a network of this depth
 * amplifies to 1e-2 in activations and 2e-2 in gradients, and to 1e-1 where gradients cancel or an
 * optimizer divides a small gradient by its own size.  The tolerances are two to three times the
 * differences that the cases show; a wrong index or a missing term is far beyond them.
 *
 * VERIFY_TEXT in bf16: rounding moves a number by 2^-8 at most, relatively; over mantissas that are spread evenly by
 * their logarithm the root mean square is r = 2^-8 / sqrt(3) * sqrt(3 / (8 ln 2)) = 1.7e-3.  A layer of a decoder has
 * two branches of six roundings in a row (weights and inputs of what leads in, scores or gates, and of what leads
 * out), whose variances add: r sqrt(12 L) after L layers.  Softmax multiplies errors of scores by their size, for
 * which 3 is allowed: 3 r sqrt(12 * 4) = 3.5e-2.  The cases show up to 2.4e-2, and 2.1e-2 with attention in fp32.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/backend.h"
#include "tests/verify/verify_internal.h"

static const struct {
    const char *measure;
    double      tolerance, bf16;
} kinds[VERIFY_KINDS] = {
    [VERIFY_OUTPUT] = {"largest difference", 5e-6, 3e-2},
    [VERIFY_LOSS] = {"relative difference", 1e-6, 5e-3},
    [VERIFY_GRADIENT] = {"relative L2", 1e-5, 5e-2},
    [VERIFY_GRADIENT_QK] = {"relative L2", 1e-4, 1e-1},
    [VERIFY_NORM] = {"relative difference", 1e-5, 1e-2},
    [VERIFY_ADAMW] = {"L2 over the update", 1e-3, 2e-1},
    [VERIFY_CAME] = {"L2 over the update", 5e-3, 2e-1},
    [VERIFY_STATE_ADAMW] = {"relative L2", 1e-3, 5e-2},
    [VERIFY_STATE_CAME] = {"relative L2", 5e-3, 2e-1},
    [VERIFY_GRADIENT_ZERO] = {"L2 over all gradients", 1e-8, 1e-3},
    [VERIFY_RATES] = {"largest difference over the rate", 0.5, 10},
    [VERIFY_TEXT] = {"relative L2", 1e-5, 3.5e-2},
    [VERIFY_PICTURE] = {"relative L2", 2e-5, 2e-2},
    [VERIFY_EXACT] = {"numbers that differ", 0, 0},
};

/* A larger difference fails, unless the case has a tolerance of its own. */
static double tolerance_of(enum verify_kind kind)
{
    return backend_is_bf16() ? kinds[kind].bf16 : kinds[kind].tolerance;
}

/* Share of all gradients together: a smaller gradient is measured as if it had this size. */
#define GRADIENT_FLOOR 2e-5

/* L2 */
static double norm_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

double verify_change(const double *want, const float *start, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (want[i] - (double)start[i]) * (want[i] - (double)start[i]);
    return sqrt(sum);
}

/* Fewer units in the last place than this are the rounding of weights stored as floats. */
#define ROUNDING (8 * 0x1p-24)
/* Effect of rounding on a full step of AdamW for one element whose gradient nearly cancels: part of a step; in bf16,
 * where it may have the wrong sign, and the first step is full by the sign alone, two steps. */
#define NOISY_STEP      0.1
#define NOISY_STEP_BF16 2.0

double verify_update_scale(const double *want, size_t count, double change, double step)
{
    const double noisy = backend_is_bf16() ? NOISY_STEP_BF16 : NOISY_STEP;
    const double noise = ROUNDING * norm_of(want, count) + noisy * step;
    return change + noise / tolerance_of(VERIFY_ADAMW);
}

static double norm_of_difference(const struct verify_row *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->count; i++) {
        double d = (double)r->ours[i] - r->want[i];
        sum += d * d;
    }
    return sqrt(sum);
}

/* The larger one, but NaN once there is one: otherwise a later number would hide it. */
static double worse(double most, double d)
{
    return isnan(most) || d <= most ? most : d;
}

static double largest_relative(const struct verify_row *r)
{
    double most = 0;
    for (size_t i = 0; i < r->count; i++) {
        double d = fabs((double)r->ours[i] - r->want[i]) / fmax(fabs(r->want[i]), 1e-30);
        most = worse(most, d);
    }
    return most;
}

static double most_apart(const struct verify_row *r)
{
    double most = 0;
    for (size_t i = 0; i < r->count; i++) {
        double d = fabs((double)r->ours[i] - r->want[i]);
        most = worse(most, d);
    }
    return most;
}

static double largest_difference(const struct verify_row *r)
{
    double top = 1;
    for (size_t i = 0; i < r->count; i++)
        top = fmax(top, fabs(r->want[i]));
    return most_apart(r) / top;
}

static double error_of(const struct verify_row *r)
{
    double differ = 0;
    switch (r->kind) {
    case VERIFY_OUTPUT:
        return largest_difference(r);
    case VERIFY_LOSS:
    case VERIFY_NORM:
        return largest_relative(r);
    case VERIFY_GRADIENT:
    case VERIFY_GRADIENT_QK:
        return norm_of_difference(r) /
               fmax(fmax(norm_of(r->want, r->count), GRADIENT_FLOOR * r->scale), 1e-30);
    case VERIFY_ADAMW:
    case VERIFY_CAME:
    case VERIFY_GRADIENT_ZERO:
        return norm_of_difference(r) / fmax(r->scale, 1e-30);
    case VERIFY_RATES:
        return most_apart(r) / fmax(r->scale, 1e-30);
    case VERIFY_STATE_ADAMW:
    case VERIFY_STATE_CAME:
    case VERIFY_TEXT:
    case VERIFY_PICTURE:
        return norm_of_difference(r) / fmax(norm_of(r->want, r->count), 1e-30);
    case VERIFY_EXACT:
        for (size_t i = 0; i < r->count; i++)
            differ += r->ours[i] != (float)r->want[i];
        return differ;
    case VERIFY_KINDS:
        break;
    }
    return NAN;
}

static void tell(FILE *to, const struct verify_row *row, double error, double tolerance, bool failed)
{
    if (to)
        fprintf(to, "%s %s: %s %.2e, tolerance %.1e\n", failed ? "FAILED" : "ok    ", row->name,
                kinds[row->kind].measure, error, tolerance);
}

/* "tolerance" by tensor, or {TAG: {WHAT: {"rel_l2": ...}}} for "out.TAG.WHAT". */
static const json_t *own_tolerance(const json_t *config, const char *name)
{
    const json_t *all = json_object_get(config, "tolerance"), *own = json_object_get(all, name);
    char tag[64], what[64];
    if (own || sscanf(name, "out.%63[^.].%63s", tag, what) != 2)
        return own;
    return json_object_get(json_object_get(json_object_get(all, tag), what), "rel_l2");
}

void verify_compare(struct verify_result *result, const struct verify_case_files *files, const struct verify_row *row)
{
    const json_t *own = own_tolerance(files->config, row->name);
    const bool takes_own = json_is_number(own) && !backend_is_bf16();
    const double tolerance = takes_own ? json_number_value(own) : tolerance_of(row->kind);
    double error = error_of(row);
    if (isnan(error))
        error = INFINITY;
    const bool failed = !(error <= tolerance);
    /* Relation to the tolerance, for "worst"; an exact match of bits comes last. */
    const double share = tolerance > 0 ? error / tolerance : failed ? INFINITY : 0;
    const double worst = result->tolerance > 0 ? result->error / result->tolerance
                         : result->error > 0   ? INFINITY
                                               : -1;
    tell(files->each, row, error, tolerance, failed);
    result->tensors++;
    result->failed += failed;
    if (result->tensors > 1 && share <= worst)
        return;
    snprintf(result->worst, sizeof(result->worst), "%s", row->name);
    result->error = error;
    result->tolerance = tolerance;
    result->measure = kinds[row->kind].measure;
}

static const struct st_tensor *find(const struct verify_case_files *files, const char *name,
                                    size_t count, struct err *err)
{
    const struct st_tensor *t = st_find(files->golden, name);
    if (!t)
        err_set(err, ERR_DATA, "tensor %s is missing", name);
    else if (t->count != count)
        err_set(err, ERR_DATA, "tensor %s has %zu numbers; the configuration asks for %zu", name, t->count, count);
    return t && t->count == count ? t : NULL;
}

double *verify_want(const struct verify_case_files *files, const char *name, size_t count, struct err *err)
{
    const struct st_tensor *t = find(files, name, count, err);
    const struct st_tensor *better = files->ref64 ? st_find(files->ref64, name) : NULL;
    if (!t)
        return NULL;
    if (better && better->count == count)
        t = better;
    double *p = malloc((count ? count : 1) * sizeof(*p));
    if (!p)
        err_set(err, ERR_MEMORY, "no memory for tensor %s", name);
    else if (st_to_double(p, t, count, err) == 0)
        return p;
    free(p);
    return NULL;
}

float *verify_floats(const struct verify_case_files *files, const char *name, size_t count, struct err *err)
{
    const struct st_tensor *t = find(files, name, count, err);
    float *p = t ? malloc((count ? count : 1) * sizeof(*p)) : NULL;
    if (t && !p)
        err_set(err, ERR_MEMORY, "no memory for tensor %s", name);
    else if (t && st_to_float(p, t, count, err) == 0)
        return p;
    free(p);
    return NULL;
}

void verify_count(struct verify_result *result, const struct verify_case_files *files, const char *name, int differ)
{
    const float ours = (float)differ;
    const double want = 0;
    verify_compare(result, files, &(struct verify_row){name, VERIFY_EXACT, &ours, &want, 1, 0});
}

int verify_check(struct verify_result *result, const struct verify_case_files *files, const char *name,
                 enum verify_kind kind, const float *ours, size_t count, double scale, struct err *err)
{
    char full[ST_NAME + 32];
    double *want = verify_want(files, name, count, err);
    if (!want)
        return -1;
    snprintf(full, sizeof(full), "%s%s%s", files->run ? files->run : "", files->run ? "." : "", name);
    const struct verify_row row = {full, kind, ours, want, count, scale};
    verify_compare(result, files, &row);
    free(want);
    return 0;
}
