/* SPDX-License-Identifier: Apache-2.0 */
/* code_send.c - see code_send.h */
#include "controller/ssh/code_send.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/code/code_manifest.h"
#include "agent/code/code_receive.h"
#include "agent/code/code_tree.h"
#include "controller/ssh/host_command.h"
#include "controller/ssh/login.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { PIECE = 64 * 1024, PATH = PATH_MAX + CODE_PATH, MAKE_S = 300 };

struct sender {
    struct host_talk talk;
    const char      *host;
    json_t          *info, *manifest, *answer;
    bool             damaged;       /* a file of the original cannot be read */
    char             original[PATH];
};

/* HOME/code/DIGEST, from HOME/jobs/ID/code. */
static int find_original(struct sender *w, const char *code, struct err *err)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%.4000s/info.json", code);
    w->info = safe_open_json(path, 0, err);
    if (!w->info || !code_digest_ok(field_text(w->info, "snapshot")))
        return err_set(err, ERR_USAGE, "%s does not name the job's code", path);
    snprintf(path, sizeof(path), "%.4000s", code);
    for (int up = 0; up < 3 && strrchr(path, '/'); up++)
        *strrchr(path, '/') = '\0';
    snprintf(w->original, sizeof(w->original), "%.4000s/code/%s", path, field_text(w->info, "snapshot"));
    snprintf(path, sizeof(path), "%.4200s/" CODE_MANIFEST, w->original);
    w->manifest = safe_open_json(path, 0, err);
    return w->manifest ? code_manifest_check(w->manifest, err) : -1;
}

static int offer(struct sender *w, struct err *err)
{
    const char *workdir = field_text(w->info, "workdir");
    char *list = json_dumps(w->manifest, JSON_COMPACT), *line = NULL;
    json_t *v = json_make("{s:s, s:s, s:b, s:o*, s:I}", "digest", field_text(w->info, "snapshot"), "workdir", workdir,
                          "must", (int)field_true(w->info, "must"), "here", code_receive_look(workdir, w->manifest),
                          "manifest_bytes", (json_int_t)(list ? strlen(list) : 0));
    int rc = -1;
    if (v && list && (line = json_dumps(v, JSON_COMPACT)))
        rc = host_talk_send(&w->talk, line, strlen(line), err) < 0 || host_talk_send(&w->talk, "\n", 1, err) < 0
                 ? -1 : host_talk_send(&w->talk, list, strlen(list), err);
    else
        err_set(err, ERR_MEMORY, "out of memory for a list of files");
    json_decref(v);
    free(list);
    free(line);
    return rc;
}

static int hear(struct sender *w, struct err *err)
{
    char *line = malloc(CODE_ANSWER);
    int rc = line ? host_talk_line(&w->talk, line, CODE_ANSWER, err) : err_set(err, ERR_MEMORY, "out of memory");
    json_decref(w->answer);
    w->answer = rc == 0 ? json_loads(line, 0, NULL) : NULL;
    if (rc == 0 && !json_is_object(w->answer))
        rc = err_set(err, ERR_SYSTEM, "%s does not answer as jobctl-agent: %.200s", w->host, line);
    free(line);
    return rc;
}

static int send_entry(struct sender *w, size_t i, struct err *err)
{
    static char bytes[PIECE];
    char path[2 * PATH];
    const struct code_entry e = code_manifest_at(w->manifest, i);
    if (i >= code_manifest_count(w->manifest) || e.kind == CODE_LINK)
        return err_set(err, ERR_SYSTEM, "%s asks for a file that is not in the snapshot", w->host);
    snprintf(path, sizeof(path), "%s/" CODE_TREE "/%s", w->original, e.path);
    const int fd = safe_open(path, O_RDONLY, NULL);
    int rc = 0;
    for (int64_t sent = 0; rc == 0 && sent < e.bytes;) {
        const ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
        w->damaged = n <= 0 || sent + n > e.bytes;
        if (w->damaged)
            rc = err_set(err, ERR_USAGE, "%s has changed since the snapshot was taken; submit the job again", path);
        else if ((rc = host_talk_send(&w->talk, bytes, (size_t)n, err)) == 0)
            sent += n;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int send_missing(struct sender *w, struct err *err)
{
    json_t *missing = json_incref(json_object_get(w->answer, "missing")), *index;
    size_t i;
    int rc = 0;
    json_array_foreach (missing, i, index)
        if (rc == 0)
            rc = send_entry(w, (size_t)json_integer_value(index), err);
    json_decref(missing);
    login_deadline(w->host, MAKE_S);    /* the copy may take its disk long */
    return rc < 0 ? -1 : hear(w, err);
}

static int converse(struct sender *w, struct err *err)
{
    if (offer(w, err) < 0 || hear(w, err) < 0)
        return -1;
    return json_is_array(json_object_get(w->answer, "missing")) ? send_missing(w, err) : 0;
}

int code_send(ssh_session s, const char *host, const char *command, const char *code, bool *began, char *wrong,
              size_t wrong_size, int *status, struct err *err)
{
    struct sender w = {.host = host};
    int rc = find_original(&w, code, err);
    *began = false;
    *status = 0;
    if (rc == 0 && (rc = host_talk_open(&w.talk, s, host, command, CODE_READY, began, err)) == 0) {
        struct err why = {.code = ERR_NONE};
        rc = *began ? converse(&w, &why) : 0;
        host_talk_close(&w.talk, wrong, wrong_size, status);
        if (rc < 0)
            err_set(err, host_command_lacks_home(*status) ? ERR_USAGE : why.code, "%s", wrong[0] && !w.damaged ? wrong : why.text);
    }
    json_decref(w.info);
    json_decref(w.manifest);
    json_decref(w.answer);
    return rc < 0 ? err_prefix(err, "the job's code cannot be copied to %s: ", host) : 0;
}
