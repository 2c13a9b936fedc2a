/* SPDX-License-Identifier: Apache-2.0 */
/* agents.c - many simulated agents, each at its own socket, for measuring the controller
 *
 *   agents fill  HOME SPEC RUNNING DONE [QUEUED [TOLD [ENV]]]
 *                                          a store with so many jobs; SPEC is a canonical spec (JSON);
 *                                          TOLD: lines "facts JSON" and "plan JSON", the events of each done job
 *   agents serve HOME FIRST COUNT SECONDS  be the agents of those jobs: listen, greet, and send a
 *                                          heartbeat each second; a JSON line at the end
 *
 * All agents are this one process: their identity is its pid. Only the local machine's part of an
 * agent is played; frames, messages and the store are the real ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/identity.h"
#include "agent/os/run_dir.h"
#include "agent/os/unix_socket.h"
#include "agent/wire/frame.h"
#include "db/attempts.h"
#include "db/events.h"
#include "db/jobs.h"
#include "db/store.h"
#include "engine/base/err.h"

static const int64_t BASE_MS = INT64_C(1790000000000);

static void check(int rc, const struct err *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "agents: %s\n", err->text);
    exit(1);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = calloc(1, 1 << 16);
    if (!f || !text || fread(text, 1, (1 << 16) - 1, f) == 0) {
        fprintf(stderr, "agents: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return text;
}

static void nonce_of(char out[33], int64_t job)
{
    snprintf(out, 33, "%032llx", (unsigned long long)job * 7919);
}

/* ---- fill ---- */

static void event(struct store *s, int64_t job, int64_t seq, const char *kind, bool agent, const char *body)
{
    struct err err = { 0 };
    struct event_row row = { .job = job, .seq = seq, .at_ms = BASE_MS + seq,
                             .source = agent ? "agent" : "controller", .kind = kind,
                             .attempt = seq > 1, .agent_seq = -1, .incarnation = -1, .body = body };
    if (agent) {
        row.node = "here";
        row.incarnation = 1;
        row.agent_seq = seq - 3;
    }
    check(events_append(s, &row, &err), &err);
}

/* The spec of job `id`: its checkpoints are below its own directory, as after a submit. */
static const char *spec_of(const char *spec, const char *home, int64_t id)
{
    static char own[1 << 16];
    const char *at = strstr(spec, "\"dir\":\"auto\"");
    if (!at)
        return spec;
    snprintf(own, sizeof(own), "%.*s\"dir\":\"%s/jobs/%lld/checkpoints\",\"origin\":\"%032llx\"%s", (int)(at - spec),
             spec, home, (long long)id, (unsigned long long)id * 7919, at + strlen("\"dir\":\"auto\""));
    return own;
}

enum work { QUEUED, RUNS, DONE };
static const char *facts = "{}", *plan = "{}";      /* as told by an agent */

static void insert(struct store *s, int64_t id, const char *spec, enum work work, const char *home)
{
    const bool runs = work != DONE;
    struct err err = { 0 };
    struct job_row row = { .id = id, .name = "scale", .attempt = 1, .generation = 1, .np = 1,
                           .step = 10, .steps = 1000, .exit_code = runs ? -1 : 0, .retry_of = -1,
                           .submitted_ms = BASE_MS, .started_ms = BASE_MS + 2,
                           .ended_ms = runs ? -1 : BASE_MS + 9, .last_seq = runs ? 4 : 10,
                           .loss = 0.5, .samples_per_s = 1, .after = "[]" };
    struct attempt_row a = { .job = id, .attempt = 1, .node = "here", .pid = getpid(),
                             .acked = runs ? 1 : 2, .incarnation = 1, .started_ms = BASE_MS + 2,
                             .ended_ms = runs ? -1 : BASE_MS + 8 };
    char placed[160];
    snprintf(row.state, sizeof(row.state), "%s", runs ? "running" : "done");
    snprintf(row.result, sizeof(row.result), "%s", runs ? "" : "succeeded");
    nonce_of(a.nonce, id);
    snprintf(a.run_dir, sizeof(a.run_dir), "%s/jobs/%lld/1", home, (long long)id);
    if (work == QUEUED) {
        row.attempt = row.generation = 0;
        row.np = row.step = row.steps = row.started_ms = -1;
        row.last_seq = 1;
        snprintf(row.state, sizeof(row.state), "pending");
    }
    check(jobs_insert(s, &row, "name: scale\nrun: 'true'\n", spec_of(spec, home, id), &err), &err);
    event(s, id, 1, "submitted", false,
          "{\"name\":\"scale\",\"priority\":0,\"held\":false,\"retry_of\":null,"
          "\"retry\":{\"max\":10,\"no_progress\":3,\"backoff_ms\":[5000,300000]}}");
    if (work == QUEUED)
        return;
    check(attempts_insert(s, &a, &err), &err);
    check(attempts_update(s, &a, &err), &err);
    snprintf(placed, sizeof(placed), "{\"nonce\":\"%s\",\"node\":\"here\",\"cpus\":0,\"gpus\":0}", a.nonce);
    event(s, id, 2, "placed", false, placed);
    event(s, id, 3, "agent_up", false, "{\"node\":\"here\",\"pid\":1,\"version\":\"x\"}");
    event(s, id, 4, "generation_started", true,
          "{\"generation\":1,\"np\":1,\"pids\":[1],\"resume_step\":null,\"fresh\":true}");
    if (runs)
        return;
    event(s, id, 5, "facts", true, facts);
    event(s, id, 6, "plan", true, plan);
    event(s, id, 7, "rank_exited", true, "{\"generation\":1,\"rank\":0,\"pid\":20008,\"after_ms\":5,\"exit_code\":0}");
    event(s, id, 8, "generation_ended", true,
          "{\"generation\":1,\"cause\":\"none\",\"text\":\"every rank exited with code 0\",\"rank\":null,\"step\":null,"
          "\"gained\":0,\"fingerprint\":\"\",\"evidence\":null,\"exit_code\":0,\"goodput\":{\"rank_ms\":5,\"productive\":5,"
          "\"replayed\":0,\"init\":0,\"data\":0,\"checkpoint\":0,\"hang\":0,\"restart\":0,\"queued\":0,\"paused\":0}}");
    event(s, id, 9, "attempt_ended", true,
          "{\"cause\":\"none\",\"step\":null,\"exit_code\":null,\"productive_ms\":33,\"fingerprint\":\"\","
          "\"same_fingerprint\":0,\"failures_without_progress\":0,\"result\":\"succeeded\",\"text\":\"every rank exited "
          "with code 0\",\"generations\":1,\"clean\":true,\"wall_ms\":46,\"retry_helps\":false,\"gave_up\":false}");
    event(s, id, 10, "done", false,
          "{\"result\":\"succeeded\",\"reason\":\"complete\",\"exit_code\":0}");
}

/* The bodies of the events `facts` and `plan` of a job that has run. */
static void read_told(const char *events)
{
    FILE *f = fopen(events, "re");
    static char line[1 << 16];
    while (f && fgets(line, sizeof(line), f)) {
        const char **to = strncmp(line, "facts ", 6) == 0 ? &facts : strncmp(line, "plan ", 5) == 0 ? &plan : NULL;
        line[strcspn(line, "\n")] = '\0';
        if (to)
            *to = strdup(strchr(line, ' ') + 1);
    }
    if (f)
        fclose(f);
}

/* A queued job has the environment that it runs with, in its directory. */
static void write_env(const char *home, long id, const char *env, size_t size)
{
    struct err err = { 0 };
    char path[4096];
    snprintf(path, sizeof(path), "%s/jobs/%ld", home, id);
    check(mkdir(path, 0700), &err);
    snprintf(path, sizeof(path), "%s/jobs/%ld/env", home, id);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, env, size) == (ssize_t)size ? 0 : -1, &err);
    close(fd);
}

static void write_all_env(const char *home, const char *file, long first, long last)
{
    static char env[1 << 20];
    FILE *f = fopen(file, "re");
    const size_t size = f ? fread(env, 1, sizeof(env), f) : 0;
    if (f)
        fclose(f);
    for (long id = first; id <= last; id++)
        write_env(home, id, env, size);
}

static int fill(const char *home, const char *spec_file, long running, long done, long queued, const char *env)
{
    struct err err = { 0 };
    struct store *s;
    char path[4096], *text = read_file(spec_file);
    json_t *document = json_loads(text, 0, NULL);
    char *spec = json_dumps(document, JSON_COMPACT);    /* as the daemon stores it */
    check(spec ? 0 : -1, &err);
    json_decref(document);
    free(text);
    snprintf(path, sizeof(path), "%s/jobs.db", home);
    check(store_open(&s, path, &err), &err);
    check(store_begin(s, &err), &err);
    for (long i = 1; i <= done + running + queued; i++)
        insert(s, i, spec, i <= done ? DONE : i <= done + running ? RUNS : QUEUED, home);
    check(store_commit(s, &err), &err);
    store_close(s);
    if (env)
        write_all_env(home, env, done + running + 1, done + running + queued);
    free(spec);
    return 0;
}

/* ---- serve ---- */

struct agent {
    int64_t job;
    int     listener, fd;
    struct frame_reader *reader;
    bool    launched;
    void   *beat;               /* always the same message */
    size_t  beat_size;
};

static long hellos, beats, stops, missed;

/* A daemon that is gone has missed nothing; one that hangs up and comes back is greeted twice. */
static void send_all(struct agent *a, const void *bytes, size_t size)
{
    ssize_t n = send(a->fd, bytes, size, MSG_NOSIGNAL);
    bool gone = n < 0 && (errno == EPIPE || errno == ECONNRESET);
    if (n != (ssize_t)size && !gone)
        missed++;
}

static void *message(enum wire_message number, const struct agent *a, json_t *more, size_t *size)
{
    struct err err = { 0 };
    char nonce[33];
    nonce_of(nonce, a->job);
    json_t *body = json_pack("{s:I, s:i, s:s}", "job", (json_int_t)a->job, "attempt", 1, "nonce", nonce);
    json_object_update(body, more);
    json_decref(more);
    void *frame = frame_make(number, body, size, &err);
    check(frame ? 0 : -1, &err);
    json_decref(body);
    return frame;
}

static void greet(struct agent *a, const struct identity *who)
{
    size_t size;
    void *hello = message(WIRE_HELLO, a, json_pack(
        "{s:s, s:s, s:I, s:I, s:i, s:s, s:b, s:i, s:i, s:{}}", "node", "here", "boot_id",
        who->boot_id, "pid", (json_int_t)who->pid, "start_time", (json_int_t)who->start_time,
        "incarnation", 1, "version", JOBCTL_VERSION, "launched", 1, "first_seq", 0, "last_seq", 1,
        "facts"), &size);
    send_all(a, hello, size);
    free(hello);
    hellos++;
}

static void begin(struct agent *a, const char *home, int64_t job, struct identity *who)
{
    struct err err = { 0 };
    char dir[4096], path[4200];
    *a = (struct agent){ .job = job, .fd = -1 };
    snprintf(dir, sizeof(dir), "%s/jobs/%lld", home, (long long)job);
    mkdir(dir, 0700);
    snprintf(dir, sizeof(dir), "%s/jobs/%lld/1", home, (long long)job);
    mkdir(dir, 0700);
    who->job = job;
    who->attempt = 1;
    who->incarnation = 1;
    nonce_of(who->nonce, job);
    check(identity_write(who, dir, &err), &err);
    snprintf(path, sizeof(path), "%s/" RUN_DIR_SOCKET, dir);
    a->listener = unix_socket_listen(path, &err);
    check(a->listener, &err);
    a->beat = message(WIRE_HEARTBEAT, a, json_pack(
        "{s:i, s:s, s:i, s:i, s:s, s:f, s:n, s:f, s:i, s:f}", "generation", 1, "state", "running",
        "step", 12, "steps", 1000, "phase", "forward", "loss", 0.5, "lr", "samples_per_s", 10.0,
        "ranks_alive", 1, "step_ms", 100.0), &a->beat_size);
}

static void hear(struct agent *a)
{
    static char bytes[1 << 16];
    ssize_t n = recv(a->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n <= 0) {
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        close(a->fd);
        a->fd = -1;
        a->launched = false;
        return;
    }
    for (ssize_t at = 0; at < n;) {
        const struct wire_row *row;
        struct err err = { 0 };
        json_t *body;
        int used = frame_read(a->reader, bytes + at, (size_t)(n - at), &row, &body, &err);
        check(used, &err);
        at += used;
        if (body && row->number == WIRE_LAUNCH)
            a->launched = true;
        if (body && row->number == WIRE_STOP)
            stops++;
        json_decref(body);
    }
}

static void welcome(struct agent *a, const struct identity *who)
{
    struct err err = { 0 };
    int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (a->fd >= 0)
        close(a->fd);
    frame_reader_destroy(a->reader);
    check(frame_reader_create(&a->reader, TO_AGENT, &err), &err);
    a->fd = fd;
    greet(a, who);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int serve(const char *home, long first, long count, double seconds)
{
    struct err err = { 0 };
    struct identity who = { .pid = 0 };
    struct agent *agents = calloc((size_t)count, sizeof(*agents));
    struct pollfd *p = calloc((size_t)count * 2, sizeof(*p));
    snprintf(who.version, sizeof(who.version), "%s", JOBCTL_VERSION);
    check(agents && p ? identity_self(&who, &err) : -1, &err);
    for (long i = 0; i < count; i++)
        begin(&agents[i], home, first + i, &who);
    printf("ready\n");
    fflush(stdout);
    const double end = now_s() + seconds;
    double tick = now_s();
    long turn = 0;
    while (now_s() < end) {
        for (long i = 0; i < count; i++) {
            p[2 * i] = (struct pollfd){ .fd = agents[i].listener, .events = POLLIN };
            p[2 * i + 1] = (struct pollfd){ .fd = agents[i].fd, .events = POLLIN };
        }
        poll(p, (nfds_t)count * 2, 10);
        for (long i = 0; i < count; i++) {
            if (p[2 * i].revents)
                welcome(&agents[i], &who);
            else if (p[2 * i + 1].revents)
                hear(&agents[i]);
        }
        /* A hundredth of them every hundredth of a second. */
        for (; tick < now_s(); tick += 0.01, turn++) {
            for (long i = turn % 100; i < count; i += 100) {
                if (agents[i].fd >= 0 && agents[i].launched) {
                    send_all(&agents[i], agents[i].beat, agents[i].beat_size);
                    beats++;
                }
            }
        }
    }
    long up = 0;
    for (long i = 0; i < count; i++)
        up += agents[i].launched;
    printf("{\"agents\":%ld,\"connected\":%ld,\"hellos\":%ld,\"heartbeats\":%ld,\"stops\":%ld,"
           "\"missed\":%ld}\n", count, up, hellos, beats, stops, missed);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 7)
        read_told(argv[7]);
    if (argc >= 6 && strcmp(argv[1], "fill") == 0)
        return fill(argv[2], argv[3], atol(argv[4]), atol(argv[5]), argc > 6 ? atol(argv[6]) : 0,
                    argc > 8 ? argv[8] : NULL);
    if (argc == 6 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], atol(argv[3]), atol(argv[4]), atof(argv[5]));
    fprintf(stderr, "usage: agents fill HOME SPEC RUNNING DONE [QUEUED [TOLD [ENV]]] | agents serve HOME FIRST COUNT "
            "SECONDS\n");
    return 2;
}
