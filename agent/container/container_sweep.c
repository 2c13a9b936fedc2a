/* SPDX-License-Identifier: Apache-2.0 */
/* container_sweep.c - see container_sweep.h */
#include "agent/container/container_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/container_command.h"
#include "agent/container/container_kind.h"
#include "agent/container/container_words.h"
#include "agent/os/subprocess.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { OPTIONS = 64, WAIT_MS = 60 * 1000 /* without a word of the runtime */ };

static int path_of(char out[PATH_MAX], const char *run_dir)
{
    return snprintf(out, PATH_MAX, "%s/container.json", run_dir) < PATH_MAX ? 0 : -1;
}

int container_sweep_note(const struct container *c, struct err *err)
{
    char path[PATH_MAX];
    if (!c->kind->apart)
        return 0;
    json_t *options = json_array(), *note = NULL;
    for (size_t i = 0; options && c->options && c->options[i]; i++)
        json_array_append_new(options, json_text(c->options[i]));
    note = json_make("{s:s, s:s, s:o}", "runtime", c->kind->name, "program", c->program, "options",
                     options);
    const int fd = note && path_of(path, c->run_dir) == 0 ? safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, NULL) : -1;
    int rc = fd >= 0 && json_file_put(note, fd, JSON_COMPACT) == 0
                 ? 0 : err_set(err, ERR_SYSTEM, "cannot write container.json in %.300s: %s", c->run_dir, strerror(errno));
    if (fd >= 0)
        close(fd);
    json_decref(note);
    return rc;
}

/* Its file; NULL: no containers, or none that this build knows. */
static json_t *read_note(const char *run_dir)
{
    char path[PATH_MAX];
    json_t *note = path_of(path, run_dir) == 0 ? safe_open_json(path, 0, NULL) : NULL;
    if (note && container_kind_of(field_text(note, "runtime")) &&
        field_text(note, "program")[0] == '/')
        return note;
    json_decref(note);
    return NULL;
}

static int run(const char *const *argv, struct err *err)
{
    char text[200];
    struct buf out[2] = {{0}, {0}};
    const struct subprocess_spec s = {.argv = argv, .in = SUBPROCESS_NULL, .out = SUBPROCESS_PIPE,
                                      .err = SUBPROCESS_PIPE, .session = true};
    int rc = subprocess_run(&s, out, WAIT_MS, err);
    if (rc >= 0 && strstr(subprocess_text(&out[0]), CONTAINER_REMOVED))
        rc = 0;
    else if (rc >= 0) {
        snprintf(text, sizeof(text), "%s", subprocess_text(&out[1]));
        text[strcspn(text, "\n")] = '\0';
        rc = err_set(err, ERR_SYSTEM, "containers of the job may still run: %s", text[0] ? text : "the runtime failed");
    }
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return rc;
}

int container_sweep(const char *run_dir, const char *nonce, bool all, struct err *err)
{
    const char *options[OPTIONS + 1] = {NULL};
    struct container_words w = {.word = NULL};
    size_t i;
    json_t *option, *note = read_note(run_dir);
    if (!note)
        return 0;
    json_array_foreach (json_object_get(note, "options"), i, option)
        if (i < OPTIONS)
            options[i] = json_string_value(option);
    container_remove(&w, &(struct container){.kind = container_kind_of(field_text(note, "runtime")),
                                             .program = field_text(note, "program"), .options = options,
                                             .nonce = nonce, .run_dir = all ? NULL : run_dir});
    int rc = w.n == 0 ? 0 : run(container_words_end(&w), err);
    container_words_fini(&w);
    json_decref(note);
    return rc;
}
