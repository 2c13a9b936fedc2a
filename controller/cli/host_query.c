/* SPDX-License-Identifier: Apache-2.0 */
/* host_query.c - see host_query.h */
#include "controller/cli/host_query.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/buf.h"
#include "controller/base/autostart.h"
#include "controller/base/program.h"
#include "engine/contract/clock.h"
#include "engine/contract/err.h"

extern char **environ;

enum { TO, FROM, WRONG, PIPES, PIECE = 64 * 1024 };

struct conversation {
    const char *host;
    pid_t       pid;
    int         fd[PIPES];       /* our ends; -1: closed */
    struct buf  said, wrong;
    bool        waits;           /* an answer is due */
    double      asked_ms, answered_ms;
    char        error[400];      /* why the connection ended; "" = it has not */
};

struct host_query {
    struct conversation *list;
    size_t        n;
    void        (*old_pipe)(int);
};

/* --- one process per host ----------------------------------------------------------------------
 * */

static int spawn(struct conversation *v, struct err *err)
{
    char path[PROGRAM_PATH];
    char *argv[] = {path, (char[]){"doctor-query"}, (char *)(uintptr_t)v->host, NULL};
    int ends[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    posix_spawn_file_actions_t actions;
    int rc = 0;
    autostart_sibling(path, sizeof(path), "jobctl-ssh");
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < PIPES && rc == 0; i++) {
        rc = pipe2(ends[i], O_CLOEXEC) < 0 ? errno : 0;
        posix_spawn_file_actions_adddup2(&actions, ends[i][i == TO ? 0 : 1], i);
    }
    rc = rc ? rc : posix_spawnp(&v->pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < PIPES; i++) {
        v->fd[i] = ends[i][i == TO ? 1 : 0];
        if (ends[i][i == TO ? 0 : 1] >= 0)
            close(ends[i][i == TO ? 0 : 1]);
    }
    return rc == 0 ? 0 : err_set(err, ERR_SYSTEM, "cannot run %s: %s", path, strerror(rc));
}

int host_query_open(struct host_query **out, const json_t *hosts, struct err *err)
{
    struct host_query *v = calloc(1, sizeof(*v));
    size_t i, n = json_array_size(hosts);
    const json_t *host;
    int rc = 0;
    *out = v;
    if (!v || !(v->list = calloc(n + 1, sizeof(*v->list))))
        return err_set(err, ERR_MEMORY, "out of memory for %zu hosts", n);
    v->old_pipe = signal(SIGPIPE, SIG_IGN); /* a dead process shows when its answer is read */
    json_array_foreach (hosts, i, host) {
        v->n++;
        v->list[i] = (struct conversation){.host = json_string_value(host), .fd = {-1, -1, -1}};
        rc = rc == 0 ? spawn(&v->list[i], err) : rc;
    }
    return rc;
}

void host_query_close(struct host_query *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->n; i++) {
        struct conversation *one = &v->list[i];
        for (int k = 0; k < PIPES; k++)
            if (one->fd[k] >= 0)
                close(one->fd[k]);
        if (one->pid > 0 && one->error[0])
            kill(one->pid, SIGTERM);
        while (one->pid > 0 && waitpid(one->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        buf_fini(&one->said);
        buf_fini(&one->wrong);
    }
    if (v->old_pipe && v->old_pipe != SIG_ERR)
        signal(SIGPIPE, v->old_pipe);
    free(v->list);
    free(v);
}

/* --- questions and answers ------------------------------------------------------------------- */

static void put(struct conversation *v, const json_t *question)
{
    char *text = json_dumps(question, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0;
    if (text)
        text[size++] = '\n'; /* replaces the NUL */
    v->asked_ms = 1e-6 * (double)clock_unix_ns();
    v->waits = true;
    for (size_t at = 0; at < size;) {
        ssize_t n = write(v->fd[TO], text + at, size - at);
        if (n < 0 && errno != EINTR)
            break; /* the reader reports the end */
        at += n > 0 ? (size_t)n : 0;
    }
    free(text);
}

/* The process has ended: the last line of its stderr is the reason. */
static void end_conversation(struct conversation *v)
{
    char *line = v->wrong.data ? v->wrong.data : (char[]){""};
    size_t size = strlen(line);
    while (size > 0 && line[size - 1] == '\n')
        line[--size] = '\0';
    if (strrchr(line, '\n'))
        line = strrchr(line, '\n') + 1;
    line += strncmp(line, "jobctl-ssh: ", 12) == 0 ? 12 : 0;
    snprintf(v->error, sizeof(v->error), "%s", line[0] ? line : "the connection ended");
    err_make_printable(v->error);
    v->waits = false;
}

/* A complete line is an answer; NULL: none yet. */
static json_t *take_answer(struct conversation *v)
{
    char *end = v->said.data ? memchr(v->said.data, '\n', v->said.size) : NULL;
    if (!end)
        return NULL;
    json_t *answer = json_loadb(v->said.data, (size_t)(end - v->said.data), 0, NULL);
    v->said.size = 0; /* one question, one line */
    v->waits = false;
    return answer ? answer : json_pack("{s:s}", "error", "its answer is not JSON");
}

static bool hear(int fd, struct buf *to)
{
    char piece[PIECE];
    ssize_t n = read(fd, piece, sizeof(piece));
    return n > 0 ? buf_append(to, piece, (size_t)n) == 0 : n < 0 && errno == EINTR;
}

static void close_end(struct conversation *v, int end)
{
    close(v->fd[end]);
    v->fd[end] = -1;
}

static void serve(struct conversation *v, const struct pollfd *fds, json_t *node, const char *key)
{
    if (fds[1].revents && v->fd[WRONG] >= 0 && !hear(v->fd[WRONG], &v->wrong))
        close_end(v, WRONG);
    if (!fds[0].revents)
        return;
    if (!hear(v->fd[FROM], &v->said)) {
        while (v->fd[WRONG] >= 0)
            if (!hear(v->fd[WRONG], &v->wrong))
                close_end(v, WRONG);
        end_conversation(v);
        return;
    }
    json_t *answer = take_answer(v);
    if (!answer)
        return;
    v->answered_ms = 1e-6 * (double)clock_unix_ns();
    json_object_set_new(node, key, answer);
}

/* Collects the hosts whose answer is due; fds has two entries for each. */
static size_t count_waiting(const struct host_query *v, struct pollfd *fds)
{
    size_t waiting = 0;
    for (size_t i = 0; i < v->n; i++) {
        const struct conversation *one = &v->list[i];
        fds[2 * i] = (struct pollfd){.fd = one->waits ? one->fd[FROM] : -1, .events = POLLIN};
        fds[2 * i + 1] = (struct pollfd){.fd = one->waits ? one->fd[WRONG] : -1, .events = POLLIN};
        waiting += one->waits;
    }
    return waiting;
}

void host_query_ask(struct host_query *v, json_t *const *questions, json_t *nodes, const char *key,
                    int limit_ms)
{
    const int64_t end = clock_ms() + limit_ms;
    struct pollfd *fds = calloc(2 * v->n + 1, sizeof(*fds));
    for (size_t i = 0; fds && i < v->n; i++)
        if (questions[i] && !v->list[i].error[0])
            put(&v->list[i], questions[i]);
    while (fds && count_waiting(v, fds) > 0) {
        const int64_t left = end - clock_ms();
        int rc = left > 0 ? poll(fds, (nfds_t)(2 * v->n), (int)left + 1) : 0;
        if (rc == 0 || (rc < 0 && errno != EINTR))
            break;
        for (size_t i = 0; rc > 0 && i < v->n; i++)
            if (v->list[i].waits)
                serve(&v->list[i], &fds[2 * i], json_array_get(nodes, i), key);
    }
    for (size_t i = 0; i < v->n; i++) {
        struct conversation *one = &v->list[i];
        if (one->waits)
            snprintf(one->error, sizeof(one->error), "no answer within %d s", limit_ms / 1000);
        one->waits = false;
        if (one->error[0])
            json_object_set_new(json_array_get(nodes, i), "error", json_string(one->error));
    }
    free(fds);
}

void host_query_ask_same(struct host_query *v, int only, json_t *question, json_t *nodes,
                         const char *key,
                         int limit_ms)
{
    json_t **questions = calloc(v->n + 1, sizeof(json_t *));
    for (size_t i = 0; questions && i < v->n; i++)
        questions[i] = only == HOST_QUERY_ALL || (size_t)only == i ? question : NULL;
    if (questions)
        host_query_ask(v, questions, nodes, key, limit_ms);
    free(questions);
    json_decref(question);
}

double host_query_middle(const struct host_query *v, size_t host, double *apart_ms)
{
    const struct conversation *one = &v->list[host];
    *apart_ms = one->answered_ms - one->asked_ms;
    return one->asked_ms + *apart_ms / 2;
}
