/* SPDX-License-Identifier: Apache-2.0 */
/* train_dir.c - see train_dir.h */
#include "engine/train/train_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/scratch.h"
#include "engine/train/train_state.h"

/* The agent's directory, else the spec's, else ./checkpoints. */
int train_dir_open(struct train *t)
{
    const char *dir = t->env->ckpt_dir         ? t->env->ckpt_dir
                      : t->spec.checkpoint_dir[0] ? t->spec.checkpoint_dir
                                                  : "checkpoints";
    char whole[PATH_MAX];
    if (scratch_mkdirs(dir, &t->err) < 0) {
        t->code = exit_code_of(&t->err) == EXIT_DATA ? EXIT_CHECKPOINT : EXIT_DONE;
        return -1;
    }
    if (!realpath(dir, whole))
        return err_set(&t->err, ERR_USAGE, "cannot find the checkpoint directory %s: %s", dir, strerror(errno));
    snprintf(t->dir, sizeof(t->dir), "%s", whole);
    return dir_identity_open(&t->dir_inode, t->dir, &t->err);
}

/* It was removed: made again where only it was removed, and not what it was in. */
static int make_anew(struct train *t)
{
    char where[PATH_MAX + 64];
    dir_identity_text(where, sizeof(where), &t->dir_inode, t->dir);
    t->code = EXIT_CHECKPOINT;
    if (mkdir(t->dir, 0700) < 0)
        return err_set(&t->err, ERR_SYSTEM, "the checkpoint directory %s %s", t->dir, where);
    progress_warning(t->progress, "the checkpoint directory %s %s; creating it again", t->dir, where);
    dir_identity_close(&t->dir_inode);
    t->code = EXIT_DONE;
    return dir_identity_open(&t->dir_inode, t->dir, &t->err);
}

int train_dir_follow(struct train *t)
{
    char now[CHECKPOINT_PATH];
    if (!train_is_first(t) || dir_identity_here(&t->dir_inode, t->dir))
        return 0;
    if (dir_identity_path(now, sizeof(now), &t->dir_inode) < 0)
        return make_anew(t);
    progress_warning(t->progress, "the checkpoint directory %s was moved to %s; checkpoints follow it", t->dir, now);
    memcpy(t->dir, now, sizeof(now));
    return 0;
}
