/* SPDX-License-Identifier: Apache-2.0 */
/* drill.c - see drill.h */
#include "controller/manage/drill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/identity.h"
#include "controller/base/client.h"
#include "controller/job/event_kind.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/flight.h"

enum { LOOK_MS = 5, READY_S = 180, SETTLE_STEPS = 3, SLOW_MS = 2500, SLOW_BEAT_MS = 25 };

/* ---- observing ---- */

/* The job's progress: its newest generation and the step of its first rank. */
struct sight {
    int64_t attempt, generation, np, step, last_seq;
    int64_t pids[64];           /* of the ranks, 0: unknown */
    int64_t checkpoint;         /* step of the newest; -1: none */
    int64_t resumed;            /* first step of the newest generation; -1: unknown yet */
    double  noticed_at;         /* wall time of the first event about a failure; 0: none */
    bool    waits_for_room;     /* training is paused for a full disk */
    char    noticed[160], path[PATH_MAX];
    bool    running, done;
    char    reason[160];
};

static double time_of(const char *iso)
{
    struct tm tm = { 0 };
    double ms = 0;
    if (!iso || sscanf(iso, "%d-%d-%dT%d:%d:%d.%lf", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                       &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms) < 6)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (double)timegm(&tm) + ms / 1000;
}

static void take_event(struct sight *s, const json_t *e)
{
    const char *name = json_string_value(json_object_get(e, "kind"));
    const char *text = json_string_value(json_object_get(e, "text"));
    const enum event_kind kind = event_kind_of(name);
    const json_t *body = json_object_get(e, "body");
    s->last_seq = field_int(e, "seq", s->last_seq);
    if (kind == EVENT_GENERATION_STARTED) {
        const json_t *pids = json_object_get(body, "pids");
        s->attempt = field_int(e, "attempt", s->attempt);
        s->generation = field_int(body, "generation", s->generation);
        s->np = (int64_t)json_array_size(pids);
        s->resumed = -1;
        for (size_t i = 0; i < sizeof(s->pids) / sizeof(s->pids[0]); i++)
            s->pids[i] = json_integer_value(json_array_get(pids, i));
    } else if (kind == EVENT_RANK_STARTED && field_int(body, "rank", -1) == 0) {
        s->resumed = field_int(body, "resume_step", 0);
    } else if (kind == EVENT_NO_ROOM) {
        s->waits_for_room = !field_true(body, "over");
    } else if (kind == EVENT_CHECKPOINT) {
        s->checkpoint = field_int(body, "step", s->checkpoint);
        snprintf(s->path, sizeof(s->path), "%s", field_text(body, "path"));
    }
    if ((event_kind_is(kind, EVENT_IS_FAULT) || s->waits_for_room) && s->noticed_at == 0) {
        s->noticed_at = time_of(json_string_value(json_object_get(e, "at")));
        snprintf(s->noticed, sizeof(s->noticed), "%s", text ? text : name);
    }
}

static int look_events(struct sight *s, struct drill *d, struct err *err)
{
    json_t *answer, *e, *row;
    size_t i;
    if (client_get(d->client, &answer, err, "/v1/jobs/%lld/events?after=%lld", (long long)d->job,
                   (long long)s->last_seq) < 0)
        return -1;
    json_array_foreach (json_object_get(answer, "events"), i, e)
        take_event(s, e);
    json_decref(answer);
    if (client_get(d->client, &answer, err, "/v1/jobs/%lld", (long long)d->job) < 0)
        return -1;
    row = json_object_get(answer, "job");
    s->running = strcmp(field_text(row, "state"), "running") == 0;
    s->done = strcmp(field_text(row, "state"), "done") == 0;
    snprintf(s->reason, sizeof(s->reason), "%s", field_text(row, "reason"));
    json_decref(answer);
    return 0;
}

/* Steps done by the first rank, from its flight page; -1: no page, or that of a script, whose steps no event tells. */
static void look_page(struct sight *s, const struct drill *d)
{
    char path[PATH_MAX + 64];
    struct flight *f = NULL;
    static struct flight_page page;
    s->step = -1;
    snprintf(path, sizeof(path), "%s/%lld/rank0.flight", d->dir, (long long)s->attempt);
    if (!d->engine || s->attempt <= 0 || flight_open(&f, path, NULL) < 0)
        return;
    flight_read(f, &page);
    flight_close(f);
    if (page.pid && (int64_t)page.generation == s->generation)
        s->step = (int64_t)flight_step(&page);
}

static int look(struct sight *s, struct drill *d, struct err *err)
{
    if (look_events(s, d, err) < 0)
        return -1;
    look_page(s, d);
    return 0;
}

/* ---- verify the target, inject the fault ---- */

/* Does the process have this attempt's run directory in its environment? */
static bool is_of_job(const struct drill *d, const struct sight *s, int64_t pid)
{
    char path[64], mark[PATH_MAX + 64];
    snprintf(path, sizeof(path), "/proc/%lld/environ", (long long)pid);
    int n = snprintf(mark, sizeof(mark), "JOBCTL_RUN_DIR=%s/%lld", d->dir, (long long)s->attempt);
    FILE *f = pid > 1 ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    char *text = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getdelim(&text, &room, 0, f) > 0)
        found = strncmp(text, mark, (size_t)n + 1) == 0;
    free(text);
    fclose(f);
    return found;
}

static int hit_rank(struct drill *d, const struct sight *s, int64_t rank, int signo, struct err *err)
{
    int64_t pid = rank >= 0 && rank < 64 ? s->pids[rank] : 0;
    if (!is_of_job(d, s, pid))
        return err_set(err, ERR_CONFLICT, "rank %lld of job %lld (pid %lld) has already exited",
                       (long long)rank, (long long)d->job, (long long)pid);
    if (kill((pid_t)pid, signo) < 0)
        return err_set(err, ERR_SYSTEM, "cannot signal rank %lld: %m", (long long)rank);
    return 0;
}

static int hit_agent(struct drill *d, const struct sight *s, int signo, struct err *err)
{
    char dir[PATH_MAX + 32];
    struct identity who;
    snprintf(dir, sizeof(dir), "%s/%lld", d->dir, (long long)s->attempt);
    if (identity_read(&who, dir, err) < 0)
        return -1;
    if (!identity_alive(&who) || kill((pid_t)who.pid, signo) < 0)
        return err_set(err, ERR_CONFLICT, "the agent of job %lld has already exited", (long long)d->job);
    return 0;
}

static int kill_rank(struct drill *d, const struct sight *s, struct err *err)
{
    return hit_rank(d, s, s->np - 1, SIGKILL, err);
}

static int stop_rank(struct drill *d, const struct sight *s, struct err *err)
{
    return hit_rank(d, s, s->np - 1, SIGSTOP, err);
}

/* Stops the rank half of the time. */
static int slow_rank(struct drill *d, const struct sight *s, struct err *err)
{
    for (int at = 0; at < SLOW_MS; at += 2 * SLOW_BEAT_MS) {
        if (hit_rank(d, s, s->np - 1, SIGSTOP, err) < 0)
            return -1;
        clock_wait(-1, SLOW_BEAT_MS);
        if (hit_rank(d, s, s->np - 1, SIGCONT, err) < 0)
            return -1;
        clock_wait(-1, SLOW_BEAT_MS);
    }
    return 0;
}

static int kill_agent(struct drill *d, const struct sight *s, struct err *err)
{
    return hit_agent(d, s, SIGKILL, err);
}

static int terminate(struct drill *d, const struct sight *s, struct err *err)
{
    return hit_agent(d, s, SIGTERM, err);
}

static int kill_daemon(struct drill *d, const struct sight *s, struct err *err)
{
    json_t *answer;
    (void)s;
    if (client_get(d->client, &answer, err, "/v1/version") < 0)
        return -1;
    int64_t pid = field_int(answer, "pid", 0);
    json_decref(answer);
    if (pid <= 1 || kill((pid_t)pid, SIGKILL) < 0)
        return err_set(err, ERR_SYSTEM, "cannot kill the daemon (pid %lld): %m", (long long)pid);
    client_close(d->client);
    d->client = NULL;
    return client_open(&d->client, true, err);
}

/* Overwrites bytes in the middle of its largest file, then kills a rank so that it is read. */
static int corrupt(struct drill *d, const struct sight *s, struct err *err)
{
    char file[PATH_MAX + 256], largest[PATH_MAX + 256] = "";
    off_t most = 0;
    DIR *dir = opendir(s->path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(file, sizeof(file), "%s/%s", s->path, e->d_name);
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        off_t size = fd < 0 || e->d_name[0] == '.' ? 0 : lseek(fd, 0, SEEK_END);
        if (fd >= 0)
            close(fd);
        if (size > most) {
            most = size;
            snprintf(largest, sizeof(largest), "%s", file);
        }
    }
    if (dir)
        closedir(dir);
    int fd = most ? open(largest, O_RDWR | O_CLOEXEC) : -1;
    char bytes[64];
    bool ok = fd >= 0 && pread(fd, bytes, sizeof(bytes), most / 2) > 0;
    for (size_t i = 0; i < sizeof(bytes) && ok; i++)
        bytes[i] ^= 0x55;
    ok = ok && pwrite(fd, bytes, sizeof(bytes), most / 2) > 0;
    if (fd >= 0)
        close(fd);
    if (!ok)
        return err_set(err, ERR_SYSTEM, "cannot corrupt the checkpoint %s: %m", s->path);
    return kill_rank(d, s, err);
}

/* Each rank's file size, as a user may lower it and raise it again; *old gets the limits before. */
static int limit_files(const struct drill *d, const struct sight *s, rlim_t most, struct rlimit *old, struct err *err)
{
    for (int64_t r = 0; r < s->np && r < 64; r++) {
        struct rlimit now;
        if (!is_of_job(d, s, s->pids[r]) || prlimit((pid_t)s->pids[r], RLIMIT_FSIZE, NULL, &now) < 0)
            return err_set(err, ERR_SYSTEM, "cannot read the file size limit of rank %lld", (long long)r);
        const struct rlimit set = { most, now.rlim_max };
        if (prlimit((pid_t)s->pids[r], RLIMIT_FSIZE, &set, NULL) < 0)
            return err_set(err, ERR_SYSTEM, "cannot limit the file size of rank %lld", (long long)r);
        *old = now;
    }
    return 0;
}

/* Nothing fits until the job says that it waits for room; then all does again. */
static int fill_disk(struct drill *d, const struct sight *s, struct err *err)
{
    struct sight now = *s;
    struct rlimit old = { RLIM_INFINITY, RLIM_INFINITY }, unused;
    char path[64];
    if (limit_files(d, s, 4096, &old, err) < 0)
        return -1;
    snprintf(path, sizeof(path), "/v1/jobs/%lld/checkpoint", (long long)d->job);
    json_t *answer = NULL, *body = json_object();
    int rc = client_post(d->client, &answer, path, body, err);
    json_decref(answer);
    json_decref(body);
    const double until = clock_s() + d->limit_s / 2;
    while (rc == 0 && !now.waits_for_room && !*d->stop && clock_s() < until) {
        clock_wait(-1, LOOK_MS);
        rc = look(&now, d, err);
    }
    return rc < 0 ? -1 : limit_files(d, &now, old.rlim_cur, &unused, err);
}

/* ---- the faults ---- */

static const struct drill_fault {
    const char *name, *text;
    int       (*strike)(struct drill *d, const struct sight *s, struct err *err);
    bool        goes_on;        /* the ranks must survive it */
    bool        engine;         /* is judged by steps or checkpoints of the built-in engine */
    int64_t     ranks;          /* minimum number of ranks */
} faults[] = {
    { "kill-rank", "a rank is killed", kill_rank, false, false, 1 },
    { "slow-rank", "a rank is slow", slow_rank, true, true, 1 },
    { "stop-rank", "a rank is stopped (SIGSTOP)", stop_rank, false, true, 1 },
    { "checkpoint", "the newest checkpoint is corrupted, then a rank is killed", corrupt, false,
     true, 1 },
    { "disk", "there is no disk space for a checkpoint", fill_disk, true, true, 1 },
    { "kill-daemon", "the daemon is killed", kill_daemon, true, false, 1 },
    { "sigterm", "the node is reclaimed (SIGTERM)", terminate, false, false, 1 },
    { "kill-agent", "the agent is killed", kill_agent, false, false, 1 },
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

const struct drill_fault *drill_fault_at(int n)
{
    return n >= 0 && n < FAULTS ? &faults[n] : NULL;
}

const struct drill_fault *drill_fault_find(const char *name, int len)
{
    for (int i = 0; i < FAULTS; i++)
        if ((int)strlen(faults[i].name) == len && strncmp(faults[i].name, name, (size_t)len) == 0)
            return &faults[i];
    return NULL;
}

const char *drill_fault_name(const struct drill_fault *fault)
{
    return fault->name;
}

const char *drill_fault_text(const struct drill_fault *fault)
{
    return fault->text;
}

/* ---- one fault ---- */

static int interrupted(struct err *err)
{
    return err_set(err, ERR_CONFLICT, "the drill was interrupted");
}

/* Waits until the job trains, some steps into its generation, with a checkpoint of it. */
static int get_ready(struct sight *s, struct drill *d, struct err *err)
{
    const double until = clock_s() + READY_S;
    bool asked = false;
    char path[64];
    snprintf(path, sizeof(path), "/v1/jobs/%lld/checkpoint", (long long)d->job);
    do {
        if (look(s, d, err) < 0)
            return -1;
        if (s->done)
            return err_set(err, ERR_CONFLICT, "job %lld is done, so no fault can be injected: %s",
                           (long long)d->job, s->reason);
        bool working = s->running && s->pids[0] && is_of_job(d, s, s->pids[0]);
        if (working && (!d->engine || (s->step < 0 && s->resumed < 0)))
            return 0;           /* a command that does not report steps */
        const int64_t from = s->resumed > 0 ? s->resumed : 0;
        if (working && s->step >= from + SETTLE_STEPS) {
            if (asked && s->checkpoint > from)
                return 0;
            json_t *answer = NULL, *body = json_object();
            if (!asked && client_post(d->client, &answer, path, body, err) < 0)
                err->code = ERR_NONE;
            asked = true;
            json_decref(answer);
            json_decref(body);
        }
        clock_wait(-1, 4 * LOOK_MS);
    } while (clock_s() < until && !*d->stop);
    if (*d->stop)
        return interrupted(err);
    return err_set(err, ERR_CONFLICT, "job %lld did not start working within %d s: %s",
                   (long long)d->job, READY_S, s->reason[0] ? s->reason : "no step was completed");
}

/* Has it done a step beyond those done before the fault? */
static bool is_back(const struct sight *s, const struct sight *before, bool goes_on)
{
    bool same = s->attempt == before->attempt && s->generation == before->generation;
    if (goes_on)
        return same && (before->step < 0 ? s->running : s->step > before->step);
    if (same || !s->running)
        return false;
    if (before->step < 0)
        return true;            /* no steps are reported: live ranks suffice */
    return s->resumed >= 0 && s->step > s->resumed;
}

static void judge(struct drill_outcome *out, const struct sight *s, const struct sight *before,
                  const struct drill_fault *f, double limit_s)
{
    bool same = s->attempt == before->attempt && s->generation == before->generation;
    out->passed = out->back >= 0;
    if (s->done)
        snprintf(out->text, sizeof(out->text), "the job ended: %s", s->reason);
    else if (f->goes_on && !same)
        snprintf(out->text, sizeof(out->text), "its ranks did not survive: %s", s->noticed);
    else if (!out->passed)
        snprintf(out->text, sizeof(out->text), "not recovered after %.0f s%s%s", limit_s,
                 s->noticed[0] ? ": " : ", and the fault was not detected", s->noticed);
    else
        snprintf(out->text, sizeof(out->text), "%s", f->goes_on ? "ranks kept running" : s->noticed);
    if (out->passed && !f->goes_on && before->step >= 0)
        out->lost = before->step > s->resumed ? before->step - s->resumed : 0;
}

int drill_run(struct drill_outcome *out, struct drill *d, const struct drill_fault *f, struct err *err)
{
    struct sight s = { .checkpoint = -1, .resumed = -1, .step = -1 };
    *out = (struct drill_outcome){ .noticed = -1, .back = -1, .lost = d->engine ? 0 : -1 };
    if (f->engine && !d->engine) {
        out->skipped = true;
        snprintf(out->text, sizeof(out->text), "skipped: only the script of a run: job knows its steps and "
                 "checkpoints");
        return 0;
    }
    if (get_ready(&s, d, err) < 0)
        return -1;
    s.noticed_at = 0;
    s.noticed[0] = 0;
    const struct sight before = s;
    const double start = clock_s(), start_wall = 1e-9 * (double)clock_unix_ns();
    if (f->strike(d, &before, err) < 0)
        return -1;
    while (clock_s() - start < d->limit_s && !s.done) {
        if (*d->stop)
            return interrupted(err);
        if (look(&s, d, err) < 0)
            return -1;
        if (is_back(&s, &before, f->goes_on)) {
            out->back = clock_s() - start;
            break;
        }
        if (f->goes_on && (s.attempt != before.attempt || s.generation != before.generation))
            break;
        clock_wait(-1, LOOK_MS);
    }
    if (s.noticed_at > 0)
        out->noticed = s.noticed_at > start_wall ? s.noticed_at - start_wall : 0;
    judge(out, &s, &before, f, d->limit_s);
    return 0;
}
