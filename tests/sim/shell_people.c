/* SPDX-License-Identifier: Apache-2.0 */
/* shell_people.c - see shell.h: those who submit, hold, release and cancel jobs, by requests on the daemon's socket */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "controller/base/home.h"
#include "tests/sim/shell.h"
#include "tests/sim/virtual_process.h"
#include "tests/sim/world.h"

enum { ANSWER_BYTES = 256 * 1024 };

#define PATIENCE_NS INT64_C(30000000000)

struct request {
    struct world *world;
    int           job, word;
    struct stored before;               /* when it was asked */
};

static bool readable(void *arg)
{
    struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };
    return poll(&p, 1, 0) > 0;
}

static int dial(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/" HOME_SOCKET, shell_home());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    shell_keep(fd, true);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    shell_keep(fd, false);
    close(fd);
    return -1;
}

/* The whole answer: until the daemon closes. */
static size_t read_all(int fd, char *out, size_t size)
{
    size_t n = 0;
    while (sim_wait(readable, &fd, sim_now() + PATIENCE_NS)) {
        const ssize_t got = read(fd, out + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    out[n] = 0;
    return n;
}

/* 0: no answer. */
static int ask(json_t **answer, const char *method, const char *path, const json_t *body)
{
    char *text = malloc(ANSWER_BYTES);
    char head[512];
    char *content = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const size_t size = content ? strlen(content) : 0;
    int status = 0;
    const int fd = dial();
    *answer = NULL;
    if (fd >= 0 && text) {
        const int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", method, path, size);
        if (send(fd, head, (size_t)n, MSG_NOSIGNAL) == n &&
            (!size || send(fd, content, size, MSG_NOSIGNAL) == (ssize_t)size) &&
            read_all(fd, text, ANSWER_BYTES) > 0 && sscanf(text, "HTTP/1.1 %d", &status) == 1) {
            const char *rest = strstr(text, "\r\n\r\n");
            *answer = rest ? json_loads(rest + 4, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
        }
        shell_keep(fd, false);
        close(fd);
    }
    free(content);
    free(text);
    return *answer ? (status == 201 ? 200 : status) : 0;
}

/* ---- a job's text ---- */

static json_t *submit_body(const struct world *w, int job)
{
    const struct truth *t = &w->truth[job];
    char yaml[1024], key[32], after[64] = "";
    if (w->after[job] >= 0)
        snprintf(after, sizeof(after), "after: [%lld]\n", (long long)shell_id(w->after[job]));
    snprintf(yaml, sizeof(yaml), "name: j%d\nrun: \"true\"\npriority: %lld\nresources: {cpus: %d, gpus: 0}\n%s"
             "retry: {max: %lld, no_progress: %lld, same_line: %lld, same_line_within: 60s, backoff: %lldms..%lldms}\n",
             job, (long long)json_integer_value(json_object_get(t->submit, "priority")), t->np, after,
             (long long)t->rules.max, (long long)t->rules.no_progress, (long long)t->rules.same_line, (long long)t->rules.backoff_min_ms,
             (long long)t->rules.backoff_max_ms);
    snprintf(key, sizeof(key), "key-of-job-%d", job);
    return json_pack("{s:s, s:s, s:O, s:s}", "spec", yaml, "cwd", shell_home(), "hold",
                     json_object_get(t->submit, "held"), "key", key);
}

/* ---- a request ---- */

static const char *const words[PERSON_WORDS] = { "", "cancel", "hold", "release", "why" };

static int say_it(json_t **answer, const struct request *r)
{
    struct world *w = r->world;
    char path[64];
    int status;
    json_t *body;
    if (r->word == SAYS_SUBMIT) {
        if (w->after[r->job] >= 0 && !shell_id(w->after[r->job]))
            return 0;                   /* there is no such job yet */
        body = submit_body(w, r->job);
        status = ask(answer, "POST", "/v1/jobs", body);
    } else {
        snprintf(path, sizeof(path), "/v1/jobs/%lld/%s", (long long)shell_id(r->job), words[r->word]);
        if (r->word == SAYS_WHY)
            return ask(answer, "GET", path, NULL);
        body = r->word == SAYS_STOP ? json_pack("{s:s, s:b}", "reason", "cancelled", "now", 0) : json_object();
        if (r->word == SAYS_STOP)
            w->truth[r->job].asked_to_stop = true;
        status = ask(answer, "POST", path, body);
    }
    json_decref(body);
    return status;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

/* The answer about a job, and what the world knew before it was asked. */
static void judge_why(const struct request *r, const json_t *answer)
{
    struct world *w = r->world;
    const json_t *row = json_object_get(answer, "job");
    const struct stored *s = &w->store[r->job], *was = &r->before;
    const int64_t step = json_integer_value(json_object_get(row, "step"));
    const bool ended = strcmp(text_of(row, "state"), "done") == 0;
    if (!text_of(answer, "text")[0])
        broke(w, "job %d: why does not say a word", r->job);
    if (!ended && strcmp(text_of(row, "state"), "running") != 0 && !text_of(row, "reason")[0])
        broke(w, "job %d is %s without a reason", r->job, text_of(row, "state"));
    if ((was->done && !ended) || (ended && !s->done))
        broke(w, "job %d is shown as %s", r->job, text_of(row, "state"));
    if (ended && s->done && strcmp(text_of(row, "result"), job_result_name(s->latest.result)) != 0)
        broke(w, "job %d is shown as %s, and is %s", r->job, text_of(row, "result"),
              job_result_name(s->latest.result));
    if (step > w->truth[r->job].most)
        broke(w, "job %d is shown at step %lld, and has made %lld", r->job, (long long)step,
              (long long)w->truth[r->job].most);
    /* A commit that was under way may hide the step until the next beat, which a dead agent does not send. */
    if (w->up && w->agents[r->job][s->latest.attempt].alive && was->beat_life == w->life &&
        was->beat_attempt == s->latest.attempt &&
        was->beat_generation == s->latest.generation && was->latest.state == JOB_RUNNING &&
        s->latest.state == JOB_RUNNING && step < was->beat_step)
        broke(w, "job %d is shown at step %lld, and its agent has told %lld", r->job, (long long)step,
              (long long)was->beat_step);
    w->truth[r->job].shown |= ended;
}

static void judge(const struct request *r, int status, const json_t *answer)
{
    struct world *w = r->world;
    const char *text = json_string_value(json_object_get(json_object_get(answer, "error"), "text"));
    say(w, "job %d: %s: %d", r->job, r->word ? words[r->word] : "submit", status);
    if (status == 200 && r->word == SAYS_SUBMIT && w->store[r->job].count == 0)
        broke(w, "job %d was accepted, and is not committed", r->job);
    if (status && status != 200 && status != 409 && status != 503)
        broke(w, "the answer to '%s' of job %d is %d: %s", r->word ? words[r->word] : "submit", r->job, status,
              text ? text : "?");
    if (status == 200 && r->word == SAYS_WHY)
        judge_why(r, answer);
    if (status == 503 && !text)
        broke(w, "a request about job %d fails without a reason", r->job);
}

static void person(void *arg)
{
    struct request r = *(struct request *)arg;
    struct world *w = r.world;
    json_t *answer = NULL;
    free(arg);
    const int status = say_it(&answer, &r);
    shell_sync(w);
    judge(&r, status, answer);
    json_decref(answer);
    if (r.word == SAYS_SUBMIT && status == 409)     /* what it waits for has failed already: then without that */
        w->after[r.job] = -1;
    if (r.word == SAYS_WHY && !w->store[r.job].done && status != 200)
        return;                         /* they do not insist */
    if ((status != 200 && status != 409) || (r.word == SAYS_SUBMIT && status == 409))
        plan(w, 500, PERSON, r.job, 0, 0)->a = r.word;
    else if (r.word == SAYS_SUBMIT || r.word == SAYS_HOLD)      /* nobody holds a job for ever, here */
        plan(w, between(w, 20000, 40000), PERSON, r.job, 0, 0)->a = SAYS_RELEASE;
}

void shell_person(struct world *w, const struct happening *h)
{
    struct request *r = calloc(1, sizeof(*r));
    if (!r)
        abort();
    if (h->a != SAYS_SUBMIT && !shell_id(h->job)) {
        if (h->a != SAYS_WHY)
            plan(w, 500, PERSON, h->job, 0, 0)->a = h->a;
        free(r);
        return;
    }
    *r = (struct request){ w, h->job, h->a, w->store[h->job] };
    if (!sim_start("person", person, r))
        abort();
}
