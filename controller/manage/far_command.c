/* SPDX-License-Identifier: Apache-2.0 */
/* far_command.c - see far_command.h */
#include "controller/manage/far_command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "controller/base/far_host.h"
#include "controller/cli/command.h"
#include "controller/submit/spec_file.h"
#include "engine/base/buf.h"
#include "engine/base/field.h"

/* The input begins with a line of JSON, the secrets of the spec: words are seen in lists of processes. */
#define SECRETS_FIRST "JOBCTL_SECRETS_FIRST"

/* Variables of the user's own machine that a command obeys. */
static const char *const carried[] = {"JOBCTL_OUTPUT", "NO_COLOR", SECRETS_FIRST};
enum { CARRIED = sizeof(carried) / sizeof(carried[0]), WORDS_MAX = 4096 };

/* ---- words ---- */

/* "" becomes "%": an empty word would be lost. For free(); NULL: no memory. */
static char *encode(const char *word)
{
    char *out = malloc(3 * strlen(word) + 2), *to = out;
    if (out && !word[0])
        *to++ = '%';
    for (; out && *word; word++)
        if (isalnum((unsigned char)*word) || strchr("-._/=:,+@", *word))
            *to++ = *word;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*word);
    if (out)
        *to = '\0';
    return out;
}

static int digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 0;
}

/* In place. */
static void decode(char *word)
{
    char *to = word;
    for (const char *from = word; *from; from++)
        if (*from != '%')
            *to++ = *from;
        else if (from[1] && from[2]) {
            *to++ = (char)(16 * digit(from[1]) + digit(from[2]));
            from += 2;
        }
    *to = '\0';
}

static bool is_carried(const char *word)
{
    for (int i = 0; i < CARRIED; i++)
        if (strncmp(word, carried[i], strlen(carried[i])) == 0 && word[strlen(carried[i])] == '=')
            return true;
    return false;
}

/* No byte more than the line: the rest is the command's. */
static int read_secrets(struct err *err)
{
    struct buf line = {0};
    char c = 0;
    while (c != '\n' && read(STDIN_FILENO, &c, 1) == 1)
        if (buf_append(&line, &c, 1) < 0)
            break;
    json_t *secrets = line.data ? json_loadb(line.data, line.size, 0, NULL) : NULL, *value;
    const char *name;
    json_object_foreach (secrets, name, value)
        setenv(name, json_string_value(value) ? json_string_value(value) : "", 1);
    const int rc = secrets ? 0 : err_set(err, ERR_SYSTEM, "the input ended before the secrets");
    json_decref(secrets);
    buf_fini(&line);
    unsetenv(SECRETS_FIRST);
    return rc;
}

int far_command_become(char *const *words, int n, struct err *err)
{
    char **argv = calloc((size_t)n + 2, sizeof(*argv));
    int at = 0;
    if (!argv)
        return err_set(err, ERR_MEMORY, "out of memory for a command");
    for (int i = 0; i < n; i++)
        decode(words[i]);
    for (; at < n && is_carried(words[at]); at++)
        putenv(words[at]);
    if (getenv(SECRETS_FIRST) && read_secrets(err) < 0) {
        free(argv);
        return -1;
    }
    argv[0] = (char *)(uintptr_t)"jobctl";
    memcpy(argv + 1, words + at, (size_t)(n - at) * sizeof(*argv));
    unsetenv("JOBCTL_HOST");    /* the login's own would lead further */
    execv("/proc/self/exe", argv);
    free(argv);
    return err_set(err, ERR_SYSTEM, "cannot run jobctl: %s", strerror(errno));
}

/* ---- the file ---- */

static bool takes_file(const struct call *call)
{
    const enum command_args kind = call->command->args;
    return call->options.nargs > 0 && (kind == ARGS_FILE || kind == ARGS_FILE_OR_NONE || kind == ARGS_FILE_OR_JOB);
}

/* Standard input becomes the secrets and the text of the file. */
static int set_input(const json_t *request, struct err *err)
{
    char *secrets = json_dumps(json_object_get(request, "secrets"), JSON_COMPACT);
    const int fd = memfd_create("jobctl-spec", MFD_CLOEXEC);
    const bool ok = secrets && fd >= 0 && dprintf(fd, "%s\n%s", secrets, field_text(request, "spec")) > 0 &&
                    lseek(fd, 0, SEEK_SET) == 0 && dup2(fd, STDIN_FILENO) == STDIN_FILENO &&
                    setenv(SECRETS_FIRST, "1", 1) == 0;
    const int errnum = errno;
    free(secrets);
    if (fd >= 0)
        close(fd);
    return ok ? 0 : err_set(err, ERR_SYSTEM, "cannot keep the job spec in memory: %s", strerror(errnum));
}

/* Checks the file there, and takes its text; its word becomes "-". */
static int take_file(struct call *call, char **words)
{
    const struct options *o = &call->options;
    json_t *request = NULL;
    if (!takes_file(call) || (call->command->args == ARGS_FILE_OR_JOB && !spec_file_is(o->args[0])))
        return 0;
    int rc = spec_file_request(call, o->args[0], (const char *const *)o->list, o->nlist, &request, NULL);
    if (rc == 0)
        rc = set_input(request, &call->err);
    json_decref(request);
    for (int i = 0; rc == 0 && words[i]; i++)
        if (words[i] == o->args[0])
            words[i] = (char *)(uintptr_t)"-";
    return rc;
}

static bool takes_stdin(const struct call *call)
{
    return takes_file(call) && strcmp(call->options.args[0], "-") == 0;
}

/* Only a shell reads: the input of a script that runs this is not ours to take. */
static void spare_input(void)
{
    const int null = open("/dev/null", O_RDONLY);
    if (null > STDIN_FILENO)
        dup2(null, STDIN_FILENO);
    if (null > STDIN_FILENO)
        close(null);
}

/* ---- run ---- */

static int become_helper(const char *name, char **words, int argc, struct err *err)
{
    const char *helper[FAR_HOST_WORDS], *argv[WORDS_MAX + CARRIED + 8];
    int n = 0;
    far_host_helper(helper, "command");
    for (int i = 0; i < 4; i++)
        argv[n++] = helper[i];
    argv[n++] = helper[4] ? helper[4] : "";
    for (int i = 0; i < CARRIED; i++) {
        char *text = NULL;
        if (getenv(carried[i]) && asprintf(&text, "%s=%s", carried[i], getenv(carried[i])) > 0)
            argv[n++] = encode(text);
    }
    argv[n++] = name;
    for (int i = 0; i < argc; i++)
        argv[n++] = encode(words[i]);
    argv[n] = NULL;
    execv(argv[0], (char *const *)(uintptr_t)argv);
    return err_set(err, ERR_USAGE, "-H needs jobctl-ssh next to jobctl, which is built where libssh is found: "
                   "docs/INSTALL.md");
}

int far_command_run(struct call *call, int argc, char **argv)
{
    if (call->command == &cmd_daemon && call->options.nargs == 0)
        return err_set(&call->err, ERR_USAGE, "-H: the daemon of %s starts by itself; to restart it: jobctl -H %s "
                       "daemon restart", far_host_name(), far_host_name());
    if (argc > WORDS_MAX)
        return err_set(&call->err, ERR_USAGE, "a command for %s can have at most %d words", far_host_name(), WORDS_MAX);
    unsetenv(SECRETS_FIRST);
    if (call->command != &cmd_shell && !isatty(STDIN_FILENO) && !takes_stdin(call))
        spare_input();
    if (take_file(call, argv) < 0)
        return -1;
    fflush(NULL);
    return become_helper(call->command->name, argv, argc, &call->err);
}
