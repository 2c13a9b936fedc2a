/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - sends requests as fast as the daemon answers, and times them
 *
 *   load submit SOCKET COUNT CONNECTIONS SPEC    POST /v1/jobs, held, COUNT times
 *   load cancel SOCKET FIRST COUNT CONNECTIONS   POST /v1/jobs/ID/cancel
 *   load get    SOCKET COUNT CONNECTIONS PATH    GET PATH
 *   load exec   COUNT PROGRAM ARG...             start a program, wait for its end
 *
 * Each connection is kept alive and has one request under way: what a client
 * waits for is what is timed, from its first byte sent to the last received.
 * One JSON line: count, seconds, per_s, p50_ms, p99_ms, max_ms.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 1 << 20, CONNECTIONS_MAX = 256 };

struct connection {
    int    fd;
    char  *request;         /* under way, or NULL */
    size_t sent, size;
    char  *answer;
    size_t got;
    double began;
};

struct load {
    const char *verb;
    char       *body;       /* of each request, or NULL */
    const char *path;
    long        first, count;
    long        started, ended;
    double     *took;
};

extern char **environ;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void report(const char *what, double *took, long count, double seconds)
{
    qsort(took, (size_t)count, sizeof(*took), by_value);
    printf("{\"what\":\"%s\",\"count\":%ld,\"seconds\":%.3f,\"per_s\":%.1f,\"p50_ms\":%.3f,"
           "\"p99_ms\":%.3f,\"max_ms\":%.3f}\n",
           what, count, seconds, (double)count / seconds, took[count / 2] * 1e3,
           took[(count * 99 + 99) / 100 - 1] * 1e3, took[count - 1] * 1e3);
}

static int dial(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(at.sun_path)) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    strcpy(at.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
        fail(path);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        fail("fcntl");
    return fd;
}

/* A job that is stored and waits: what is measured is the store, not the work. */
static char *submit_body(const char *path)
{
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");
    if (!f)
        fail(path);
    size_t size = fread(text, 1, sizeof(text), f);
    fclose(f);
    json_t *body = json_pack("{s:s%, s:s, s:s, s:b}", "spec", text, size, "file", "load.yaml",
                             "cwd", "/tmp", "hold", 1);
    char *out = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!out)
        fail("the spec's text");
    return out;
}

static void request_start(struct load *l, struct connection *c)
{
    char path[64], *text = NULL;
    const char *at = l->path;
    if (strcmp(l->verb, "cancel") == 0) {
        snprintf(path, sizeof(path), "/v1/jobs/%ld/cancel", l->first + l->started);
        at = path;
    }
    int n = l->body ? asprintf(&text,
                               "POST %s HTTP/1.1\r\nHost: jobctl\r\n"
                               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                               at, strlen(l->body), l->body)
                    : asprintf(&text, "GET %s HTTP/1.1\r\nHost: jobctl\r\n\r\n", at);
    if (n < 0)
        fail("memory");
    c->request = text;
    c->size = (size_t)n;
    c->sent = c->got = 0;
    c->began = now();
    l->started++;
}

/* 1 when the answer is whole and good, 0 when more must come. */
static int answer_whole(const struct connection *c)
{
    const char *end = memmem(c->answer, c->got, "\r\n\r\n", 4);
    if (!end)
        return 0;
    size_t head = (size_t)(end - c->answer) + 4, body = 0;
    const char *length = strcasestr(c->answer, "\r\nContent-Length:");
    if (length && length < end)
        body = strtoul(length + 17, NULL, 10);
    if (c->got < head + body)
        return 0;
    if (c->got > head + body || strncmp(c->answer, "HTTP/1.1 2", 10) != 0) {
        fprintf(stderr, "%.*s\n", (int)c->got, c->answer);
        errno = 0;
        fail("the answer");
    }
    return 1;
}

static void connection_move(struct load *l, struct connection *c)
{
    if (c->sent < c->size) {
        ssize_t n = send(c->fd, c->request + c->sent, c->size - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            fail("send");
        c->sent += n > 0 ? (size_t)n : 0;
        return;
    }
    ssize_t n = recv(c->fd, c->answer + c->got, ANSWER_MAX - 1 - c->got, 0);
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN)
            return;
        fail("the daemon hung up");
    }
    c->got += (size_t)n;
    c->answer[c->got] = '\0';
    if (!answer_whole(c))
        return;
    l->took[l->ended++] = now() - c->began;
    free(c->request);
    c->request = NULL;
    c->size = 0;
    if (l->started < l->count)
        request_start(l, c);
}

static int load_run(struct load *l, const char *path, int connections)
{
    static struct connection c[CONNECTIONS_MAX];
    static struct pollfd p[CONNECTIONS_MAX];
    for (int i = 0; i < connections; i++) {
        c[i] = (struct connection){.fd = dial(path), .answer = malloc(ANSWER_MAX)};
        if (!c[i].answer)
            fail("memory");
    }
    double began = now();
    for (int i = 0; i < connections && l->started < l->count; i++)
        request_start(l, &c[i]);
    while (l->ended < l->count) {
        for (int i = 0; i < connections; i++)
            p[i] = (struct pollfd){c[i].request ? c[i].fd : -1,
                                   c[i].sent < c[i].size ? POLLOUT : POLLIN, 0};
        if (poll(p, (nfds_t)connections, 30000) <= 0) {
            errno = ETIMEDOUT;
            fail("no answer for 30 s");
        }
        for (int i = 0; i < connections; i++)
            if (p[i].revents)
                connection_move(l, &c[i]);
    }
    report(l->verb, l->took, l->count, now() - began);
    for (int i = 0; i < connections; i++) {
        close(c[i].fd);
        free(c[i].answer);
    }
    return 0;
}

/* Its output goes nowhere; an exit code other than 0 ends the measurement. */
static int exec_run(long count, char **argv, double *took)
{
    posix_spawn_file_actions_t to;
    posix_spawn_file_actions_init(&to);
    posix_spawn_file_actions_addopen(&to, 1, "/dev/null", O_WRONLY, 0);
    double began = now();
    for (long i = 0; i < count; i++) {
        pid_t pid;
        int status = -1;
        double at = now();
        errno = posix_spawnp(&pid, argv[0], &to, NULL, argv, environ);
        if (errno || waitpid(pid, &status, 0) < 0)
            fail(argv[0]);
        took[i] = now() - at;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail("its exit code");
    }
    report("exec", took, count, now() - began);
    posix_spawn_file_actions_destroy(&to);
    return 0;
}

static long number(const char *text, long max)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > max) {
        fprintf(stderr, "load: '%s' is not a number from 1 to %ld\n", text, max);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    struct load l = {.verb = verb};
    int r = 2;
    if (strcmp(verb, "exec") == 0 && argc > 3) {
        l.count = number(argv[2], 1000000);
        l.took = calloc((size_t)l.count, sizeof(*l.took));
        r = l.took ? exec_run(l.count, argv + 3, l.took) : 1;
    } else if (argc == 6) {
        int from = strcmp(verb, "cancel") == 0;
        l.first = from ? number(argv[3], 1L << 40) : 0;
        l.count = number(argv[3 + from], 10000000);
        int connections = (int)number(argv[4 + from], CONNECTIONS_MAX);
        l.path = strcmp(verb, "get") == 0 ? argv[5] : "/v1/jobs";
        l.body = strcmp(verb, "submit") == 0 ? submit_body(argv[5]) : from ? strdup("{}") : NULL;
        l.took = calloc((size_t)l.count, sizeof(*l.took));
        r = l.took ? load_run(&l, argv[2], connections) : 1;
    } else {
        fprintf(stderr, "load: takes submit, cancel, get or exec; see the top of load.c\n");
    }
    free(l.body);
    free(l.took);
    return r;
}
