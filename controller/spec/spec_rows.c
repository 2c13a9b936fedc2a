/* SPDX-License-Identifier: Apache-2.0 */
/* spec_rows.c - the job-level table; see spec_rows.h
 *
 * The rows are in the order of the canonical JSON.  A map without a default is
 * always present, filled from its rows; one with the default `null` only if the
 * file has it.  Defaults are canonical JSON; those of name and workdir depend on
 * the file (jobspec.c).
 */
#include "controller/spec/spec_rows.h"

#include <stdio.h>
#include <string.h>

#define AUTO "\"auto\""

/* clang-format off */
static const struct spec_field fields[] = {
    {.path = "name", .type = FIELD_STRING, .def = "\"\"",
     .help = "letters, digits, '.', '_' and '-', at most 64; default: the file's name without suffix"},
    {.path = "resources", .type = FIELD_MAP, .help = "what the job needs"},
    {.path = "resources.nodes", .type = FIELD_INT, .min = 1, .max = 4096, .def = "1",
     .help = "number of nodes; num_nodes at the top means the same"},
    {.path = "resources.min_nodes", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 4096, .def = AUTO,
     .help = "minimum after a node is lost and no other is free; auto = 1 for train, nodes for "
             "run"},
    {.path = "resources.gpus", .type = FIELD_INT, .choices = "one", .auto_ok = true, .min = 0, .max = 64, .def = AUTO,
     .help = "per node; auto = every distinct healthy GPU that is free, 0 = none; one per rank if there are any (default "
             "in sweeps)"},
    {.path = "resources.ranks", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 1024, .def = AUTO,
     .help = "processes per node; auto = one per GPU, or 1 without a GPU"},
    {.path = "resources.share_gpus", .type = FIELD_BOOL, .def = "false",
     .help = "allow more ranks than GPUs, and GPUs used by other processes"},
    {.path = "resources.cpus", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 4096, .def = AUTO,
     .help = "CPU slots per node; auto = all for train, 1 per rank for run"},
    {.path = "launch", .type = FIELD_ENUM, .choices = "local|ssh|slurm", .auto_ok = true, .def = AUTO,
     .help = "where the job runs; auto = local"},
    {.path = "env", .type = FIELD_STRING_MAP, .def = "{}",
     .help = "added to each rank's environment; overrides jobctl's settings"},
    {.path = "env_from", .type = FIELD_ENUM, .choices = "submit|clean", .def = "\"submit\"",
     .help = "environment of the ranks here and on Slurm: the submitter's, or a plain login's; SSH hosts keep theirs"},
    {.path = "workdir", .type = FIELD_PATH, .def = "\"\"", .help = "working directory of ranks; "
                                                                   "default: the file's folder"},
    {.path = "image", .type = FIELD_MAP, .def = "null",
     .help = "container image of a `run:` job, or a map (docs/YOUR-SCRIPT.md)"},
    {.path = "image.image", .type = FIELD_STRING,
     .help = "name as in docker pull, or the path of a .sif or .sqsh file; image: NAME is short for it"},
    {.path = "image.runtime", .type = FIELD_ENUM, .choices = "podman|docker|apptainer|singularity|enroot",
     .auto_ok = true, .def = AUTO, .help = "auto = the first of these that the node has"},
    {.path = "image.mounts", .type = FIELD_STRINGS, .def = "[]",
     .help = "more paths for the container: SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro"},
    {.path = "image.options", .type = FIELD_STRINGS, .def = "[]",
     .help = "more options of the runtime, each with its value as one text, such as --shm-size=8g"},
    {.path = "setup", .type = FIELD_STRING, .def = "null",
     .help = "shell text, run once per node before the ranks"},
    {.path = "run", .type = FIELD_STRING, .def = "null",
     .help = "shell text, run once per rank; exactly one of run and train"},
    {.path = "train", .type = FIELD_MAP, .def = "null",
     .help = "the built-in engine; exactly one of run and train"},
    {.path = "checkpoint", .type = FIELD_MAP, .help = "when and where checkpoints are saved"},
    {.path = "checkpoint.every", .type = FIELD_EVERY, .def = "{\"steps\":500}",
     .help = "\"500 steps\" or a duration such as 10m"},
    {.path = "checkpoint.keep", .type = FIELD_INT, .min = 1, .max = 10000, .def = "3",
     .help = "number of newest checkpoints to keep"},
    {.path = "checkpoint.dir", .type = FIELD_PATH, .auto_ok = true, .def = AUTO,
     .help = "auto = the job's own directory"},
    {.path = "checkpoint.mirror", .type = FIELD_PATH,
     .help = "durable directory (such as a mounted drive) for a copy of each checkpoint; see jobctl adopt"},
    {.path = "resume", .type = FIELD_STRING, .def = "\"latest\"",
     .help = "latest, none, or a checkpoint's path"},
    {.path = "retry", .type = FIELD_MAP, .help = "what happens after a failure"},
    {.path = "retry.max", .type = FIELD_INT, .auto_ok = true, .min = 0, .max = 100000, .def = AUTO,
     .help = "restarts without progress before the job ends; auto = 10, and none for a command that fails within 2 min "
             "without a sign of training"},
    {.path = "retry.backoff", .type = FIELD_RANGE, .min = 0, .max = 86400, .def = "[5.0,300.0]",
     .help = "pause before the second and later restarts without progress"},
    {.path = "retry.no_progress", .type = FIELD_INT, .min = 1, .max = 100000, .def = "3",
     .help = "identical failures in a row without progress before the job ends with exit code 93"},
    {.path = "retry.same_line", .type = FIELD_INT, .min = 0, .max = 100000, .def = "2",
     .help = "the same for one exception at one line of a script before its first step; 0 = as no_progress"},
    {.path = "retry.same_line_within", .type = FIELD_DURATION, .min = 0, .max = 31536000, .def = "60.0",
     .help = "only for failures this soon after the start"},
    {.path = "retry.disk_wait", .type = FIELD_DURATION, .min = 0, .max = 31536000, .def = "1800.0",
     .help = "time that training pauses, with its GPUs, until a checkpoint fits on its disk"},
    {.path = "secrets", .type = FIELD_STRINGS, .def = "[]",
     .help = "names of variables taken from the submitter's environment; values are kept in a private file until the "
             "job's end"},
    {.path = "after", .type = FIELD_STRINGS, .def = "[]",
     .help = "ids or names of jobs that must succeed before this one starts; afterany:JOB: end, "
             "afternotok:JOB: not succeed"},
    {.path = "priority", .type = FIELD_INT, .min = -1000, .max = 1000, .def = "0",
     .help = "jobs with a higher priority start first"},
    {.path = "max_duration", .type = FIELD_DURATION, .min = 1, .max = 31536000, .def = "null",
     .help = "time after which the job is stopped"},
    {.path = "array", .type = FIELD_STRING,
     .help = "one job per index, passed as JOBCTL_ARRAY_INDEX: 0-99%8 (at most 8 at once), 0-15:4, 1,3,7; "
             "with sweep: only these points"},
    {.path = "sweep", .type = FIELD_STRING_MAP,
     .help = "one job per point: a grid, {train.optimizer.lr: [1.0e-4, 3.0e-4], train.seed: 1-4}, or a list of points"},
    {.path = "max_parallel", .type = FIELD_INT, .min = 1, .max = 10000,
     .help = "maximum members of a sweep or array that are started and not done; default: as many as fit "
             "(slurm: 64)"},
    {.path = "hosts", .type = FIELD_STRINGS,
     .help = "for launch: ssh: names as in ~/.ssh/config, or groups of config.yaml; the first "
             "free ones are used"},
    {.path = "slurm", .type = FIELD_MAP, .def = "null",
     .help = "options for launch: slurm; resources.gpus and cpus are per node"},
    {.path = "slurm.partition", .type = FIELD_STRING, .def = "null", .help = "null = Slurm's default"},
    {.path = "slurm.account", .type = FIELD_STRING, .def = "null", .help = "account to charge; "
                                                                           "null = your default"},
    {.path = "slurm.time", .type = FIELD_DURATION, .min = 60, .max = 31536000, .def = "null",
     .help = "time limit of an allocation, in whole minutes; null = the partition's"},
    {.path = "slurm.grace", .type = FIELD_DURATION, .min = 10, .max = 3600, .def = "120.0",
     .help = "minimum time before the limit to save and stop; a new allocation continues"},
    {.path = "slurm.gres", .type = FIELD_STRING, .def = "null",
     .help = "request GPUs with --gres, such as gpu or gpu:a100; null = with --gpus-per-node"},
    {.path = "slurm.extra", .type = FIELD_STRING_MAP, .def = "{}",
     .help = "more sbatch options: constraint, exclude, exclusive, licenses, mem, nodelist, qos, "
             "reservation"},
    {.path = "watch", .type = FIELD_ITEMS, .def = "[]",
     .help = "rules for the output of ranks, such as {name: loss, pattern: 'loss:([0-9.]+)', every: 10m}"},
    {.path = "watch[].name", .type = FIELD_STRING, .help = "name of the rule in messages; required"},
    {.path = "watch[].pattern", .type = FIELD_STRING,
     .help = "extended regular expression for a line; its first group is the number; required"},
    {.path = "watch[].every", .type = FIELD_DURATION, .min = 0.1, .max = 31536000, .def = "null",
     .help = "maximum time between two matching lines"},
    {.path = "watch[].start_within", .type = FIELD_DURATION, .min = 0.1, .max = 31536000, .def = "null",
     .help = "maximum time until the first match"},
    {.path = "watch[].below", .type = FIELD_NUMBER, .min = -1e300, .max = 1e300, .def = "null",
     .help = "upper limit of the number; nan violates it"},
    {.path = "watch[].action", .type = FIELD_ENUM, .choices = "restart|warn", .def = "\"restart\"",
     .help = "what to do if a rule is violated"},
    {.path = "grace", .type = FIELD_DURATION, .min = 0, .max = 86400,
     .help = "time to save and end after a stop: cancel, max_duration, preemption; 30s if left out"},
    {.path = "stop_signal", .type = FIELD_ENUM, .choices = "SIGTERM|SIGINT|SIGUSR1|SIGUSR2|SIGHUP|SIGQUIT",
     .help = "signal that asks a `run:` job to end; SIGTERM if left out"},
    {.path = "stop_to", .type = FIELD_ENUM, .choices = "main|session",
     .help = "who gets it first: main (default), the programs below the shell, or session, all processes"},
    {.path = "checkpoint_signal", .type = FIELD_ENUM, .choices = "SIGINT|SIGUSR1|SIGUSR2|SIGHUP|SIGQUIT",
     .help = "signal on which a `run:` job writes a checkpoint, for jobctl checkpoint"},
    {.path = "progress", .type = FIELD_STRING,
     .help = "how step, loss and speed are read from the output of a `run:` job: auto (default), off, or a "
             "pattern such as \"it {step}/{steps} loss={loss}\""},
    {.path = "hang", .type = FIELD_MAP, .help = "time limits; if a rank exceeds one, all ranks "
                                                "restart"},
    {.path = "hang.step", .type = FIELD_DURATION, .auto_ok = true, .min = 0.5, .max = 31536000, .def = AUTO,
     .help = "limit for each phase of a step; auto = 4 times its usual maximum, at least 5s (run: "
             "5m without a sign of life)"},
    {.path = "hang.first_step", .type = FIELD_DURATION, .min = 1, .max = 31536000, .def = "300.0",
     .help = "limit for the first step"},
    {.path = "hang.silent", .type = FIELD_DURATION, .auto_ok = true, .min = 0.5, .max = 31536000, .def = AUTO,
     .help = "limit for no sign of life from any rank; auto = 4 times the longest quiet time, at "
             "least 1m (first hour: 10m, with regular steps 100s; train: none)"},
    {.path = "snapshot", .type = FIELD_BOOL,
     .help = "true: the job runs in a copy of the workdir as it was when submitted; false: in the workdir itself; if "
             "left out, true on SSH hosts that do not share the workdir"},
    {.path = "notify", .type = FIELD_MAP, .def = "null",
     .help = "who gets messages about this job (docs/MONITORING.md); null = every target in config.yaml, with "
             "its own settings"},
    {.path = "notify.on", .type = FIELD_STRINGS,
     .help = "some of done, failed, recovering, hung and budget; default: each target's list in config.yaml"},
    {.path = "notify.to", .type = FIELD_STRINGS,
     .help = "names of targets in config.yaml, [] for nobody; default: all"},
    {.path = NULL},
};

static const struct { const char *from, *to; } aliases[] = {
    {"num_nodes", "resources.nodes"},
    {NULL, NULL},
};
/* clang-format on */

static int join(struct spec_row *row, const char *prefix, const struct spec_field *f)
{
    snprintf(row->path, sizeof(row->path), "%s%s", prefix, f->path);
    row->field = f;
    return 1;
}

/* The rows of `train:` follow the row "train". */
int spec_row_next(struct spec_row *row, size_t *cursor)
{
    const struct spec_field *train = train_spec_fields();
    size_t at = (*cursor)++;
    for (size_t i = 0; fields[i].path; i++) {
        if (at == 0)
            return join(row, "", &fields[i]);
        at--;
        if (strcmp(fields[i].path, "train") != 0)
            continue;
        for (size_t t = 0; train[t].path; t++, at--)
            if (at == 0)
                return join(row, "train.", &train[t]);
    }
    return 0;
}

const struct spec_field *spec_row_find(const char *path)
{
    const struct spec_field *rows = fields;
    if (strncmp(path, "train.", 6) == 0) {
        rows = train_spec_fields();
        path += 6;
    }
    for (; rows->path; rows++)
        if (strcmp(rows->path, path) == 0)
            return rows;
    return NULL;
}

const char *spec_row_alias(const char *path)
{
    for (size_t i = 0; aliases[i].from; i++)
        if (strcmp(aliases[i].from, path) == 0)
            return aliases[i].to;
    return NULL;
}

const char *spec_row_leaf(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}
