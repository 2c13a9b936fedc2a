/* SPDX-License-Identifier: Apache-2.0 */
/* verify_optim.c - check steps of the optimizer: losses, norms, weights and state */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/bench/author_config.h"
#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/optim/optim.h"
#include "engine/optim/schedule.h"
#include "engine/optim/step.h"
#include "tests/verify/verify_internal.h"

enum { STEPS_MAX = 1000 };

/* Results of the run to be compared. */
struct run {
    const struct verify_case_files *files;
    const struct model_config      *cfg;
    struct verify_result           *result;
    struct optim_config             opt;
    struct schedule                 lr;
    bool                            lr_known; /* the configuration determines the rates */
    struct step                    *step;
    float                          *losses, *norms;
    double                          rate; /* of the last step */
    int                             steps;
};

static int count_steps(const struct st_file *golden)
{
    int n = 0;
    for (char name[32]; n < STEPS_MAX; n++) {
        snprintf(name, sizeof(name), "step%d.x0", n);
        if (!st_find(golden, name))
            break;
    }
    return n;
}

/* The learning rate of step k according to the case: case.lrs of the JSON, or a tensor. */
static bool rate_listed(const struct run *r, int k, double *lr)
{
    const json_t *list = json_object_get(json_object_get(r->files->config, "case"), "lrs");
    const json_t *listed = json_array_get(list, (size_t)k);
    const struct st_tensor *t = st_find(r->files->golden, "lrs");
    float used;
    if (json_is_number(listed)) {
        *lr = json_number_value(listed);
        return true;
    }
    if (!t || t->count <= (size_t)k || t->dtype != ST_F32)
        return false;
    memcpy(&used, (const char *)t->data + (size_t)k * sizeof(used), sizeof(used));
    *lr = (double)used;
    return true;
}

/* The schedule's rate, which must agree with the case; or the case's rate, if only the case
 * knows it. */
static int rate_of(struct run *r, int k, double *lr, struct err *err)
{
    double listed;
    const bool is_listed = rate_listed(r, k, &listed);
    *lr = r->lr_known ? schedule_lr(&r->lr, k) : listed;
    if (!r->lr_known && !is_listed)
        return err_set(err, ERR_USAGE, "train.lr_schedule is not constant, and case.lrs does not "
                       "list the learning rate of step %d", k);
    if (is_listed && fabs(listed - *lr) > 1e-6 * fabs(*lr) + 1e-30)
        return err_set(err, ERR_DATA, "step %d of the case ran with learning rate %g; its "
                       "configuration gives %g", k, listed, *lr);
    return 0;
}

static int run_step(struct run *r, int k, struct err *err)
{
    char prefix[32], x[48], y[48], name[48];
    struct model_limits z;
    struct verify_batch batch = {0};
    double loss, norm, lr;
    snprintf(prefix, sizeof(prefix), "step%d", k);
    snprintf(x, sizeof(x), "%s.x0", prefix);
    snprintf(y, sizeof(y), "%s.y", prefix);
    snprintf(name, sizeof(name), "%s.per_sample", prefix);
    if (rate_of(r, k, &lr, err) < 0 || verify_limits(&z, r->files, x, y, r->cfg, err) < 0 ||
        verify_batch_load(&batch, r->files, prefix, &z, r->cfg, err) < 0)
        return -1;
    float *per_sample = calloc((size_t)z.batch, sizeof(*per_sample));
    const struct step_input in = {
        .batch = z.batch, .height = z.height, .width = z.width, .text = z.text, .x0 = batch.x0,
        .noise = batch.noise, .t_index = batch.t_index, .y = batch.y, .mask = batch.mask, .drop = batch.drop,
    };
    step_begin(r->step);
    int rc = per_sample ? step_micro(r->step, &in, 1.0, &loss, per_sample, err)
                        : err_set(err, ERR_MEMORY, "no memory for a batch of %d", z.batch);
    if (rc == 0)
        rc = step_end(r->step, lr, &norm, err);
    if (rc == 0) {
        r->rate = lr;
        r->losses[k] = (float)loss;
        r->norms[k] = (float)norm;
        /* After the first update the weights differ by rounding, and so do losses. */
        if (st_find(r->files->golden, name))
            rc = verify_check(r->result, r->files, name, VERIFY_LOSS, per_sample, (size_t)z.batch, 0, err);
    }
    free(per_sample);
    verify_batch_free(&batch);
    return rc;
}

/* Without cross_norm the true gradient of the key half of this bias is zero, and CAME
 * scales the remaining rounding to full-size steps: only the value half counts. */
static size_t numbers_to_skip(const struct run *r, const struct tensor *t)
{
    if (r->opt.type == OPTIM_CAME && !r->cfg->cross_norm &&
        strstr(t->name, "cross_attn.kv_linear.bias"))
        return t->count / 2;
    return 0;
}

static int check_final(struct run *r, const struct tensor *t, struct err *err)
{
    char name[TENSOR_NAME + 8];
    const size_t skip = numbers_to_skip(r, t), n = t->count - skip;
    snprintf(name, sizeof(name), "final.%s", t->name);
    double *want = verify_want(r->files, name, t->count, err);
    float *start = want ? verify_floats(r->files, t->name, t->count, err) : NULL;
    if (!start) {
        free(want);
        return -1;
    }
    const double change = verify_change(want + skip, start + skip, n);
    const bool came = r->opt.type == OPTIM_CAME;
    const double scale = came ? change : verify_update_scale(want + skip, n, change, r->rate);
    const struct verify_row row = {
        name, came ? VERIFY_CAME : VERIFY_ADAMW,
        model_weights(step_model(r->step)) + t->offset + skip, want + skip, n, scale};
    verify_compare(r->result, r->files, &row);
    free(want);
    free(start);
    return 0;
}

/* Our state names to the authors'. */
static const char *state_prefix(const char *ours)
{
    static const char *const rows[][2] = {
        {"adamw.m", "exp_avg"},        {"adamw.v", "exp_avg_sq"},
        {"came.m", "exp_avg"},         {"came.v", "exp_avg_sq"},
        {"came.r", "exp_avg_sq_row"},  {"came.c", "exp_avg_sq_col"},
        {"came.res_r", "exp_avg_res_row"}, {"came.res_c", "exp_avg_res_col"},
    };
    const char *dot = strchr(ours, '.');
    dot = dot ? strchr(dot + 1, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i][0]) == (size_t)(dot - ours) &&
            strncmp(ours, rows[i][0], (size_t)(dot - ours)) == 0)
            return rows[i][1];
    return NULL;
}

static int check_state(struct run *r, const struct optim_state *s, struct err *err)
{
    char name[ST_NAME + 32];
    const char *prefix = state_prefix(s->name);
    const char *tensor = strchr(strchr(s->name, '.') + 1, '.') + 1;
    const struct layout *l = model_layout(step_model(r->step));
    snprintf(name, sizeof(name), "%s.%s", prefix, tensor);
    const struct st_tensor *t = st_find(r->files->optstate, name);
    if (!t)
        return err_set(err, ERR_DATA, "optimizer state %s is missing", name);
    const size_t skip = numbers_to_skip(r, layout_at(l, layout_find(l, tensor)));
    double *want = malloc((t->count ? t->count : 1) * sizeof(*want));
    if (!want)
        return err_set(err, ERR_MEMORY, "no memory for tensor %s", name);
    int rc = st_to_double(want, t, (size_t)s->count, err);
    if (rc == 0) {
        const struct verify_row row = {
            name, r->opt.type == OPTIM_CAME ? VERIFY_STATE_CAME : VERIFY_STATE_ADAMW,
            s->data + skip, want + skip, (size_t)s->count - skip, 0};
        verify_compare(r->result, r->files, &row);
    }
    free(want);
    return rc;
}

static int check_all(struct run *r, struct err *err)
{
    const struct layout *l = model_layout(step_model(r->step));
    struct optim *o = params_optim(step_params(r->step));
    if (model_pull(step_model(r->step), err) < 0 || optim_pull(o, err) < 0)
        return -1;
    const size_t steps = (size_t)r->steps;
    if (verify_check(r->result, r->files, "losses", VERIFY_LOSS, r->losses, steps, 0, err) < 0 ||
        verify_check(r->result, r->files, "grad_norms", VERIFY_NORM, r->norms, steps, 0, err) < 0)
        return -1;
    for (int i = 0; i < layout_len(l); i++)
        if (layout_at(l, i)->kind == TENSOR_PARAM && check_final(r, layout_at(l, i), err) < 0)
            return -1;
    for (int i = 0; r->files->optstate && i < optim_state_len(o); i++)
        if (state_prefix(optim_state_at(o, i)->name) &&
            check_state(r, optim_state_at(o, i), err) < 0)
            return -1;
    return 0;
}

int verify_optim(struct verify_result *result, const struct verify_case_files *files,
                 const struct model_config *cfg, struct err *err)
{
    struct model_limits z;
    struct run r = {.files = files, .cfg = cfg, .result = result};
    int rc = -1;
    r.steps = count_steps(files->golden);
    r.losses = calloc((size_t)r.steps, sizeof(*r.losses));
    r.norms = calloc((size_t)r.steps, sizeof(*r.norms));
    if (!r.losses || !r.norms) {
        err_set(err, ERR_MEMORY, "no memory for %d steps", r.steps);
        goto out;
    }
    if (verify_limits(&z, files, "step0.x0", "step0.y", cfg, err) < 0 ||
        author_config_optimizer(&r.opt, files->config, err) < 0 ||
        author_config_schedule(&r.lr, &r.lr_known, files->config, err) < 0 ||
        step_create(&r.step, cfg, &z, &r.opt, author_config_flow_shift(files->config), NULL, err) < 0 ||
        verify_load_weights(model_weights(step_model(r.step)), model_layout(step_model(r.step)), files, "", err) < 0 ||
        model_push(step_model(r.step), err) < 0)
        goto out;
    for (int k = 0; k < r.steps; k++)
        if (run_step(&r, k, err) < 0)
            goto out;
    rc = check_all(&r, err);
out:
    step_destroy(r.step);
    free(r.losses);
    free(r.norms);
    return rc;
}
