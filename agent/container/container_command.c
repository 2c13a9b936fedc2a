/* SPDX-License-Identifier: Apache-2.0 */
/* container_command.c - see container_command.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_command.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/container/container_image.h"
#include "agent/container/container_kind.h"
#include "agent/container/container_words.h"

enum { LIST_TEXT = 32768 };

/* --- options of the user ------------------------------------------------------------------------ */

static bool is_global(const struct container_kind *kind, const char *option)
{
    const size_t n = strcspn(option, "=");
    for (const char *const *g = kind->globals; g && *g; g++)
        if (strlen(*g) == n && strncmp(*g, option, n) == 0)
            return true;
    return false;
}

static void add_options(struct container_words *out, const struct container *c, bool global)
{
    for (size_t i = 0; c->options && c->options[i]; i++)
        if (is_global(c->kind, c->options[i]) == global)
            container_words_add(out, c->options[i]);
}

static void begin(struct container_words *out, const struct container *c)
{
    container_words_add(out, c->program);
    add_options(out, c, true);
}

/* Does the user set this limit? Twice the same is an error of the runtime. */
static bool sets_limit(const struct container *c, const char *limit)
{
    const size_t n = strcspn(limit, "=") + 1, prefix = strlen("--ulimit=");
    for (size_t i = 0; c->options && c->options[i]; i++)
        if (strncmp(c->options[i], "--ulimit=", prefix) == 0 && strncmp(c->options[i] + prefix, limit, n) == 0)
            return true;
    return false;
}

/* --- lists ---------------------------------------------------------------------------------------- */

struct list {
    struct container_words *out;
    const struct container_form *form;
    char text[LIST_TEXT]; /* of the one word */
};

static void add_item(struct list *l, const char *item)
{
    const size_t at = strlen(l->text);
    if (!l->form->join)
        container_words_print(l->out, "%s%s", l->form->word, item);
    else
        snprintf(l->text + at, sizeof(l->text) - at, "%s%s", at ? l->form->join : l->form->word, item);
}

static void end_list(const struct list *l)
{
    if (l->text[0])
        container_words_print(l->out, "%s%s", l->text, l->form->end ? l->form->end : "");
}

static void add_mounts(struct container_words *out, const struct container *c)
{
    struct list l = {.out = out, .form = &c->kind->mounts};
    char item[2 * 1100 + 32];
    for (int i = 0; i < c->n_mounts; i++) {
        snprintf(item, sizeof(item), "%s%s%s%s", c->mounts[i].from, c->kind->mount_to, c->mounts[i].to,
                 c->mounts[i].read_only ? c->kind->mount_ro : "");
        add_item(&l, item);
    }
    end_list(&l);
}

static void add_gpus(struct container_words *out, const struct container *c)
{
    struct list l = {.out = out, .form = &c->kind->gpus};
    for (size_t i = 0; l.form->word && c->gpus && c->gpus[i]; i++)
        add_item(&l, c->gpus[i]);
    end_list(&l);
    if (c->kind->gpu_flag && c->gpus && c->gpus[0])
        container_words_add(out, c->kind->gpu_flag);
}

static void add_env(struct container_words *out, const struct container *c)
{
    const struct container_form by_name = {.word = c->kind->env_names, .join = ","};
    struct list values = {.out = out, .form = &c->kind->env}, names = {.out = out, .form = &by_name};
    char name[256];
    for (size_t i = 0; c->env && c->env[i]; i++) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(c->env[i], "="), c->env[i]);
        if (!c->kind->env_values || strchr(c->env[i], '='))
            add_item(&values, c->env[i]);
        if (by_name.word)
            add_item(&names, name);
    }
    end_list(&values);
    end_list(&names);
}

/* --- running ---------------------------------------------------------------------------------------- */

/* The user of the agent, with the same number inside and outside. */
static void add_user(struct container_words *out, const struct container *c)
{
    if (c->rootless) {
        container_words_add(out, c->kind->rootless);
        return;
    }
    container_words_print(out, "--user=%u:%u", c->uid, c->gid);
    for (int i = 0; i < c->n_groups; i++)
        container_words_print(out, "--group-add=%u", c->groups[i]);
}

/* podman and docker find the containers of a job again by its labels. */
static void add_stored(struct container_words *out, const struct container *c)
{
    container_words_print(out, "--name=%s", c->name);
    container_words_print(out, "--label=jobctl.job=%lld", (long long)c->job);
    container_words_print(out, "--label=jobctl.nonce=%s", c->nonce);
    container_words_print(out, "--label=jobctl.run_dir=%s", c->run_dir);
    for (size_t i = 0; c->limits && c->limits[i]; i++)
        if (!sets_limit(c, c->limits[i]))
            container_words_print(out, "--ulimit=%s", c->limits[i]);
    add_user(out, c);
}

/* A step of Slurm. */
static void add_step(struct container_words *out, const struct container *c)
{
    container_words_print(out, "--nodelist=%s", c->node ? c->node : "");
    container_words_print(out, "--job-name=%s", c->name);
}

void container_run(struct container_words *out, const struct container *c, const char *const *argv)
{
    const struct container_kind *kind = c->kind;
    begin(out, c);
    container_words_add_all(out, kind->verb);
    if (!kind->file)
        add_stored(out, c);
    else if (kind->apart)
        add_step(out, c);
    add_gpus(out, c);
    if (kind->cpus && c->cpus)
        container_words_print(out, "%s%s", kind->cpus, c->cpus);
    add_mounts(out, c);
    container_words_print(out, "%s%s", kind->workdir, c->workdir);
    add_env(out, c);
    if (kind->descriptors && kind->descriptors[0] && c->descriptors > 0)
        container_words_print(out, "%s%d", kind->descriptors, c->descriptors);
    add_options(out, c, false);
    if (!kind->file)
        container_words_print(out, "--entrypoint=%s", argv[0]);
    container_words_print(out, "%s%s", kind->image, !kind->file ? container_image_short(c->image)
                                                    : c->file ? c->file : c->image);
    container_words_add_all(out, kind->file ? argv : argv + 1);
}

/* --- pulling ------------------------------------------------------------------------------------------ */

/* $1: the image, $2: the same with its registry; then the runtime. podman ends with 0 when SIGTERM ends a pull. */
static const char pull_of_engine[] =
    "image=$1 full=$2; shift 2\n"
    "\"$@\" image inspect \"$image\" >/dev/null 2>&1 && { echo \"image $image is on this node\"; exit 0; }\n"
    "echo \"pulling $full\"\n"
    "\"$@\" pull \"$full\" && \"$@\" image inspect \"$full\" >/dev/null\n";

/* $1: the file; then a command that makes a file from an image, which two `@` stand for.  One job at a time pulls. */
static const char pull_of_file[] =
    "file=$1 from=$2; shift 2\n"
    "[ -e \"$file\" ] && { echo \"image $file is on this node\"; exit 0; }\n"
    "mkdir -p \"${file%/*}\" || exit\n"
    "exec 9>\"$file.lock\" && flock 9\n"
    "[ -e \"$file\" ] && exit 0\n"
    "rm -f \"$file.part\"\n"
    "echo \"pulling $from\"\n"
    "\"$@\" \"$file.part\" \"$from\" && mv \"$file.part\" \"$file\"\n";

void container_pull(struct container_words *out, const struct container *c)
{
    char name[CONTAINER_IMAGE_NAME + 16];
    const bool stored = !c->kind->file;
    if (!stored && !c->file)
        return;
    if (c->kind->beside)
        container_image_enroot(name, c->image);
    else
        container_image_full(name, c->image);
    container_words_add_all(out, (const char *const[]){"/bin/sh", "-c", stored ? pull_of_engine : pull_of_file, "jobctl",
                                                       stored ? container_image_short(c->image) : c->file, NULL});
    container_words_print(out, "%s%s", stored || c->kind->beside ? "" : "docker://", name);
    if (!c->kind->beside)
        begin(out, c);
    container_words_add_all(out, c->kind->pull);
}

/* --- what is left ---------------------------------------------------------------------------------------- */

/* $1: the nonce, $2: the run directory or ""; then the runtime. */
static const char remove_all[] =
    "nonce=$1 dir=$2; shift 2\n"
    "ids=$(\"$@\" ps --all --quiet --no-trunc --filter=\"label=jobctl.nonce=$nonce\" "
    "${dir:+\"--filter=label=jobctl.run_dir=$dir\"}) || exit\n"
    "[ -z \"$ids\" ] || \"$@\" rm --force $ids || exit\n"
    "echo '" CONTAINER_REMOVED "'\n";

void container_remove(struct container_words *out, const struct container *c)
{
    if (c->kind->file)
        return;
    container_words_add_all(out, (const char *const[]){"/bin/sh", "-c", remove_all, "jobctl", c->nonce,
                                                       c->run_dir ? c->run_dir : "", NULL});
    begin(out, c);
}
