/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_relay.c - jobctl relay: the far end of `jobctl -H` (controller/base/far_host.h)
 *
 * Prints FAR_HOST_READY and a line {version, schema}; then answers each line of JSON with one:
 *
 *   {do: submitter}                          {directory, data} of this login; data: its environment
 *   {do: parse, text, file, base, set}       {spec}, the canonical one
 *   {do: check, text, set, spec}             {notes, spec} of local_check()
 *   {do: code, text, set, spec}              {name, notes} of submit_code_take(); it is held until
 *   {do: code_end}                           {}, or the end
 *   {do: real_path, path}                    {path}
 *   {do: connect, start}                     {}; from then on the streams are those of the daemon's socket
 *   {do: port, port}                         {}; the same for a port of 127.0.0.1, such as that of the dashboard
 *
 * An error is {error: {code, text}, ...}, with the mistakes of a spec as diagnostics_to_json() writes them. Ends at the
 * end of its input, or when the daemon closes the connection. Given arguments, it becomes that command (far_command.h)
 * after FAR_HOST_READY. Whoever can run it has this user's shell anyway.
 */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/unix_socket.h"
#include "controller/base/autostart.h"
#include "controller/base/client.h"
#include "controller/base/far_host.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/manage/far_command.h"
#include "controller/submit/local_check.h"
#include "controller/submit/submit_code.h"
#include "controller/submit/submitter.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#include "engine/base/write_all.h"

static const struct option_row options[] = {{.name = NULL}};

enum { QUESTION_MAX = 16 << 20, PIECE = 64 * 1024, SETS = 256 };

struct relay {
    struct buf in;      /* what was read and not yet used */
    int        socket;  /* connected to the daemon, or -1 */
    bool       took;    /* `code`, for a job that the other side submits */
    struct code_taken code;
};

/* Takes the answer. */
static int answer_with(json_t *answer)
{
    char *text = json_dumps(answer, JSON_COMPACT);
    int rc = text ? write_all(STDOUT_FILENO, text, strlen(text)) : -1;
    if (rc == 0)
        rc = write_all(STDOUT_FILENO, "\n", 1);
    free(text);
    json_decref(answer);
    return rc;
}

/* ---- questions ---- */

static int overrides(const char *set[SETS], const json_t *question)
{
    const json_t *list = json_object_get(question, "set");
    const size_t n = json_array_size(list) < SETS ? json_array_size(list) : SETS;
    for (size_t i = 0; i < n; i++)
        set[i] = json_string_value(json_array_get(list, i)) ? json_string_value(json_array_get(list, i)) : "";
    return (int)n;
}

static json_t *submitter(struct relay *r, const json_t *question, struct call *call)
{
    char directory[PATH_MAX];
    (void)r;
    (void)question;
    if (submitter_directory(directory, sizeof(directory), &call->err) < 0)
        return NULL;
    return json_make("{s:o, s:o}", "directory", json_string(directory), "data", submitter_environment(&call->err));
}

static json_t *parse(struct relay *r, const json_t *question, struct call *call)
{
    const char *set[SETS];
    json_t *spec = NULL;
    (void)r;
    const int nset = overrides(set, question);
    submitter_parse(&spec, field_text(question, "text"), field_text(question, "file"), field_text(question, "base"),
                    set, nset, &call->found, &call->err);
    return spec ? json_make("{s:o}", "spec", spec) : NULL;
}

static json_t *check(struct relay *r, const json_t *question, struct call *call)
{
    json_t *notes = json_array(), *request = json_make("{s:O?, s:O?}", "spec", json_object_get(question, "text"), "set",
                                                       json_object_get(question, "set"));
    (void)r;
    const int rc = local_check(call, request, json_object_get(question, "spec"), notes);
    json_decref(request);
    if (rc == 0)
        return json_make("{s:o, s:O}", "notes", notes, "spec", json_object_get(question, "spec"));
    json_decref(notes);
    return NULL;
}

static json_t *end_code(struct relay *r, const json_t *question, struct call *call)
{
    (void)question;
    (void)call;
    if (r->took)
        submit_code_end(&r->code);
    r->took = false;
    return json_object();
}

static json_t *take_code(struct relay *r, const json_t *question, struct call *call)
{
    json_t *request = json_make("{s:O?, s:O?}", "spec", json_object_get(question, "text"), "set",
                                json_object_get(question, "set"));
    json_decref(end_code(r, question, call));
    r->took = submit_code_take(&r->code, call, request, json_object_get(question, "spec")) == 0;
    json_decref(request);
    return r->took ? json_make("{s:s, s:O*}", "name", r->code.name, "notes", r->code.notes) : NULL;
}

static json_t *real_path(struct relay *r, const json_t *question, struct call *call)
{
    char path[PATH_MAX];
    (void)r;
    return submitter_real_path(path, field_text(question, "path"), &call->err) < 0 ? NULL
           : json_make("{s:o}", "path", json_string(path));
}

static json_t *connect_daemon(struct relay *r, const json_t *question, struct call *call)
{
    char path[PATH_MAX];
    struct err none = {.code = ERR_NONE};
    if (home_path(path, sizeof(path), HOME_SOCKET, &call->err) < 0)
        return NULL;
    r->socket = unix_socket_connect(path, false, &none);
    if (r->socket < 0 && none.code != ERR_NOT_FOUND)
        err_set(&call->err, none.code, "%s", none.text);
    else if (r->socket < 0 && field_true(question, "start"))
        r->socket = autostart(path, &call->err);
    else if (r->socket < 0)
        err_set(&call->err, ERR_NOT_FOUND, "the daemon is not running; start it with any command, such as jobctl "
                "status");
    return r->socket < 0 ? NULL : json_object();
}

static json_t *connect_port(struct relay *r, const json_t *question, struct call *call)
{
    const long long port = field_int(question, "port", 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = port > 0 && port <= UINT16_MAX ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) {
        r->socket = fd;
        return json_object();
    }
    err_set(&call->err, ERR_NOT_FOUND, "nothing listens at 127.0.0.1:%lld there: run jobctl dashboard again", port);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static json_t *mistakes_of(const struct call *call)
{
    json_t *answer = diagnostics_to_json(&call->found, "");
    json_t *error = json_make("{s:{s:i, s:s}}", "error", "code", (int)call->err.code, "text", call->err.text);
    json_object_update_recursive(answer, error);
    json_decref(error);
    return answer;
}

static int answer_one(struct relay *r, const char *line, size_t size)
{
    static const struct {
        const char *name;
        json_t   *(*answer)(struct relay *r, const json_t *question, struct call *call);
    } verbs[] = {
        {"submitter", submitter}, {"parse", parse}, {"check", check}, {"real_path", real_path},
        {"code", take_code}, {"code_end", end_code}, {"connect", connect_daemon},
        {"port", connect_port},
    };
    struct call call = {.command = NULL};
    json_t *question = json_loadb(line, size, 0, NULL), *answer = NULL;
    const char *name = field_text(question, "do");
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]) && !answer; i++)
        if (strcmp(verbs[i].name, name) == 0)
            answer = verbs[i].answer(r, question, &call);
    if (!answer)
        err_set(&call.err, ERR_USAGE, "jobctl relay received an invalid request");
    json_decref(question);
    return answer_with(answer ? answer : mistakes_of(&call));
}

/* ---- streams ---- */

/* More of the input; 0: its end. */
static int read_input(struct relay *r)
{
    char bytes[PIECE];
    for (;;) {
        const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        return n > 0 && r->in.size + (size_t)n <= QUESTION_MAX && buf_append(&r->in, bytes, (size_t)n) == 0;
    }
}

/* Until the streams are the daemon's; -1: the end. */
static int answer_questions(struct relay *r)
{
    while (r->socket < 0) {
        const char *end = r->in.size ? memchr(r->in.data, '\n', r->in.size) : NULL;
        if (!end && !read_input(r))
            return -1;
        if (!end)
            continue;
        const size_t size = (size_t)(end - r->in.data);
        if (answer_one(r, r->in.data, size) < 0)
            return -1;
        buf_consume(&r->in, size + 1);
    }
    return write_all(r->socket, r->in.data, r->in.size);
}

/* Copies once; false: an end. */
static bool copy(int from, int to)
{
    char bytes[PIECE];
    const ssize_t n = read(from, bytes, sizeof(bytes));
    return (n < 0 && errno == EINTR) || (n > 0 && write_all(to, bytes, (size_t)n) == 0);
}

static void pass(int socket)
{
    for (bool on = true; on;) {
        struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = socket, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            on = copy(socket, STDOUT_FILENO);
        if (on && fds[0].revents)
            on = copy(STDIN_FILENO, socket);
    }
}

/* `jobctl -H HOST relay`: for other programs, such as templates/jobctl.py, the relay of HOST. */
static int pass_on(struct err *err)
{
    const char *argv[FAR_HOST_WORDS];
    far_host_helper(argv, "relay");
    execv(argv[0], (char *const *)(uintptr_t)argv);
    return err_set(err, ERR_USAGE, "-H needs jobctl-ssh next to jobctl, which is built where libssh is found: "
                   "docs/INSTALL.md");
}

static int run(struct call *call)
{
    struct relay r = {.socket = -1};
    const char *home = getenv("HOME");
    const struct options *o = &call->options;
    if (far_host_name())
        return pass_on(&call->err);
    if (o->nargs == 0 && isatty(STDIN_FILENO))
        return err_set(&call->err, ERR_USAGE, "relay is run by jobctl -H on another machine, not at a terminal");
    if (home && home[0] && chdir(home) < 0)
        return err_set(&call->err, ERR_SYSTEM, "cannot enter the home directory %s: %s", home, strerror(errno));
    if (write_all(STDOUT_FILENO, FAR_HOST_READY, strlen(FAR_HOST_READY)) < 0)
        return 0;
    if (o->nargs > 0)
        return far_command_become(o->args, o->nargs, &call->err);
    if (answer_with(json_make("{s:s, s:i}", "version", JOBCTL_VERSION, "schema", API_SCHEMA)) == 0 &&
        answer_questions(&r) == 0)
        pass(r.socket);
    if (r.socket >= 0)
        close(r.socket);
    json_decref(end_code(&r, NULL, call));
    buf_fini(&r.in);
    return 0;
}

const struct command cmd_relay = {
    .name = "relay", .group = GROUP_HIDDEN, .args = ARGS_WORDS, .where = COMMAND_HERE,
    .summary = "answer a jobctl on another machine (-H) over stdin and stdout",
    .help = "jobctl -H HOST runs it on HOST through SSH. It connects to the daemon's socket there, and starts the daemon "
            "if it does not run.",
    .options = options, .run = run,
};
