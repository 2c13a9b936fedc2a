/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - jobctl-ssh: one connection of the controller to one host
 *
 *   jobctl-ssh attach HOST        input and output are those of `jobctl-agent attach` on the host
 *   jobctl-ssh attach HOST CODE KEY  the same, after the host has the code of the job KEY (code_send.h)
 *   jobctl-ssh doctor-query HOST the same, of `jobctl-agent doctor-query`
 *   jobctl-ssh probe HOST         what `jobctl-agent probe` says there
 *   jobctl-ssh test HOST          the same as an answer: {host, ok: true, ms, facts} or {host, ok: false,
 *                                 again, text}; again: it may work later
 *   jobctl-ssh resolve HOST...    a line for each: {host, unknown, jump, text}: login_look_up()
 *   jobctl-ssh relay HOST LINE [PROGRAM]   the same, of `jobctl relay` there, which prints LINE once it listens
 *   jobctl-ssh command HOST LINE PROGRAM WORD...   runs `jobctl relay WORD...` there, with our streams and, if we have
 *                                 a terminal, one there; exits with its code
 *   jobctl-ssh digest             of the programs that would be sent
 *
 * Missing programs are copied first, except for relay: PROGRAM, or jobctl in PATH or a usual place, must be there. One
 * process per connection: libssh blocks, and a process that hangs or dies affects no other. It exits at the end of its
 * input. Exit code: 0 the session ended, 2 the user must fix something first, 3 the resolver has no such name, 4 a
 * retry may work, 5 the same, and there was no connection or, of attach, no login: nothing was started; the reason is the
 * last line on stderr.
 */
#include <libssh/libssh.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/attach.h"
#include "agent/doctor/doctor_query.h"
#include "controller/ssh/code_send.h"
#include "controller/ssh/host_command.h"
#include "controller/ssh/login.h"
#include "controller/ssh/programs.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/json_memory.h"

#define CACHE_WORD "jobctl-cache:"

enum { NOT_THERE = 117, COMMAND = 1024, COMMAND_MAX = 64 * 1024 };

/* Works in any login shell: one word in single quotes. */
static void compose(char out[COMMAND], const struct programs *p, const char *verb)
{
    snprintf(out, COMMAND, "exec sh -c 'd=${XDG_CACHE_HOME:-$HOME/.cache}/jobctl; p=$d/%s/bin/jobctl-agent; test -x "
             "\"$p\" && exec \"$p\" %s; echo \"" CACHE_WORD "$d\" >&2; exit %d'", p->digest, verb, NOT_THERE);
}

static bool inside;     /* the login succeeded */

static void leave(ssh_session s)
{
    if (!s)
        return;
    alarm(2);
    signal(SIGALRM, SIG_DFL); /* do not wait for a clean disconnect */
    ssh_disconnect(s);
    ssh_free(s);
}

/* The host's directory for programs, from the output of the command. */
static int send_programs(const struct programs *p, ssh_session s, const char *host, const char *said, struct err *err)
{
    char cache[PATH_MAX];
    const char *word = strstr(said, CACHE_WORD);
    if (!word)
        return err_set(err, ERR_SYSTEM, "unexpected output of the login shell of %s: %.200s", host, said);
    word += strlen(CACHE_WORD);
    snprintf(cache, sizeof(cache), "%.*s", (int)strcspn(word, "\n"), word);
    if (cache[0] != '/')
        return err_set(err, ERR_USAGE, "HOME is not set for logins on %s", host);
    return programs_send(p, s, host, cache, err);
}

static int no_answer(const char *host, int status, const char *wrong, struct err *err)
{
    return err_set(err, host_command_lacks_home(status) ? ERR_USAGE : ERR_SYSTEM, "jobctl-agent on %s ended with "
                   "status %d%s%s", host, status, wrong[0] ? ": " : "", wrong);
}

/* `ready`: the line that the agent's command prints once it listens. */
static int converse(ssh_session s, const struct programs *p, const char *host, const char *verb,
                    const char *ready, struct err *err)
{
    char command[COMMAND], wrong[2048];
    compose(command, p, verb);
    for (int i = 0; i < 2; i++) {
        bool began = false;
        int status = -1;
        if (host_command_pass(s, host, command, ready, &began, wrong, sizeof(wrong), &status, err) < 0)
            return -1;
        if (began || status != NOT_THERE || i == 1)
            return began && status == 0 ? 0 : no_answer(host, status, wrong, err);
        if (send_programs(p, s, host, wrong, err) < 0)
            return -1;
    }
    return 0;
}

static const char *code_dir, *code_key;     /* NULL: the job has no snapshot */

static int bring_code(ssh_session s, const struct programs *p, const char *host, struct err *err)
{
    char command[COMMAND], wrong[2048] = "", verb[128];
    snprintf(verb, sizeof(verb), "code %.100s", code_key);
    compose(command, p, verb);
    for (int i = 0; i < 2; i++) {
        bool began = false;
        int status = -1;
        if (code_send(s, host, command, code_dir, &began, wrong, sizeof(wrong), &status, err) < 0)
            return -1;
        if (began || status != NOT_THERE || i == 1)
            return began ? 0 : no_answer(host, status, wrong, err);
        if (send_programs(p, s, host, wrong, err) < 0)
            return -1;
    }
    return 0;
}

static int attach(ssh_session s, const struct programs *p, const char *host, struct err *err)
{
    if (code_dir && bring_code(s, p, host, err) < 0)
        return -1;
    return converse(s, p, host, "attach", ATTACH_READY, err);
}

static int relay_doctor_query(ssh_session s, const struct programs *p, const char *host, struct err *err)
{
    return converse(s, p, host, "doctor-query", DOCTOR_READY, err);
}

/* Without PROGRAM: PATH of the login, which is often shorter than that of a terminal, then usual places. words: of
 * characters that no shell interprets. For free(). */
static char *compose_relay(const char *program, char *const *words, struct err *err)
{
    char *out = NULL, all[COMMAND_MAX] = "relay";
    size_t at = strlen(all);
    if (*words)
        at += (size_t)snprintf(all + at, sizeof(all) - at, " --");
    for (; *words && at < sizeof(all); words++)
        at += (size_t)snprintf(all + at, sizeof(all) - at, " %s", *words);
    if (at >= sizeof(all) || strpbrk(all, "\"'`$\\!\n;&|<>(){}*?[]#~"))
        err_set(err, ERR_USAGE, "the command is longer than %d bytes, or not encoded", COMMAND_MAX);
    else if (program && strpbrk(program, "\"'`$\\!\n"))
        err_set(err, ERR_USAGE, "the path of jobctl on the host contains a special shell character: %.200s", program);
    else if (asprintf(&out, "exec sh -c 'for p in \"%s\" \"$HOME/.local/bin/jobctl\" \"$HOME/bin/jobctl\" "
                      "/usr/local/bin/jobctl /opt/jobctl/bin/jobctl; do "
                      "test -f \"$p\" && test -x \"$p\" && exec \"$p\" %s; %s; done; exit %d'",
                      program ? program : "$(command -v jobctl)", all, program ? "break" : ":", NOT_THERE) < 0)
        out = NULL;
    if (!out)
        err_set(err, ERR_MEMORY, "out of memory for a command");
    return out;
}

static int no_jobctl(const char *host, const char *program, int status, const char *wrong, struct err *err)
{
    if (status == NOT_THERE)
        return err_set(err, ERR_USAGE, "%s has no %s; install jobctl there, or set JOBCTL_HOST_PROGRAM to its path "
                       "there", host, program ? program : "jobctl in PATH, ~/.local/bin, ~/bin, /usr/local/bin or "
                       "/opt/jobctl/bin");
    return err_set(err, ERR_SYSTEM, "jobctl on %s ended with status %d%s%s", host, status, wrong[0] ? ": " : "", wrong);
}

/* argv: HOST LINE [PROGRAM] */
static int relay(char *const *argv, struct err *err)
{
    char wrong[2048], *const none[] = {NULL};
    const char *host = argv[0], *program = argv[2];
    bool began = false;
    int status = -1, rc = -1;
    char *command = compose_relay(program, none, err);
    ssh_session s = command ? login_open(host, err) : NULL;
    inside = s != NULL;
    if (s && (rc = host_command_pass(s, host, command, argv[1], &began, wrong, sizeof(wrong), &status, err)) == 0 &&
        (!began || status != 0))
        rc = no_jobctl(host, program, status, wrong, err);
    leave(s);
    free(command);
    return rc;
}

/* argv: HOST LINE PROGRAM WORD...; PROGRAM may be "". The exit code is that of the command. */
static int command_there(char *const *argv, struct err *err)
{
    const char *host = argv[0], *program = argv[2][0] ? argv[2] : NULL;
    bool began = false;
    int status = -1;
    char *command = compose_relay(program, argv + 3, err);
    ssh_session s = command ? login_open(host, err) : NULL;
    if (s && host_command_carry(s, host, command, argv[1], &began, &status, err) == 0 && !began)
        no_jobctl(host, program, status, "", err);
    leave(s);
    free(command);
    if (err->code == ERR_NONE)
        return status < 0 ? err_exit_code(ERR_SYSTEM) : status;
    fprintf(stderr, "jobctl: %s\n", err->text);
    return err_exit_code(err->code == ERR_NOT_FOUND || err->code == ERR_CONFLICT ? ERR_USAGE : err->code);
}

static char answer[256 * 1024]; /* output of the agent, from its facts on */

/* Moves the facts to the beginning, past whatever the login printed; false: there are none. */
static bool find_facts(void)
{
    for (const char *at = strchr(answer, '{'); at; at = strchr(at + 1, '{')) {
        json_t *facts = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        bool found = json_is_string(json_object_get(facts, "hostname"));
        json_decref(facts);
        if (found) {
            memmove(answer, at, strlen(at) + 1);
            return true;
        }
    }
    return false;
}

static int ask(ssh_session s, const struct programs *p, const char *host, struct err *err)
{
    char command[COMMAND], wrong[2048];
    compose(command, p, "probe /");
    for (int i = 0; i < 2; i++) {
        int status = -1;
        login_deadline(host, LOGIN_STEP_S);
        if (host_command_run(s, command, answer, sizeof(answer), wrong, sizeof(wrong), &status, err) < 0)
            return err_prefix(err, "%s: ", host);
        if (status == 0)
            return find_facts() ? 0 : err_set(err, ERR_SYSTEM, "%s does not run the commands of jobctl: the answer is "
                                              "not from jobctl-agent; see what `ssh %s true` prints", host, host);
        if (status != NOT_THERE || i == 1)
            return no_answer(host, status, wrong, err);
        if (send_programs(p, s, host, wrong, err) < 0)
            return -1;
    }
    return 0;
}

static int probe(ssh_session s, const struct programs *p, const char *host, struct err *err)
{
    if (ask(s, p, host, err) < 0)
        return -1;
    fputs(answer, stdout);
    return 0;
}

static const struct verb {
    const char *name;
    int (*run)(ssh_session s, const struct programs *p, const char *host, struct err *err);
} verbs[] = {
    {"attach", attach},
    {"doctor-query", relay_doctor_query},
    {"probe", probe},
    {"test", ask},
};

static int run(const char *verb, const char *host, struct err *err)
{
    struct programs p;
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].name, verb) != 0)
            continue;
        if (programs_find(&p, err) < 0)
            return -1;
        ssh_session s = login_open(host, err);
        int rc = s ? verbs[i].run(s, &p, host, err) : -1;
        inside = s != NULL;
        leave(s);
        return rc;
    }
    return err_set(err, ERR_USAGE, "usage: jobctl-ssh attach|doctor-query|probe|test HOST");
}

/* Success and failure are both answers. */
static int test(const char *host)
{
    struct err err = {0};
    const int64_t from = clock_ms();
    int rc = run("test", host, &err);
    json_t *facts = rc == 0 ? json_loads(answer, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    json_t *v = rc == 0 ? json_make("{s:s, s:b, s:I, s:o?}", "host", host, "ok", 1, "ms",
                                    (json_int_t)(clock_ms() - from),
                                    "facts", facts)
                        : json_make("{s:s, s:b, s:b, s:s}", "host", host, "ok", 0, "again",
                                    (int)(err.code != ERR_USAGE && err.code != ERR_CONFLICT), "text", err.text);
    rc = v ? json_dumpf(v, stdout, JSON_COMPACT) : -1;
    json_decref(v);
    return rc < 0 ? 70 : 0;
}

/* Which of the names the resolver knows, a line as soon as it is told. */
static int resolve(char *const *hosts)
{
    for (; *hosts; hosts++) {
        char text[400];
        const enum login_name known = login_look_up(*hosts, text, sizeof(text));
        json_t *v = json_make("{s:s, s:b, s:b, s:s}", "host", *hosts, "unknown", (int)(known == LOGIN_NAME_UNKNOWN),
                              "jump", (int)(known == LOGIN_NAME_JUMP), "text", text);
        if (!v || json_dumpf(v, stdout, JSON_COMPACT) < 0)
            return 70;
        json_decref(v);
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}

static int exit_code(const char *verb, const struct err *err)
{
    const bool attaches = strcmp(verb, "attach") == 0;
    if (!inside && (err->code == ERR_SYSTEM || (attaches && err->code == ERR_CONFLICT)))
        return LOGIN_EXIT_UNREACHED;
    return err_exit_code(err->code == ERR_CONFLICT ? ERR_USAGE : err->code);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    signal(SIGPIPE, SIG_IGN);
    json_memory_open("jobctl-ssh", err_exit_code(ERR_MEMORY));
    ssh_init();
    if (argc == 3 && strcmp(argv[1], "test") == 0)
        return test(argv[2]);
    if (argc > 2 && strcmp(argv[1], "resolve") == 0)
        return resolve(argv + 2);
    if (argc == 5 && strcmp(argv[1], "attach") == 0 && strspn(argv[4], "0123456789abcdef-") == strlen(argv[4])) {
        code_dir = argv[3];
        code_key = argv[4];
        argc = 3;
    }
    if (argc > 5 && strcmp(argv[1], "command") == 0)
        return command_there(argv + 2, &err);
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "relay") == 0) {
        relay(argv + 2, &err);
    } else if (argc == 2 && strcmp(argv[1], "digest") == 0) {
        struct programs p;
        if (programs_find(&p, &err) == 0)
            puts(p.digest);
    } else if (argc != 3 || run(argv[1], argv[2], &err) < 0) {
        err_set(&err, ERR_USAGE, "usage: jobctl-ssh attach|doctor-query|probe|test HOST, "
                "jobctl-ssh relay HOST LINE [PROGRAM], jobctl-ssh resolve HOST..., or jobctl-ssh digest");
    }
    fflush(stdout);
    if (!err.code)
        return 0;
    fprintf(stderr, "jobctl-ssh: %s\n", err.text);
    return exit_code(argv[1], &err);
}
