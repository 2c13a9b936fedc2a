/* SPDX-License-Identifier: Apache-2.0 */
/* weights_folder.c - see weights_folder.h */
#include "engine/weights/weights_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/dir_walk.h"
#include "engine/contract/err.h"
#include "engine/hub/weights_choice.h"

static int choose(struct weights_choice *c, const char *dir, struct err *err)
{
    struct dirent *e;
    DIR *d = opendir(dir);
    int rc;
    if (!d)
        return err_set_errno(err, errno, "%s: cannot be read", dir);
    while ((rc = dir_walk_next(&e, d, dir, err)) > 0)
        weights_choice_add(c, e->d_name);
    closedir(d);
    return rc;
}

static int join(char out[PATH_MAX], const char *dir, const char *name, struct err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
        return 0;
    return err_set(err, ERR_USAGE, "%s/%s: the path is too long", dir, name);
}

/* The folder of the part, if this is a pipeline; else the directory itself. */
static int enter(char out[PATH_MAX], const char *dir, const char *part, struct err *err)
{
    if (join(out, dir, "model_index.json", err) < 0)
        return -1;
    if (access(out, F_OK) < 0)
        return snprintf(out, PATH_MAX, "%s", dir) < PATH_MAX ? 0 : err_set(err, ERR_USAGE, "%s: too long", dir);
    if (join(out, dir, part, err) < 0)
        return -1;
    if (access(out, F_OK) == 0)
        return 0;
    return err_set(err, ERR_DATA, "%s: it has a model_index.json, but no folder %s: copy the whole model", dir, part);
}

int weights_folder_find(char file[PATH_MAX], const char *dir, const char *part, struct err *err)
{
    char in[PATH_MAX];
    struct weights_choice c = {0};
    if (enter(in, dir, part, err) < 0 || choose(&c, in, err) < 0)
        return -1;
    if (c.form == 0)
        return err_set(err, ERR_DATA, "%s: no weights in this directory: no .safetensors, .pth, .pt or .bin file", in);
    if (c.files > 1)
        return err_set(err, ERR_DATA, "%s: %d files end in %s, %s among them, and no index says which belong together: "
                       "name one of them", in, c.files, weights_choice_ending(&c), c.name);
    return join(file, in, c.name, err);
}
