/* SPDX-License-Identifier: Apache-2.0 */
/* log_copy.c - see log_copy.h */
#include "controller/remote/log_copy.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/os/log_reader.h"
#include "agent/ranks/capture.h"
#include "agent/wire/log_feed.h"
#include "engine/base/err.h"

static int64_t size_of(const char *path)
{
    struct log_reader c = { 0 };
    log_reader_read(&c, path, 0, NULL);
    free(c.data);
    return c.size > 0 ? c.size : 0;
}

json_t *log_copy_have(const char *run_dir)
{
    json_t *have = json_object();
    DIR *d = opendir(run_dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        if (!log_feed_carries(e->d_name))
            continue;
        snprintf(path, sizeof(path), "%.3800s/%s", run_dir, e->d_name);
        json_object_set_new(have, e->d_name, json_integer(size_of(path)));
    }
    if (d)
        closedir(d);
    return have;
}

int log_copy_take(const char *run_dir, const json_t *body, struct err *err)
{
    const char *file = json_string_value(json_object_get(body, "file"));
    const int64_t offset = json_integer_value(json_object_get(body, "offset"));
    char path[PATH_MAX];
    size_t size = 0;
    if (!file || !log_feed_carries(file) || offset < 0)
        return err_set(err, ERR_DATA, "an agent sent an invalid log name: %.60s", file ? file : "?");
    char *bytes = log_feed_bytes(json_object_get(body, "data"), &size);
    if (!bytes)
        return err_set(err, ERR_DATA, "an agent sent an empty part of %s", file);
    snprintf(path, sizeof(path), "%.3800s/%s", run_dir, file);
    const int64_t have = size_of(path);
    const size_t known = have > offset ? (size_t)(have - offset) : 0;
    struct capture *c = NULL;
    int rc = 0;
    if (offset > have)
        capture_begin_at(path, offset);     /* the writer dropped the bytes in between */
    if (known < size && (rc = capture_open(&c, path, CAPTURE_BYTES, err)) == 0)
        capture_write(c, bytes + known, size - known);
    capture_close(c);
    free(bytes);
    return rc;
}
