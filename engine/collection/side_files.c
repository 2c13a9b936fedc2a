/* SPDX-License-Identifier: Apache-2.0 */
/* side_files.c - see side_files.h */
#include "engine/collection/side_files.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

struct kept {
    char    *path;
    json_t  *all; /* NULL: there is no such file */
    uint64_t used;
};

struct side_files {
    pthread_mutex_t lock;
    uint64_t        clock;
    struct kept     kept[SIDE_FILES_KEPT];
};

int side_files_create(struct side_files **out, struct err *err)
{
    struct side_files *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "out of memory for files of captions");
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return 0;
}

static void forget(struct kept *k)
{
    free(k->path);
    json_decref(k->all);
    *k = (struct kept){0};
}

void side_files_destroy(struct side_files *s)
{
    if (!s)
        return;
    for (int i = 0; i < SIDE_FILES_KEPT; i++)
        forget(&s->kept[i]);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The file's slot, or the one used longest ago. */
static struct kept *slot_of(struct side_files *s, const char *path)
{
    struct kept *oldest = &s->kept[0];
    for (int i = 0; i < SIDE_FILES_KEPT; i++) {
        struct kept *k = &s->kept[i];
        if (k->path && strcmp(k->path, path) == 0)
            return k;
        if (k->used < oldest->used)
            oldest = k;
    }
    forget(oldest);
    return oldest;
}

static int parse(struct kept *k, const char *path, struct err *err)
{
    json_error_t why;
    FILE *in = fopen(path, "re");
    if (!in && errno != ENOENT)
        return err_set_errno(err, errno, "cannot read %s", path);
    if (in) {
        k->all = json_loadf(in, 0, &why);
        fclose(in);
        if (!k->all)
            return err_set(err, ERR_DATA, "%s:%d: not JSON: %s", path, why.line, why.text);
        if (!json_is_object(k->all)) {
            forget(k);
            return err_set(err, ERR_DATA, "%s:1: expected {\"KEY\": {\"KIND\": ...}, ...}", path);
        }
    }
    k->path = strdup(path);
    return k->path ? 0 : err_set(err, ERR_MEMORY, "out of memory for files of captions");
}

json_t *side_files_find(struct side_files *s, const char *path, const char *key, struct err *err)
{
    json_t *found = NULL;
    pthread_mutex_lock(&s->lock);
    struct kept *k = slot_of(s, path);
    if (k->path || parse(k, path, err) == 0) {
        k->used = ++s->clock;
        const json_t *o = json_object_get(k->all, key);
        found = o ? json_deep_copy(o) : NULL; /* reference counts are not shared between threads */
        if (o && !found)
            err_set(err, ERR_MEMORY, "out of memory for captions");
        if (found && !json_is_object(found)) {
            json_decref(found);
            found = NULL;
            err_set(err, ERR_DATA, "%s: \"%s\" is not an object {\"KIND\": ...}", path, key);
        }
    } else {
        forget(k);
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}
