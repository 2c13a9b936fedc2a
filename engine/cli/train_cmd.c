/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd.c - option parsing and error reporting of the subcommands; see train_cmd.h */
#include "engine/cli/train_cmd.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/field.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/model/model.h"
#include "engine/weights/pretrained.h"

static const struct train_cmd_option *find(const struct train_cmd_option *options, const char *arg, size_t n)
{
    for (const struct train_cmd_option *o = options; o->name; o++)
        if (strlen(o->name) == n && memcmp(o->name, arg, n) == 0)
            return o;
    return NULL;
}

static int wrong(const char *name, const char *what, const char *arg, const struct train_cmd_option *options)
{
    fprintf(stderr, "jobctl-train %s: %s '%s'; options:", name, what, arg);
    for (const struct train_cmd_option *o = options; o->name; o++)
        fprintf(stderr, " %s%s", o->name, o->value ? " VALUE" : "");
    fprintf(stderr, "\n");
    return EXIT_CONFIG;
}

int train_cmd_parse(int argc, char **argv, const struct train_cmd_option *options)
{
    for (int i = 1; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        const struct train_cmd_option *o = find(options, argv[i], n);
        if (!o || (o->flag && argv[i][n] == '='))
            return wrong(argv[0], "unknown argument", argv[i], options);
        if (o->flag)
            *o->flag = true;
        else if (argv[i][n] == '=')
            *o->value = argv[i] + n + 1;
        else if (i + 1 < argc)
            *o->value = argv[++i];
        else
            return wrong(argv[0], "missing value after", argv[i], options);
    }
    for (const struct train_cmd_option *o = options; o->name; o++)
        if (o->required && !*o->value)
            return wrong(argv[0], "missing", o->name, options);
    return 0;
}

/* The file is not wrong if the machine could not read it: the next attempt may. */
static bool is_passing(int errnum)
{
    return errnum == EIO || errnum == ESTALE || errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM;
}

static json_t *load_json(const char *file, struct err *err)
{
    json_error_t why;
    FILE *f = fopen(file, "re");
    json_t *value = f ? json_loadf(f, JSON_REJECT_DUPLICATES, &why) : NULL;
    if ((!f && is_passing(errno)) || (f && ferror(f)))
        err_set_errno(err, f ? EIO : errno, "cannot read %s", file);
    else if (!f)
        err_set(err, ERR_USAGE, "cannot read %s: %m", file);
    else if (!value)
        err_set(err, ERR_USAGE, "%s:%d: %s", file, why.line, why.text);
    if (f)
        fclose(f);
    return value;
}

json_t *train_cmd_load_spec(const char *file, struct err *err)
{
    json_t *job = load_json(file, err);
    json_t *spec = json_object_get(job, "spec");
    if (!json_is_object(spec))
        return job;
    json_incref(spec);
    json_decref(job);
    return spec;
}

int train_cmd_in_scratch(int (*work)(void *arg, const char *dir, struct err *err), void *arg, struct err *err)
{
    char dir[SCRATCH_PATH];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/jobctl-train.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return err_set_errno(err, errno, "cannot make a temporary directory like %s", dir);
    int rc = work(arg, dir, err);
    scratch_remove(dir, rc == 0 ? err : NULL);
    return rc;
}

int train_cmd_fail(const char *name, const struct err *err)
{
    fprintf(stderr, "jobctl-train %s: %s\n", name, err->text);
    return exit_code_of(err);
}

int train_cmd_find_checkpoint(char *path, const char *checkpoint, const char *dir, struct err *err)
{
    if (checkpoint) {
        if (snprintf(path, CHECKPOINT_PATH, "%s", checkpoint) >= CHECKPOINT_PATH)
            return err_set(err, ERR_USAGE, "the path is too long: %.200s", checkpoint);
        return 0;
    }
    if (!dir)
        return err_set(err, ERR_USAGE, "name a checkpoint with --checkpoint, or a directory of "
                                       "checkpoints with --dir");
    int64_t newest = checkpoint_newest_step(dir); /* reads only, moves nothing */
    if (newest < 0)
        return err_set(err, ERR_USAGE, "%s holds no checkpoint", dir);
    if (snprintf(path, CHECKPOINT_PATH, "%s/step-%08lld", dir, (long long)newest) >= CHECKPOINT_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

int train_cmd_read_base(struct model *m, struct pretrained *p, const struct train_spec *spec, const json_t *notes,
                        struct err *err)
{
    char digest[MANIFEST_DIGEST];
    const char *want = field_text(notes, "base_digest");
    if (pretrained_freeze(p, m, digest, err) < 0)
        return -1;
    if (strcmp(digest, want) == 0)
        return 0;
    return err_set(err, ERR_USAGE, "train.model.weights: %s (%s) is not what the adapters were trained on (%s)",
                   spec->weights, digest, want[0] ? want : "none");
}
