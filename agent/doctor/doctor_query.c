/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_query.c - see doctor_query.h */
#include "agent/doctor/doctor_query.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/doctor/consistency.h"
#include "agent/doctor/doctor.h"
#include "agent/doctor/reachability.h"
#include "agent/os/subprocess.h"
#include "agent/plan/plan_internal.h"
#include "agent/probe/probe.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { PATIENCE_MS = 60000 };

struct query {
    const char *train;
    char left[PATH_MAX]; /* a file created here, "" = none */
};

/* --- the answers: a new object, or NULL and err -------------------------------------------------
 */

/* The engine reads a spec from a file: writes a temporary one. */
static int write_spec(char path[PATH_MAX], const json_t *spec, struct err *err)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, PATH_MAX, "%s/jobctl-spec.XXXXXX", dir && dir[0] ? dir : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    int rc = fd >= 0 ? json_file_put(spec, fd, JSON_COMPACT) : -1;
    if (fd >= 0)
        close(fd);
    if (rc < 0 && fd >= 0)
        unlink(path);
    return rc < 0 ? err_set(err, ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno)) : 0;
}

static json_t *look(struct query *v, const json_t *question, struct err *err)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME"), *dir = home && home[0] ? home : "/";
    const json_t *spec = json_object_get(question, "spec");
    json_t *facts = write_spec(path, spec, err) == 0 ? probe_facts(dir, err) : NULL;
    if (!facts)
        return NULL;
    doctor_try(facts, v->train, NULL);
    json_t *looked = doctor_look(v->train, spec, path, dir);
    json_object_del(looked, "peers"); /* their doctors check the way here themselves */
    json_t *answer = looked ? doctor_check(facts, spec, looked) : NULL;
    unlink(path);
    if (answer) {
        json_object_set(answer, "hostname", json_object_get(facts, "hostname"));
        json_object_set(answer, "versions", json_object_get(looked, "versions"));
        json_object_set(answer, "train", json_object_get(looked, "train"));
        json_object_set_new(answer, "consistency", consistency_list(spec));
        json_object_set(answer, "facts", facts);
    } else {
        err_set(err, ERR_MEMORY, "no memory to check this node");
    }
    json_decref(looked);
    json_decref(facts);
    return answer;
}

static json_t *tell_facts(struct query *v, const json_t *question, struct err *err)
{
    const char *home = getenv("HOME");
    json_t *facts = probe_facts(home && home[0] ? home : "/", err);
    (void)v;
    (void)question;
    return facts ? json_make("{s:o}", "facts", facts) : NULL;
}

/* Data, batches and memory, as the engine computes them here. */
static json_t *plan_memory(struct query *v, const json_t *question, struct err *err)
{
    char path[PATH_MAX];
    struct buf out[2] = {{0}, {0}};
    const char *const text[] = {v->train, "plan", "--spec", path, NULL};
    const char *const json[] = {v->train, "plan", "--json", "--spec", path, NULL};
    const struct subprocess_spec s = {.argv = field_true(question, "json") ? json : text,
                                      .out = SUBPROCESS_PIPE,
                                      .err = SUBPROCESS_PIPE};
    if (write_spec(path, json_object_get(question, "spec"), err) < 0)
        return NULL;
    const int code = subprocess_run(&s, out, PATIENCE_MS, NULL);
    json_t *answer = code == 0 ? json_make("{s:s}", "said", subprocess_text(&out[0])) : NULL;
    if (!answer)
        err_set(err, ERR_USAGE, "%.*s", (int)strcspn(subprocess_text(&out[1]), "\n"),
                subprocess_text(&out[1])[0] ? subprocess_text(&out[1])
                                                     : "jobctl-train wrote no output");
    unlink(path);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return answer;
}

static json_t *tell_time(struct query *v, const json_t *question, struct err *err)
{
    (void)v;
    (void)question;
    (void)err;
    return json_make("{s:f}", "now_ms", 1e-6 * (double)clock_unix_ns());
}

static json_t *listen_here(struct query *v, const json_t *question, struct err *err)
{
    (void)v;
    (void)question;
    return reachability_listen(err);
}

static json_t *try_reach(struct query *v, const json_t *question, struct err *err)
{
    (void)v;
    (void)err;
    return json_make("{s:o}", "reached", reachability_at(json_object_get(question, "endpoints")));
}

/* Creates the file in the nearest existing parent: a node that shares it also shares what is
 * made in it. */
static json_t *leave(struct query *v, const json_t *question, struct err *err)
{
    char dir[PATH_MAX], text[48];
    struct stat st;
    snprintf(dir, sizeof(dir), "%s", field_text(question, "dir"));
    while (dir[0] && stat(dir, &st) < 0 && strrchr(dir, '/'))
        *strrchr(dir, '/') = '\0';
    snprintf(text, sizeof(text), "%lld.%d", (long long)clock_unix_ns(), (int)getpid());
    if ((size_t)snprintf(v->left, sizeof(v->left), "%s/.doctor-%s", dir, text) >= sizeof(v->left)) {
        v->left[0] = '\0';
        err_set(err, ERR_USAGE, "the path of checkpoint.dir is too long");
        return NULL;
    }
    FILE *f = fopen(v->left, "wxe");
    const int wrong = !f || fputs(text, f) < 0;
    if ((f && fclose(f) != 0) || wrong) {
        err_set(err, ERR_SYSTEM, "cannot write to '%s': %s", dir[0] ? dir : "/", strerror(errno));
        if (!f)
            v->left[0] = '\0';
        return NULL;
    }
    return json_make("{s:s, s:s}", "path", v->left, "text", text);
}

static json_t *find(struct query *v, const json_t *question, struct err *err)
{
    char found[64] = "";
    const char *path = field_text(question, "path"), *slash = strrchr(path, '/');
    FILE *f = safe_open_stream(path, NULL);
    const int why = f || errno == ENOENT ? 0 : errno;
    (void)v;
    if (f && !fgets(found, sizeof(found), f))
        found[0] = '\0';
    if (f)
        fclose(f);
    if (found[0] && strcmp(found, field_text(question, "text")) == 0)
        return json_object();
    err_set(err, ERR_CONFLICT, "a file that the first node wrote to '%.*s' is missing here%s%s",
            slash > path ? (int)(slash - path) : 1, slash ? path : "/", why ? ": " : "", why ? strerror(why) : "");
    return NULL;
}

static json_t *take(struct query *v, const json_t *question, struct err *err)
{
    (void)question;
    (void)err;
    if (v->left[0])
        unlink(v->left);
    v->left[0] = '\0';
    return json_object();
}

/* --- protocol -----------------------------------------------------------------------------------
 */

static const struct {
    const char *ask;
    json_t *(*answer)(struct query *v, const json_t *question, struct err *err);
} questions[] = {
    {"look", look},       {"facts", tell_facts},   {"memory", plan_memory},
    {"clock", tell_time}, {"listen", listen_here}, {"reach", try_reach},
    {"leave", leave},     {"find", find},          {"take", take},
};

static json_t *answer_to(struct query *v, const json_t *question)
{
    struct err err = {0};
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        if (strcmp(questions[i].ask, field_text(question, "ask")) != 0)
            continue;
        json_t *answer = questions[i].answer(v, question, &err);
        return answer ? answer : json_make("{s:s}", "error", err.text);
    }
    return json_make("{s:s}", "error", "unknown query");
}

int doctor_query(const char *train, struct err *err)
{
    struct query v = {.train = train};
    char *line = NULL;
    size_t size = 0;
    int rc = 0;
    fputs(DOCTOR_READY, stdout);
    fflush(stdout);
    while (rc == 0 && getline(&line, &size, stdin) > 0) {
        json_t *question = json_loads(line, 0, NULL), *answer = answer_to(&v, question);
        if (!answer || json_dumpf(answer, stdout, JSON_COMPACT) < 0 || putchar('\n') < 0 ||
            fflush(stdout) != 0)
            rc = err_set(err, ERR_SYSTEM, "cannot answer: %s", strerror(errno));
        json_decref(answer);
        json_decref(question);
    }
    json_decref(take(&v, NULL, NULL));
    free(line);
    return rc;
}
