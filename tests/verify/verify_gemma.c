/* SPDX-License-Identifier: Apache-2.0 */
/* verify_gemma.c - kinds "gemma1" and "gemma2": a text encoder's output for token ids
 *
 * "in.input_ids" and "in.attention_mask"; "act.hidden.I" is what layer I is given, "out.last_hidden_state" and
 * "out.hidden_minus2" the results, "sel.y" the rows that the model gets.  Weights are tensors, or drawn by a rule.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/text/gemma.h"
#include "tests/verify/verify_internal.h"

struct gemma_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    struct gemma_config             cfg;
    size_t                          batch, length;
    int32_t                        *id;
    float                          *mask, *last, *before_last;
    int                             rc;    /* of comparisons inside of a run */
    struct err                     *err;
};

static const json_t *rule_of(const struct gemma_case *c)
{
    return json_object_get(c->files->config, "procedural");
}

static const float *tensor(void *arg, const char *name, size_t count, float *scratch, struct err *err)
{
    struct gemma_case *c = arg;
    const struct st_tensor *t = st_find(c->files->golden, name);
    if (!t && rule_of(c))
        return verify_rule_tensor(scratch, rule_of(c), name, count, err) < 0 ? NULL : scratch;
    if (!t || t->count != count)
        return err_set(err, ERR_DATA, "tensor %s is missing, or has not %zu numbers", name, count), NULL;
    return st_to_float(scratch, t, count, err) < 0 ? NULL : scratch;
}

static int row(void *arg, const char *name, size_t rows, size_t n, size_t at, float *out, struct err *err)
{
    struct gemma_case *c = arg;
    const struct st_tensor *t = st_find(c->files->golden, name);
    if (t && t->count == rows * n)
        return st_range_to_float(out, t, at * n, n, err);
    float *all = t ? NULL : malloc(rows * n * sizeof(*all));
    if (!all || !tensor(arg, name, rows * n, all, err)) {
        free(all);
        return err_set(err, ERR_DATA, "tensor %s is missing, or has not %zu rows of %zu", name, rows, n);
    }
    memcpy(out, all + at * n, n * sizeof(*out));
    free(all);
    return 0;
}

/* Compares what there is: a case need not have all. */
static void check(struct gemma_case *c, const char *name, const float *ours, size_t count)
{
    if (c->rc == 0 && st_find(c->files->golden, name))
        c->rc = verify_check(c->result, c->files, name, VERIFY_TEXT, ours, count, 0, c->err);
}

static size_t numbers(const struct gemma_case *c)
{
    return c->batch * c->length * (size_t)c->cfg.hidden;
}

static void check_hidden(void *arg, int layer, const float *h)
{
    struct gemma_case *c = arg;
    char name[32];
    snprintf(name, sizeof(name), "act.hidden.%d", layer);
    check(c, name, h, numbers(c));
}

/* The rows of "sel.index", of each caption. */
static int check_selection(struct gemma_case *c)
{
    const struct st_tensor *t = st_find(c->files->golden, "sel.index");
    const size_t n = t ? t->count : 0, hidden = (size_t)c->cfg.hidden;
    float *index = t ? verify_floats(c->files, "sel.index", n, c->err) : NULL;
    float *y = malloc((c->batch * n * hidden + 1) * sizeof(*y));
    for (size_t i = 0; index && y && i < c->batch * n; i++) {
        const size_t at = (size_t)index[i % n];
        if (at < c->length)
            memcpy(y + i * hidden, c->last + (i / n * c->length + at) * hidden, hidden * sizeof(*y));
    }
    if (index && y)
        check(c, "sel.y", y, c->batch * n * hidden);
    const int rc = !y || (t && !index) ? err_set(c->err, ERR_MEMORY, "no memory for sel.y") : c->rc;
    free(index);
    free(y);
    return rc;
}

static int load(struct gemma_case *c)
{
    const struct st_tensor *t = st_find(c->files->golden, "in.input_ids");
    if (!t || t->ndim != 2 || t->count == 0)
        return err_set(c->err, ERR_DATA, "tensor in.input_ids of two dimensions is missing");
    c->batch = (size_t)t->dim[0];
    c->length = (size_t)t->dim[1];
    float *ids = verify_floats(c->files, "in.input_ids", t->count, c->err);
    c->mask = verify_floats(c->files, "in.attention_mask", t->count, c->err);
    c->id = calloc(t->count, sizeof(*c->id));
    c->last = calloc(numbers(c), sizeof(float));
    c->before_last = calloc(numbers(c), sizeof(float));
    for (size_t i = 0; ids && c->id && i < t->count; i++)
        c->id[i] = (int32_t)ids[i];
    const int rc = ids && c->mask && c->id && c->last && c->before_last
                       ? 0
                       : err_set(c->err, ERR_MEMORY, "no memory for %zu captions", c->batch);
    free(ids);
    return rc;
}

static int run(struct gemma_case *c)
{
    const struct gemma_weights weights = {.tensor = tensor, .row = row, .arg = c};
    const struct gemma_input in = {.id = c->id, .mask = c->mask, .batch = (int)c->batch, .length = (int)c->length};
    const struct gemma_output out = {c->last, c->before_last, check_hidden, c};
    if (gemma_run(&c->cfg, &weights, &in, &out, c->err) < 0)
        return -1;
    check(c, "out.last_hidden_state", c->last, numbers(c));
    check(c, "out.hidden_minus2", c->before_last, numbers(c));
    return c->rc < 0 ? -1 : check_selection(c);
}

int verify_gemma(struct verify_result *result, const struct verify_case_files *files, int version, struct err *err)
{
    struct gemma_case c = {.result = result, .files = files, .err = err};
    int rc = -1;
    if (gemma_config_parse(&c.cfg, version, json_object_get(files->config, "config"), err) == 0 && load(&c) == 0)
        rc = run(&c);
    free(c.id);
    free(c.mask);
    free(c.last);
    free(c.before_last);
    if (rc == 0 && result->tensors == 0)
        return err_set(err, ERR_DATA, "there is nothing to check: no act.hidden or out.last_hidden_state");
    return rc;
}
