/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_bench.c - jobctl-train bench: ms per step of a configuration or a job spec
 *
 * A configuration has the keys of the golden cases (--config); a spec is canonical
 * JSON (--spec), and runs with the micro-batches of a real run.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/bench/author_config.h"
#include "engine/bench/bench.h"
#include "engine/cli/profile_table.h"
#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/dist/cluster_model.h"
#include "engine/model/backend.h"
#include "engine/model/device_memory.h"
#include "engine/optim/fit.h"
#include "engine/optim/schedule.h"
#include "kernels/kernels.h"

enum { STEPS = 50, WARMUP = 5, STEPS_MAX = 10 * 1000 * 1000, CLUSTER_MOST = 4096 };

/* "a, b, c": the names of an object's members, or as many as fit. */
static const char *member_names(char *names, size_t size, json_t *object)
{
    size_t used = 0;
    names[0] = '\0';
    for (void *i = json_object_iter(object); i && used < size; i = json_object_iter_next(object, i))
        used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "", json_object_iter_key(i));
    return names;
}

/* A file is one configuration, or several by name. */
static const json_t *choose_case(json_t *file, const char *path, const char *name, struct err *err)
{
    const json_t *one = name ? json_object_get(file, name) : file;
    if (json_object_get(one, "model"))
        return one;
    char names[300];
    member_names(names, sizeof(names), file);
    if (name)
        err_set(err, ERR_USAGE, "%s has no configuration \"%.60s\"; --case chooses one of: %s", path, name, names);
    else
        err_set(err, ERR_USAGE, "%s has several configurations; choose one with --case: %s", path, names);
    return NULL;
}

/* The batch of a case: case.batch, case.latent_hw, case.text_len. */
static int parse_batch(struct model_limits *z, const json_t *config, const struct model_config *m, struct err *err)
{
    const json_t *c = json_object_get(config, "case"), *hw = json_object_get(c, "latent_hw");
    const json_t *text = json_object_get(c, "text_len");
    const json_int_t v[] = {
        json_integer_value(json_object_get(c, "batch")), json_integer_value(json_array_get(hw, 0)),
        json_integer_value(json_array_get(hw, 1)),
        text ? json_integer_value(text) : m->caption_len,
    };
    for (int i = 0; i < 4; i++)
        if (v[i] < 1 || v[i] > 1 << 20)
            return err_set(err, ERR_USAGE, "the configuration's \"case\" needs batch, latent_hw "
                           "[height, width] and text_len above 0");
    *z = (struct model_limits){(int)v[0], (int)v[1], (int)v[2], (int)v[3], false, false, 0};
    return 0;
}

static int read_spec(struct bench_spec *spec, const char *path, const char *name, struct err *err)
{
    json_error_t why;
    struct schedule lr;
    bool known;
    json_t *file = json_load_file(path, 0, &why);
    if (!file)
        return why.line < 0 ? err_set(err, ERR_USAGE, "--config: %s", why.text)
                            : err_set(err, ERR_USAGE, "%s: %s (line %d)", path, why.text, why.line);
    const json_t *config = choose_case(file, path, name, err);
    int r = -1;
    if (config && model_config_parse(&spec->model, config, err) == 0 &&
        parse_batch(&spec->batch, config, &spec->model, err) == 0 &&
        author_config_optimizer(&spec->optim, config, err) == 0 &&
        author_config_schedule(&lr, &known, config, err) == 0) {
        spec->lr = lr.lr;
        spec->flow_shift = author_config_flow_shift(config);
        r = 0;
    }
    json_decref(file);
    return r;
}

struct job_bench {
    struct bench_spec *bench;
    struct train_spec  spec;
};

/* The micro-batches of one rank's step, as in a real run. */
static int fit_job(struct job_bench *j, struct err *err)
{
    struct train_spec *s = &j->spec;
    struct dataset *d = NULL;
    struct fit fit;
    if (dataset_open(&d, s, NULL, NULL, err) < 0)
        return -1;
    const struct dataset_shape shape = dataset_shape(d);
    dataset_close(d);
    s->model.latent_channels = shape.channels;
    s->model.caption_channels = shape.caption_channels;
    s->model.caption_len = shape.words;
    const struct fit_ask ask = {
        .spec = s, .height = shape.height, .width = shape.width, .text = shape.words, .ranks = 1,
        .device = !backend_ops()->host, .bf16 = backend_is_bf16(), .room = device_memory(),
    };
    if (model_config_check(&s->model, err) < 0 || fit_choose(&fit, &ask, err) < 0)
        return -1;
    fprintf(stderr, "bench: micro-batches of %d (%s), grad_checkpointing %s (%s)\n", fit.micro,
            fit.micro_why, fit.recompute ? "on" : "off", fit.recompute_why);
    *j->bench = (struct bench_spec){
        .model = s->model, .optim = s->optim, .lr = s->schedule.lr, .flow_shift = s->flow_shift,
        .batch = {
            .batch = fit.micro, .height = shape.height, .width = shape.width, .text = shape.words,
            .recompute = fit.recompute,
        },
        .micros = (s->batch_global + fit.micro - 1) / fit.micro, .steps = j->bench->steps,
        .warmup = j->bench->warmup,
    };
    return 0;
}

static int read_job(struct bench_spec *bench, const char *path, struct err *err)
{
    struct job_bench j = {.bench = bench};
    json_t *job = train_cmd_load_spec(path, err);
    int r = job && train_spec_parse(&j.spec, job, err) == 0 ? fit_job(&j, err) : -1;
    json_decref(job);
    return r;
}

static void print_json(const struct bench_result *r)
{
    printf("{\"version\": 1, \"steps\": %d, \"threads\": %d, \"params\": %lld, "
           "\"ms_median\": %.4f, \"ms_min\": %.4f, \"ms_max\": %.4f, \"samples_per_s\": %.3f, "
           "\"gflops\": %.2f, \"mfu\": %.4f, \"rss_growth_bytes\": %lld, \"loss\": %.6f",
           r->steps, r->threads, (long long)r->params, r->ms_median, r->ms_min, r->ms_max,
           r->samples_per_s, r->gflops, r->mfu, (long long)r->rss_growth, r->loss);
    if (r->step_ms[0] > 0)
        printf(", \"snapshots\": {\"step_ms\": [%.4f, %.4f], \"update_ms\": [%.4f, %.4f]}", r->step_ms[0],
               r->step_ms[1], r->update_ms[0], r->update_ms[1]);
    printf("}\n");
}

static void print_table(const struct bench_result *r)
{
    printf("device       %s, %s\n", backend_device(), backend_ops()->name);
    printf("step         %9.3f ms   (median of %d; %.3f to %.3f)\n", r->ms_median, r->steps, r->ms_min, r->ms_max);
    printf("speed        %9.2f samples/s, %.1f GFLOP/s, %d threads\n", r->samples_per_s, r->gflops, r->threads);
    if (r->mfu > 0)
        printf("MFU          %9.2f %%    of %.0f TFLOP/s; work counted: three forward passes\n",
               100 * r->mfu, r->peak_gflops / 1e3);
    if (r->step_ms[0] > 0)
        printf("snapshots    %+9.3f ms   of %.3f (%+.2f %%); an update takes %.3f ms of CPU time, "
               "without %.3f\n",
               r->step_ms[1] - r->step_ms[0], r->step_ms[0],
               100 * (r->step_ms[1] / r->step_ms[0] - 1), r->update_ms[1], r->update_ms[0]);
    printf("parameters   %9lld      memory grew by %lld KiB\n", (long long)r->params, (long long)r->rss_growth / 1024);
}

/* "64x8": nodes and GPUs per node. */
static int parse_cluster(int *nodes, int *gpus, const char *text, struct err *err)
{
    char end;
    if (sscanf(text, "%dx%d%c", nodes, gpus, &end) == 2 && *nodes >= 1 && *gpus >= 1 &&
        *nodes <= CLUSTER_MOST && *gpus <= CLUSTER_MOST)
        return 0;
    return err_set(err, ERR_USAGE, "--model-cluster is \"%.20s\"; expected nodes x GPUs per node, "
                   "like 64x8", text);
}

/* NULL leaves *out as it is. */
static int parse_count(int *out, const char *option, const char *text, long least, struct err *err)
{
    char *end = NULL;
    const long n = text ? strtol(text, &end, 10) : *out;
    if ((text && (!*text || *end)) || n < least || n > STEPS_MAX)
        return err_set(err, ERR_USAGE, "%s is \"%.20s\"; it must be from %ld to %d", option, text, least, STEPS_MAX);
    *out = (int)n;
    return 0;
}

static int parse_amount(double *out, const char *option, const char *text, struct err *err)
{
    char *end;
    *out = strtod(text, &end);
    if (*end || !isfinite(*out) || *out <= 0)
        return err_set(err, ERR_USAGE, "%s is \"%.20s\"; expected a number above 0", option, text);
    return 0;
}

/* For a job that is not run here: --params and --step-ms replace the measurement. */
static int model_only(int nodes, int gpus, const char *params, const char *step_ms, struct err *err)
{
    struct cluster_model_job job;
    if (!params || !step_ms)
        return err_set(err, ERR_USAGE, "expected --params and --step-ms together");
    if (parse_amount(&job.params, "--params", params, err) < 0 ||
        parse_amount(&job.step_s, "--step-ms", step_ms, err) < 0)
        return -1;
    job.step_s /= 1000;
    cluster_model_print(&job, nodes, gpus);
    return 0;
}

int train_cmd_bench(int argc, char **argv)
{
    const char *config = NULL, *job = NULL, *name = NULL, *steps = NULL, *backend = NULL;
    const char *precision = NULL, *cluster = NULL, *params = NULL, *step_ms = NULL, *warmup = NULL;
    int nodes = 0, gpus = 0;
    bool json = false, snapshots = false, profile = false;
    const struct train_cmd_option options[] = {
        {"--config", &config, NULL, false}, {"--case", &name, NULL, false},
        {"--spec", &job, NULL, false},
        {"--steps", &steps, NULL, false},  {"--json", NULL, &json, false},
        {"--warmup", &warmup, NULL, false}, {"--profile", NULL, &profile, false},
        {"--snapshots", NULL, &snapshots, false},
        {"--backend", &backend, NULL, false}, {"--precision", &precision, NULL, false},
        {"--model-cluster", &cluster, NULL, false},
        {"--params", &params, NULL, false}, {"--step-ms", &step_ms, NULL, false},
        {NULL, NULL, NULL, false},
    };
    struct bench_spec spec = {.steps = STEPS, .warmup = WARMUP, .micros = 1};
    struct bench_result r;
    struct err err = {0};
    const int usage = train_cmd_parse(argc, argv, options);
    if (usage)
        return usage;
    if (cluster && parse_cluster(&nodes, &gpus, cluster, &err) < 0)
        return train_cmd_fail("bench", &err);
    if (cluster && (params || step_ms))
        return model_only(nodes, gpus, params, step_ms, &err) < 0 ? train_cmd_fail("bench", &err)
                                                                  : EXIT_DONE;
    if (!config == !job) {
        err_set(&err, ERR_USAGE, "expected either --config FILE or --spec FILE");
        return train_cmd_fail("bench", &err);
    }
    if (profile && json) {
        err_set(&err, ERR_USAGE, "--profile prints a table: leave out --json");
        return train_cmd_fail("bench", &err);
    }
    if (parse_count(&spec.steps, "--steps", steps, 1, &err) < 0 ||
        parse_count(&spec.warmup, "--warmup", warmup, 0, &err) < 0)
        return train_cmd_fail("bench", &err);
    if (profile) /* replays of recorded steps are no kernels of their own */
        setenv("JOBCTL_CUDA_WAYS", "tune tensor bgrad", 0);
    if (backend_open(backend ? backend : "cpu", precision, &err) < 0 ||
        (job ? read_job(&spec, job, &err) : read_spec(&spec, config, name, &err)) < 0)
        return train_cmd_fail("bench", &err);
    spec.snapshots = snapshots;
    spec.profile = profile;
    if (bench_run(&r, &spec, &err) < 0)
        return train_cmd_fail("bench", &err);
    if (json)
        print_json(&r);
    else
        print_table(&r);
    if (profile && !json)
        profile_table_print(r.profile, r.profile_rows, r.profile_ms, "a step");
    if (cluster && !json)
        cluster_model_print(&(struct cluster_model_job){(double)r.params, r.ms_median / 1000},
                            nodes, gpus);
    return EXIT_DONE;
}
