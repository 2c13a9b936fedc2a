/* SPDX-License-Identifier: Apache-2.0 */
/* rejoin.c - see rejoin.h */
#include "engine/train/rejoin.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/progress.h"

enum { LIST = 2048 };

bool rejoin_offered(const struct progress *p)
{
    const char *word = getenv("JOBCTL_REJOIN");
    return progress_has_agent(p) && word && strcmp(word, "1") == 0;
}

/* Closes the descriptors that the variable lists. */
static void close_listed(const char *name)
{
    const char *text = getenv(name);
    for (char *end; text && *text; text = *end ? end + 1 : end) {
        long fd = strtol(text, &end, 10);
        if (end == text)
            return;
        if (fd >= 3)
            close((int)fd);
    }
}

/* Opens the agent's files and lists the descriptors in a variable. If one cannot be opened, none is listed:
 * without memory a run resumes from checkpoints. */
static void open_listed(const char *name, const json_t *paths)
{
    char list[LIST] = "";
    size_t i, n = 0;
    json_t *path;
    close_listed(name);
    unsetenv(name);
    json_array_foreach (paths, i, path) {
        const char *text = json_string_value(path);
        int fd = text ? open(text, O_RDWR | O_CLOEXEC) : -1;
        if (fd >= 0)
            n += (size_t)snprintf(list + n, n < LIST ? LIST - n : 0, "%s%d", i ? "," : "", fd);
        if (fd < 0 || n >= LIST) {
            if (fd >= 0)
                close(fd);
            return;
        }
    }
    if (n)
        setenv(name, list, 1);
}

static void take(const json_t *word)
{
    const char *name;
    json_t *value, *env = json_object_get(word, "env");
    json_t *snapshot = json_object_get(word, "snapshot");
    json_object_foreach (env, name, value) {
        if (json_is_string(value))
            setenv(name, json_string_value(value), 1);
        else
            unsetenv(name);
    }
    json_t *one = json_array();
    if (one && json_is_string(snapshot))
        json_array_append(one, snapshot);
    open_listed("JOBCTL_SNAPSHOT_FD", one);
    open_listed("JOBCTL_SNAPSHOT_OLD", json_object_get(word, "old"));
    json_decref(one);
}

bool rejoin_wait(struct progress *p, int timeout_ms, struct err *err)
{
    const int64_t until = clock_ms() + timeout_ms;
    for (;;) {
        const bool stop = progress_poll(p) == CMD_STOP;
        json_t *word = progress_rejoin(p);
        if (word && !stop) {
            take(word);
            json_decref(word);
            return true;
        }
        json_decref(word);
        const int64_t left = until - clock_ms();
        if (stop || left <= 0) {
            err_set(err, ERR_CONFLICT, "%s", stop ? "a stop command arrived first"
                                                  : "no command arrived from the agent in time");
            return false;
        }
        progress_wait(p, (int)left);
    }
}
