/* SPDX-License-Identifier: Apache-2.0 */
/* author_config.c - optimizer, schedule and flow shift of a configuration; see author_config.h */
#include "engine/bench/author_config.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/optim/optim.h"
#include "engine/optim/schedule.h"

static double number_or(const json_t *v, double otherwise)
{
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

double author_config_flow_shift(const json_t *config)
{
    return number_or(json_object_get(json_object_get(config, "scheduler"), "flow_shift"), 1.0);
}

/* The authors' names of the supported optimizers. */
static int optimizer_type(struct optim_config *opt, const json_t *o, struct err *err)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    if (!type || strcmp(type, "AdamW") == 0 || strcmp(type, "adamw") == 0)
        *opt = (struct optim_config){OPTIM_ADAMW, {0.9, 0.999, 0}, {1e-10, 0}, 0.03, 0, 1, 0};
    else if (strcmp(type, "CAMEWrapper") == 0 || strcmp(type, "CAME") == 0 ||
             strcmp(type, "came") == 0)
        *opt = (struct optim_config){OPTIM_CAME, {0.9, 0.999, 0.9999}, {1e-30, 1e-16}, 0, 0, 1, 0};
    else
        return err_set(err, ERR_USAGE, "train.optimizer.type is \"%.40s\"; supported: AdamW and "
                       "CAMEWrapper", type);
    return 0;
}

/* Their cosine schedules depend on the length of the whole run, which is not in a case's
 * configuration. */
int author_config_schedule(struct schedule *lr, bool *known, const json_t *config, struct err *err)
{
    const json_t *train = json_object_get(config, "train");
    const char *type = json_string_value(json_object_get(train, "lr_schedule"));
    const json_t *args = json_object_get(train, "lr_schedule_args");
    *lr = (struct schedule){
        .type = SCHEDULE_CONSTANT,
        .lr = number_or(json_object_get(json_object_get(train, "optimizer"), "lr"), 1e-4),
        .warmup = (int64_t)number_or(json_object_get(args, "num_warmup_steps"), 0)};
    *known = !type || strcmp(type, "constant") == 0;
    return schedule_check(lr, err);
}

int author_config_optimizer(struct optim_config *opt, const json_t *config, struct err *err)
{
    const json_t *train = json_object_get(config, "train");
    const json_t *o = json_object_get(train, "optimizer");
    const json_t *betas = json_object_get(o, "betas"), *eps = json_object_get(o, "eps");
    if (optimizer_type(opt, o, err) < 0)
        return -1;
    for (size_t i = 0; i < 3; i++)
        opt->beta[i] = number_or(json_array_get(betas, i), opt->beta[i]);
    for (size_t i = 0; i < 2; i++)
        opt->eps[i] = number_or(json_array_get(eps, i), opt->eps[i]);
    opt->eps[0] = number_or(eps, opt->eps[0]);
    opt->weight_decay = number_or(json_object_get(o, "weight_decay"), opt->weight_decay);
    opt->clip_threshold = number_or(json_object_get(o, "clip_threshold"), opt->clip_threshold);
    opt->clip = number_or(json_object_get(train, "gradient_clip"), 0);
    return 0;
}
