/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.c - see interpreter.h */
#include "agent/ranks/interpreter.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/process.h"
#include "agent/ranks/command_programs.h"

enum { ENVIRON = 65536 /* its last byte stays 0 */, PROGRAMS = 8 };

/* "/home/u/.pyenv/bin/python3.11", not "python_utils.py". */
static bool is_python(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    return strncmp(base, "python", 6) == 0 && !strstr(base, ".py");
}

/* The program that a shell would start under this name. */
static void in_path(char *out, size_t size, const char *name, const char *path)
{
    out[0] = '\0';
    if (strchr(name, '/')) {
        snprintf(out, size, "%s", name);
        return;
    }
    while (path && *path) {
        const size_t n = strcspn(path, ":");
        snprintf(out, size, "%.*s/%s", (int)n, path, name);
        if (access(out, X_OK) == 0)
            return;
        path += n + (path[n] == ':');
    }
    out[0] = '\0';
}

/* The value of PATH in /proc/PID/environ. */
static const char *path_of(char *text, size_t size, int64_t pid)
{
    memset(text, 0, size);
    process_text(text, size - 1, pid, "environ");
    for (const char *p = text; *p; p += strlen(p) + 1)
        if (strncmp(p, "PATH=", 5) == 0)
            return p + 5;
    return NULL;
}

void interpreter_look(char *out, size_t size, int64_t root)
{
    static char environment[ENVIRON]; /* one thread */
    int64_t pids[PROGRAMS];
    char line[4096];
    const int n = command_programs_list(root, false, pids, PROGRAMS);
    out[0] = '\0';
    for (int i = 0; i < n && !out[0]; i++)
        if (is_python(process_text(line, sizeof(line), pids[i], "cmdline"))) /* up to the NUL behind argv[0] */
            in_path(out, size, line, path_of(environment, sizeof(environment), pids[i]));
}

static bool changes_environment(const char *command)
{
    static const char *const words[] = {"activate", "conda", "module ", "source ", "PATH=", ". ", "uv run", "poetry "};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(command, words[i]))
            return true;
    return false;
}

/* The first word of the command that names a Python. */
static bool first_python(char *out, size_t size, const char *command)
{
    for (const char *p = command; *p;) {
        const size_t n = strcspn(p, " \t\n;&|()'\"");
        snprintf(out, size, "%.*s", (int)n, p);
        if (n > 0 && n < size && is_python(out))
            return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

void interpreter_guess(char *out, size_t size, const char *const *argv, char *const *env)
{
    const char *path = NULL;
    char name[4096] = "";
    bool found = false;
    out[0] = '\0';
    for (size_t i = 0; argv[i] && !found; i++) {
        if (changes_environment(argv[i]))
            return;
        found = first_python(name, sizeof(name), argv[i]);
    }
    for (size_t i = 0; env[i]; i++)
        if (strncmp(env[i], "PATH=", 5) == 0)
            path = env[i] + 5;
    if (found)
        in_path(out, size, name, path);
}
