/* SPDX-License-Identifier: Apache-2.0 */
/* spec_suggest.c - see spec_suggest.h */
#include "controller/spec/spec_suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "controller/spec/spec_rows.h"
#include "engine/base/text_append.h"

enum { WORD = 64 };

/* Keys of other tools; `tool` is NULL if several use it. `here` is our path, or NULL if
 * unsupported; `hint` follows. */
static const struct foreign {
    const char *key, *tool, *here, *hint;
} foreigns[] = {
    /* clang-format off */
    {"num_gpus", "Ray", "resources.gpus", NULL},
    {"gpus_per_node", "Slurm", "resources.gpus", NULL},
    {"gres", "Slurm", "resources.gpus", "a number per node"},
    {"accelerators", "SkyPilot", "resources.gpus", "a number per node, without the model: gpus: 8"},
    {"gpu", "dstack", "resources.gpus", "a number per node, without the model: gpus: 8"},
    {"slots_per_trial", "Determined", "resources.gpus", "a number per node"},
    {"num_processes", "accelerate", "resources.ranks", "a number per node"},
    {"nproc_per_node", "torchrun", "resources.ranks", NULL},
    {"ntasks_per_node", "Slurm", "resources.ranks", NULL},
    {"ntasks", "Slurm", "resources.ranks", "a number per node"},
    {"np", "mpirun", "resources.ranks", "a number per node"},
    {"nprocs", "mpirun", "resources.ranks", "a number per node"},
    {"nnodes", "torchrun", "resources.nodes", NULL},
    {"num_machines", "accelerate", "resources.nodes", NULL},
    {"replicas", "Kubernetes", "resources.nodes", NULL},
    {"cpus_per_task", "Slurm", "resources.cpus", "a number per node"},
    {"num_cpus", "Ray", "resources.cpus", NULL},
    {"envs", "SkyPilot", "env", NULL},
    {"environment", "Determined", "env", NULL},
    {"environment_variables", "Determined", "env", NULL},
    {"env_vars", "Ray", "env", NULL},
    {"export", "Slurm", "env", NULL},
    {"working_dir", "Ray", "workdir", NULL},
    {"chdir", "Slurm", "workdir", NULL},
    {"cwd", NULL, "workdir", NULL},
    {"command", "Kubernetes", "run", "shell text, once per rank"},
    {"commands", "dstack", "run", "shell text (run: |), not a list"},
    {"entrypoint", "Determined", "run", "shell text, once per rank"},
    {"script", NULL, "run", "shell text, once per rank"},
    {"cmd", NULL, "run", "shell text, once per rank"},
    {"job_name", "Slurm", "name", NULL},
    {"run_name", "Composer", "name", NULL},
    {"max_restarts", "torchrun", "retry.max", NULL},
    {"max_retries", NULL, "retry.max", NULL},
    {"max_restarts_on_errors", "SkyPilot", "retry.max", NULL},
    {"job_recovery", "SkyPilot", "retry", NULL},
    {"recovery", NULL, "retry", NULL},
    {"restart_policy", "Kubernetes", "retry", NULL},
    {"max_failures", "Ray", "retry.max", NULL},
    {"requeue", "Slurm", "retry", "jobctl retries failed jobs"},
    {"time", "Slurm", "max_duration", NULL},
    {"time_limit", "Slurm", "max_duration", NULL},
    {"timeout", NULL, "max_duration", NULL},
    {"max_time", NULL, "max_duration", NULL},
    {"dependency", "Slurm", "after", "a list of ids or names"},
    {"depends_on", NULL, "after", "a list of ids or names"},
    {"nice", "Slurm", "priority", "higher starts first"},
    {"qos", "Slurm", "priority", "higher starts first"},
    {"nodelist", "Slurm", "hosts", NULL},
    {"hostfile", "DeepSpeed", "hosts", NULL},
    {"min_checkpoint_period", "Determined", "checkpoint.every", NULL},
    {"save_interval", "Composer", "checkpoint.every", NULL},
    {"save_steps", "transformers", "checkpoint.every", "with its unit: \"500 steps\""},
    {"save_model_steps", "Sana", "checkpoint.every", "with its unit: \"500 steps\""},
    {"checkpointing_steps", "diffusers", "checkpoint.every", "with its unit: \"500 steps\""},
    {"checkpoint_interval", NULL, "checkpoint.every", NULL},
    {"save_total_limit", "transformers", "checkpoint.keep", NULL},
    {"checkpoints_total_limit", "diffusers", "checkpoint.keep", NULL},
    {"checkpoint_storage", "Determined", "checkpoint.dir", NULL},
    {"save_folder", "Composer", "checkpoint.dir", NULL},
    {"output_dir", "transformers", "checkpoint.dir", NULL},
    {"work_dir", "Sana", "checkpoint.dir", NULL},
    {"load_from", "Sana", "train.model.weights", NULL},
    {"resume_from", "Sana", "resume", NULL},
    {"resume_from_checkpoint", "transformers", "resume", NULL},
    {"reproducibility", "Determined", "train.seed", NULL},
    {"experiment_seed", "Determined", "train.seed", NULL},
    {"learning_rate", "transformers", "train.optimizer.lr", NULL},
    {"train_batch_size", "Sana", "train.batch.global", "over all ranks"},
    {"global_batch_size", "Megatron", "train.batch.global", NULL},
    {"batch_size", NULL, "train.batch.global", "over all ranks"},
    {"micro_batch_size", "Megatron", "train.batch.micro", NULL},
    {"per_device_train_batch_size", "transformers", "train.batch.micro", NULL},
    {"gradient_accumulation_steps", "transformers", "train.batch.micro",
     "gradient accumulation is the global batch divided by the micro batch"},
    {"mixed_precision", "accelerate", "train.precision", NULL},
    {"max_train_steps", "diffusers", "train.steps", NULL},
    {"max_steps", "transformers", "train.steps", NULL},
    {"num_epochs", "Sana", "train.steps", "counted in optimizer steps"},
    {"gradient_clip", "Sana", "train.optimizer.clip", NULL},
    {"max_grad_norm", "transformers", "train.optimizer.clip", NULL},
    {"gradient_clip_norm", NULL, "train.optimizer.clip", NULL},
    {"lr_scheduler_type", "transformers", "train.schedule.type", NULL},
    {"lr_schedule", "Sana", "train.schedule", NULL},
    {"lr_warmup_steps", "diffusers", "train.schedule.warmup", NULL},
    {"num_warmup_steps", "Sana", "train.schedule.warmup", NULL},
    {"warmup_steps", "transformers", "train.schedule.warmup", NULL},
    {"ema_rate", "Sana", "train.ema", NULL},
    {"class_dropout_prob", "Sana", "train.caption_dropout", NULL},
    {"flow_shift", "Sana", "train.flow.shift", NULL},
    {"data_dir", "Sana", "train.data.path", NULL},
    {"external_caption_suffixes", "Sana", "train.data.caption_suffixes", NULL},
    {"external_clipscore_suffixes", "Sana", "train.data.score_suffixes", NULL},
    {"clip_thr", "Sana", "train.data.score_min", NULL},
    {"clip_thr_temperature", "Sana", "train.data.score_temperature", NULL},
    {"dataset", NULL, "train.data", NULL},
    {"grad_checkpoint", "Sana", "train.grad_checkpointing", NULL},
    {"partition", "Slurm", "slurm.partition", "with launch: slurm"},
    {"account", "Slurm", "slurm.account", "with launch: slurm"},
    {"constraint", "Slurm", "slurm.extra.constraint", "with launch: slurm"},
    {"file_mounts", "SkyPilot", NULL, "jobctl does not copy files; use their paths on this machine"},
    {"files", "dstack", NULL, "jobctl does not copy files; use their paths on this machine"},
    {"volumes", "dstack", "image.mounts", "with image: a map"},
    {"image_id", "SkyPilot", "image", NULL},
    {"container_image", "pyxis", "image", NULL},
    {"container_mounts", "pyxis", "image.mounts", "with image: a map"},
    {"docker", NULL, "image", NULL},
    {"container", NULL, "image", NULL},
    {"cloud", "SkyPilot", NULL, "jobctl does not rent machines; the job runs on this machine or "
                                "its hosts"},
    {"infra", "SkyPilot", NULL, "jobctl does not rent machines; the job runs on this machine or "
                                "its hosts"},
    {"use_spot", "SkyPilot", NULL, "jobctl does not rent machines; the job runs on this machine "
                                   "or its hosts"},
    {"mem", "Slurm", NULL, "jobctl does not reserve memory"},
    {"memory", "SkyPilot", NULL, "jobctl does not reserve memory"},
    {"master_port", "torchrun", NULL, "jobctl chooses a free port"},
    {"main_process_port", "accelerate", NULL, "jobctl chooses a free port"},
    {"rdzv_endpoint", "torchrun", NULL, "jobctl chooses addresses and ports"},
    {"array", "Slurm", NULL, "submit the file once per value, with --set"},
    {"hyperparameters", "Determined", NULL, "set the values under train, or with --set"},
    {"searcher", "Determined", NULL, "submit the file once per value, with --set"},
    {"utilization_policy", "dstack", NULL, "jobctl measures progress in steps, not in utilisation"},
    /* clang-format on */
};

static int fold(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

int spec_distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    if (n >= WORD || m >= WORD)
        return 2 * WORD;
    int rows[3][WORD + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    memset(rows, 0, sizeof(rows));
    for (int j = 0; j <= m; j++)
        last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int differ = fold(a[i - 1]) != fold(b[j - 1]);
            now[j] = min3(now[j - 1] + 1, last[j] + 1, last[j - 1] + differ);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1]) && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

/* A short word with half of its letters changed is no match. */
static int tolerance(const char *word)
{
    int n = (int)strlen(word);
    return n <= 3 ? 1 : n <= 5 ? 2 : 3;
}

void spec_nearest_choice(char *out, size_t size, const char *choices, const char *word)
{
    int best = tolerance(word) + 1;
    out[0] = '\0';
    for (const char *p = choices; p; p = strchr(p, '|')) {
        p += *p == '|';
        char one[WORD];
        snprintf(one, sizeof(one), "%.*s", (int)strcspn(p, "|"), p);
        int d = spec_distance(one, word);
        if (d < best) {
            best = d;
            snprintf(out, size, "%s", one);
        }
    }
}

/* Is `path` a key of the map itself, not of a nested map? */
static bool directly_in(const char *map, const char *path)
{
    size_t n = strlen(map);
    if (n == 0)
        return !strchr(path, '.');
    return strncmp(path, map, n) == 0 && path[n] == '.' && !strchr(path + n + 1, '.');
}

/* Finds the nearest key of the map; returns its distance, or a large number. */
static int nearest_in(char *out, size_t size, const char *map, const char *key)
{
    struct spec_row row;
    size_t cursor = 0;
    int best = 2 * WORD;
    out[0] = '\0';
    while (spec_row_next(&row, &cursor)) {
        if (!directly_in(map, row.path))
            continue;
        int d = spec_distance(spec_row_leaf(row.path), key);
        if (d < best) {
            best = d;
            snprintf(out, size, "%s", spec_row_leaf(row.path));
        }
    }
    return best;
}

/* The nearest key of any map, with its path; returns its distance. */
static int nearest_anywhere(char *out, size_t size, const char *key)
{
    struct spec_row row;
    size_t cursor = 0;
    int best = 2 * WORD;
    while (spec_row_next(&row, &cursor)) {
        const int d = spec_distance(spec_row_leaf(row.path), key);
        if (d < best) {
            best = d;
            snprintf(out, size, "%s", row.path);
        }
    }
    return best;
}

static const struct foreign *find_foreign(const char *key)
{
    for (size_t i = 0; i < sizeof(foreigns) / sizeof(foreigns[0]); i++)
        if (spec_distance(foreigns[i].key, key) == 0)
            return &foreigns[i];
    return NULL;
}

static void list_keys(char *out, size_t size, const char *map)
{
    struct spec_row row;
    size_t cursor = 0, at = 0;
    at += (size_t)snprintf(out, size, "; valid keys are");
    const char *comma = " ";
    while (at < size && spec_row_next(&row, &cursor)) {
        if (!directly_in(map, row.path))
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s", comma, spec_row_leaf(row.path));
        comma = ", ";
    }
}

static void foreign_print(char *out, size_t size, const struct foreign *f)
{
    char tool[48] = "";
    if (f->tool)
        snprintf(tool, sizeof(tool), "that is %s%s name, ", f->tool, text_ends_with(f->tool, "s") ? "'" : "'s");
    if (f->here)
        snprintf(out, size, "; %sin jobctl use %s%s%s%s", tool, f->here, f->hint ? " (" : "",
                 f->hint ? f->hint : "", f->hint ? ")" : "");
    else
        snprintf(out, size, "; %snot supported: %s", tool, f->hint);
}

void spec_suggest(char *out, size_t size, const char *map, const char *key)
{
    char near[WORD], path[SPEC_PATH];
    const struct foreign *f = find_foreign(key);
    if (f) {
        foreign_print(out, size, f);
        return;
    }
    if (strchr(key, '.') && spec_row_find(key)) {
        snprintf(out, size, "; a dotted path is not a YAML key: write \"%.*s:\" and, indented "
                 "on the next line, the rest", (int)strcspn(key, "."), key);
        return;
    }
    const int d = nearest_in(near, sizeof(near), map, key), any = nearest_anywhere(path, sizeof(path), key);
    if (d <= 1 && strlen(key) > 1)
        snprintf(out, size, "; did you mean \"%s\"?", near);
    else if (any == 0 || (any < d && any <= tolerance(key) - 1))
        snprintf(out, size, strchr(path, '.') ? "; did you mean %s?" : "; %s belongs at the top level of the spec",
                 path);
    else if (d <= tolerance(key))
        snprintf(out, size, "; did you mean \"%s\"?", near);
    else
        list_keys(out, size, map);
}
