/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - see client.h
 *
 * The socket's path may be longer than a socket address allows: then libcurl gets
 * a path through the opened directory.
 *
 * With jobctl -H a connection that breaks is made again (client_far.c), and a GET repeated: the positions of logs and
 * events are in its path, so nothing is lost or doubled.
 */
#include "controller/base/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "agent/os/process.h"
#include "agent/os/unix_socket.h"
#include "controller/base/autostart.h"
#include "controller/base/client_internal.h"
#include "controller/base/diagnostics.h"
#include "controller/base/far_answer.h"
#include "controller/base/far_host.h"
#include "controller/base/home.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

enum { ANSWER_MAX = 256 << 20, PATH_SIZE = 2048, PAUSE_MS = 100, PATIENCE_S = 30, FRESH_S = 1, SILENT_S = 4 };

static size_t take_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct client *c = user;
    size_t n = size * count;
    if (c->answer.size + n > ANSWER_MAX || buf_append(&c->answer, bytes, n) < 0)
        return 0;
    return n;
}

/* A daemon that does not answer: its process may be stopped, and then it never will. libcurl asks once a second. */
static bool gave_up(struct client *c)
{
    if (c->far || c->answer.size > 0 || clock_s() - c->asked_s < SILENT_S)
        return false;
    const char state = process_state(c->daemon_pid);
    c->daemon_stopped = state == 'T' || state == 't';
    if (!c->daemon_stopped && !c->silent && !c->noted) {
        fprintf(stderr, "jobctl: the daemon (pid %lld, state %c) has not answered for %d s; waiting for it\n",
                (long long)c->daemon_pid, state ? state : '?', SILENT_S);
        c->noted = true;
    }
    return c->daemon_stopped;
}

static int stop_asked(void *user, curl_off_t a, curl_off_t b, curl_off_t x, curl_off_t y)
{
    (void)a;
    (void)b;
    (void)x;
    (void)y;
    return client_is_stopped(user) || gave_up(user);
}

/* Its answer is read in any schema: it tells which daemon that is. */
#define VERSION_PATH "/v1/version"

static int set_socket(struct client *c, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", c->socket);
    if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        if (home_dir(dir, sizeof(dir), err) < 0)
            return -1;
        c->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->dir < 0)
            return err_set(err, ERR_SYSTEM, "cannot open %s: %s", dir, strerror(errno));
        snprintf(path, sizeof(path), "/proc/self/fd/%d/" HOME_SOCKET, c->dir);
    }
    curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, path);
    return 0;
}

/* Connects once to test for a daemon; starts one if there is none. */
static int reach_here(struct client *c, struct err *err)
{
    struct err none = {0};
    int fd = unix_socket_connect(c->socket, false, &none);
    if (fd < 0 && none.code != ERR_NOT_FOUND)
        return err_set(err, none.code, "%s", none.text);
    if (fd < 0 && !c->start)
        return err_set(err, ERR_NOT_FOUND, "the daemon is not running; start it with any command, "
                       "such as jobctl status");
    if (fd < 0 && (fd = autostart(c->socket, err)) < 0)
        return -1;
    c->daemon_pid = unix_socket_peer(fd);
    close(fd);
    return 0;
}

static int reach(struct client *c, struct err *err)
{
    return c->far ? client_far_reach(c, err) : reach_here(c, err);
}

static int prepare(struct client *c, struct err *err)
{
    /* TLS is not used; initialising it would take longer than the request. */
    curl_global_init(CURL_GLOBAL_NOTHING);
    if (!(c->curl = curl_easy_init()))
        return err_set(err, ERR_MEMORY, "out of memory while setting up the connection");
    if (c->far)
        client_far_prepare(c);
    else if (set_socket(c, err) < 0)
        return -1;
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFOFUNCTION, stop_asked);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFODATA, c);
    curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, 120L);
    return 0;
}

#define RESTART_IT "; run `jobctl daemon restart` (jobs keep running)"

/* A daemon of another version may interpret specs and answers differently. */
static int check_version(struct client *c, struct err *err)
{
    json_t *answer;
    if (client_get(c, &answer, err, VERSION_PATH) < 0)
        return -1;
    const char *theirs = json_string_value(json_object_get(answer, "version"));
    long long schema = json_integer_value(json_object_get(answer, "schema"));
    int rc = 0;
    if (c->far && (!theirs || strcmp(theirs, JOBCTL_VERSION) != 0 || schema != API_SCHEMA))
        rc = err_set(err, ERR_SYSTEM, "the daemon on %s has another version (%.40s) than its jobctl; run "
                     "jobctl -H %s daemon restart (jobs keep running)", far_host_name(), theirs ? theirs : "unknown",
                     far_host_name());
    else if (theirs && strcmp(theirs, JOBCTL_VERSION) == 0 && schema != API_SCHEMA)
        rc = err_set(err, ERR_SYSTEM, "the running daemon uses schema %lld, this jobctl %d" RESTART_IT,
                     schema, API_SCHEMA);
    else if (!theirs || strcmp(theirs, JOBCTL_VERSION) != 0)
        rc = err_set(err, ERR_SYSTEM, "the running daemon has version %.40s, this jobctl %s" RESTART_IT,
                     theirs ? theirs : "unknown", JOBCTL_VERSION);
    json_decref(answer);
    return rc;
}

int client_open(struct client **out, bool start, struct err *err)
{
    struct client *c = calloc(1, sizeof(*c));
    *out = NULL;
    if (!c)
        return err_set(err, ERR_MEMORY, "out of memory while setting up the connection");
    c->dir = c->ready = -1;
    c->start = start;
    c->far = far_host_name() != NULL;
    c->patience_s = PATIENCE_S;
    buf_init(&c->answer);
    if ((!c->far && home_path(c->socket, sizeof(c->socket), HOME_SOCKET, err) < 0) || reach(c, err) < 0 ||
        prepare(c, err) < 0 || (start && check_version(c, err) < 0))
        goto fail;
    *out = c;
    return 0;
fail:
    client_close(c);
    return -1;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    curl_easy_cleanup(c->curl);
    if (c->dir >= 0)
        close(c->dir);
    if (c->ready >= 0)
        close(c->ready);
    buf_fini(&c->answer);
    free(c);
}

void client_stop_when(struct client *c, const volatile int *flag)
{
    c->stop = flag;
}

void client_wait_for_far(struct client *c, double seconds, void (*away)(void *user), void *user)
{
    c->patience_s = seconds;
    c->away = away;
    c->away_user = user;
}

const struct diagnostics *client_diagnostics(const struct client *c)
{
    return &c->found;
}

static char *escape(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~,";
    char *out = malloc(strlen(text) * 3 + 1), *to = out;
    if (!out)
        return NULL;
    for (; *text; text++)
        if (strchr(plain, *text))
            *to++ = *text;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*text);
    *to = '\0';
    return out;
}

/* A '/' or a name of dots only would change the path. */
char *client_job_part(const char *job, struct err *err)
{
    if (!job[strspn(job, ".")] || strchr(job, '/')) {
        err_set(err, ERR_NOT_FOUND, "no job is named '%.60s'", job);
        return NULL;
    }
    char *part = escape(job);
    if (!part)
        err_set(err, ERR_MEMORY, "out of memory for a request");
    return part;
}

static enum err_code code_of(const char *word, long status)
{
    static const struct {
        const char   *word;
        enum err_code code;
    } words[] = {
        {"usage", ERR_USAGE}, {"not_found", ERR_NOT_FOUND}, {"conflict", ERR_CONFLICT},
        {"too_large", ERR_USAGE}, {"bug", ERR_BUG}, {"system", ERR_SYSTEM},
    };
    for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].code;
    return status >= 500 ? ERR_SYSTEM : ERR_USAGE;
}

/* Takes the daemon's error and, for an invalid spec, all mistakes. */
static int refused(struct client *c, const json_t *answer, long status, struct err *err)
{
    const json_t *e = json_object_get(answer, "error");
    const char *text = json_string_value(json_object_get(e, "text"));
    diagnostics_from_json(&c->found, answer);
    return err_set(err, code_of(json_string_value(json_object_get(e, "code")), status), "%s",
                   text ? text : "the daemon rejected the request without a reason");
}

static int transport_failed(struct client *c, CURLcode rc, bool question, struct err *err)
{
    if (client_is_stopped(c))
        return err_set(err, ERR_CONFLICT, "interrupted");
    if (c->daemon_stopped)
        return err_set(err, ERR_SYSTEM, "the daemon (pid %lld) does not answer: its process is stopped; run "
                       "`kill -CONT %lld` to let it go on (jobs keep running)", (long long)c->daemon_pid,
                       (long long)c->daemon_pid);
    if (c->far && rc == CURLE_COULDNT_CONNECT && c->no_connection.code != ERR_NONE)
        return err_set(err, c->no_connection.code, "%s", c->no_connection.text);
    if (c->far && !question)
        return err_set(err, ERR_SYSTEM, "the connection to %s broke during the request (%s). The request may have been "
                       "carried out: check jobctl -H %s status before you repeat it", far_host_name(),
                       curl_easy_strerror(rc), far_host_name());
    if (c->far)
        return err_set(err, ERR_SYSTEM, "the daemon on %s did not answer: %s", far_host_name(), curl_easy_strerror(rc));
    return err_set(err, ERR_SYSTEM, "the daemon did not answer (%s); see daemon.log next to "
                   "%s", curl_easy_strerror(rc), c->socket);
}

static CURLcode transfer(struct client *c)
{
    buf_clear(&c->answer);
    c->asked_s = clock_s();
    c->noted = false;
    const CURLcode rc = curl_easy_perform(c->curl);
    if (rc == CURLE_OK)
        c->answered_s = clock_s();
    return rc;
}

/* A question that failed because of the connection, until it is answered. */
static int repeat_far(struct client *c, CURLcode *rc, struct err *err)
{
    int pause_ms = PAUSE_MS;
    while (*rc != CURLE_OK) {
        if (client_far_again(c, &pause_ms, err) < 0)
            return -1;
        *rc = transfer(c);
    }
    return 0;
}

/* If the daemon died, restart it and repeat a GET, so that --follow survives a daemon crash.  A
 * POST without a key is not repeated: it may have been carried out. */
static int repeat(struct client *c, CURLcode *rc, struct err *err)
{
    if (!c->start || client_is_stopped(c) || c->daemon_stopped)
        return 0;
    if (c->far)
        return repeat_far(c, rc, err);
    if (*rc == CURLE_OPERATION_TIMEDOUT)
        return 0;
    if (reach(c, err) < 0)
        return -1;
    *rc = transfer(c);
    return 0;
}

/* The document of an answer that has come. */
static int read_document(struct client *c, json_t **answer, const char *path, struct err *err)
{
    long status = 0;
    json_error_t why;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    json_t *json = json_loadb(c->answer.data ? c->answer.data : "", c->answer.size, JSON_ALLOW_NUL, &why);
    if (c->far)
        far_answer_clean(json);
    if (!json_is_object(json) || (json_integer_value(json_object_get(json, "schema")) != API_SCHEMA &&
                                  strcmp(path, VERSION_PATH) != 0)) {
        json_decref(json);
        return err_set(err, ERR_SYSTEM, "cannot parse the daemon's answer to %.100s; check that "
                       "the versions match: jobctl version", path);
    }
    if (status >= 400 || json_is_object(json_object_get(json, "error"))) {
        refused(c, json, status, err);
        json_decref(json);
        return -1;
    }
    *answer = json;
    return 0;
}

static int perform(struct client *c, json_t **answer, const char *path, bool question, struct err *err)
{
    char url[PATH_SIZE + 32];
    *answer = NULL;
    c->found.count = c->found.more = 0;
    snprintf(url, sizeof(url), "http://%s%s", c->far ? "127.0.0.1" : "jobctl", path); /* an address: no name is looked up */
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    c->silent = strstr(path, "wait_s=") || strstr(path, "timeout_s=");
    CURLcode rc = transfer(c);
    c->unanswered = true;
    if (rc != CURLE_OK && question && repeat(c, &rc, err) < 0)
        return -1;
    c->unanswered = rc != CURLE_OK;
    return rc == CURLE_OK ? read_document(c, answer, path, err) : transport_failed(c, rc, question, err);
}

int client_get(struct client *c, json_t **answer, struct err *err, const char *fmt, ...)
{
    char path[PATH_SIZE];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(path, sizeof(path), fmt, ap);
    va_end(ap);
    *answer = NULL;
    if (n < 0 || n >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the request is too long; name fewer jobs");
    curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L);
    return perform(c, answer, path, true, err);
}

int client_ask_job(json_t **answer, const char *job, const char *rest, struct err *err)
{
    struct client *c;
    char *name = client_job_part(job, err);
    int rc = -1;
    *answer = NULL;
    if (!name)
        return -1;
    if (client_open(&c, true, err) == 0) {
        rc = client_get(c, answer, err, "/v1/jobs/%s%s", name, rest);
        client_close(c);
    }
    free(name);
    return rc;
}

/* The command that is repeated has this key: it never submits twice. */
static int tell_key(const struct client *c, const char *key, struct err *err)
{
    if (!key[0] || !c->unanswered)
        return -1;
    return err_prefix(err, "the job may have been submitted; repeat the command with --key %s, which never submits "
                      "twice: ", key);
}

static bool repeatable(const json_t *body)
{
    return field_text(body, "key")[0] || json_is_true(json_object_get(body, "dry_run"));
}

/* A POST without a key is not repeated, so it is sent over a connection that has just answered. */
static int prove_far(struct client *c, struct err *err)
{
    json_t *version;
    if (!c->far || clock_s() - c->answered_s < FRESH_S)
        return 0;
    if (client_get(c, &version, err, VERSION_PATH) < 0)
        return -1;
    json_decref(version);
    return 0;
}

int client_post(struct client *c, json_t **answer, const char *path, const json_t *body, struct err *err)
{
    *answer = NULL;
    if (prove_far(c, err) < 0)
        return -1;
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return err_set(err, ERR_USAGE, "cannot write the request as JSON; is some text not UTF-8?");
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:"); /* no round trip before the body */
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(text));
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, text);
    const bool question = repeatable(body);
    c->posting = c->far && !question;
    int rc = perform(c, answer, path, question, err);
    if (rc < 0)
        tell_key(c, field_text(body, "key"), err);
    c->posting = false;
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    free(text);
    return rc;
}
