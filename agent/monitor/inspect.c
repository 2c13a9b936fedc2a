/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c - see inspect.h */
#include "agent/monitor/inspect.h"

#include <jansson.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/os/process.h"
#include "agent/os/subprocess.h"
#include "agent/probe/probe.h"
#include "agent/ranks/command_programs.h"
#include "engine/base/err.h"

enum { RAS_WAIT_MS = 1000 };
#define RAS_ADDRESS "localhost:28028"

/* Runs a program with this process's output; false: not installed. */
static bool run(const char *const argv[])
{
    const struct subprocess_spec s = {.argv = argv, .out = 1, .err = 2};
    return subprocess_run(&s, NULL, -1, NULL) >= 0;
}

/* The main program of a command, or the process itself. */
static int program_of(int pid)
{
    int64_t program;
    return command_programs_list(pid, false, &program, 1) ? (int)program : pid;
}

static bool is_python(int pid)
{
    char name[64];
    process_program(name, sizeof(name), pid);
    return strstr(name, "python") != NULL;
}

static void print_stacks(FILE *out, int pid)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", pid);
    const char *const gdb[] = {"gdb", "-nx", "-batch", "-p", text, "-ex", "set pagination off",
                               "-ex", "thread apply all bt 16", NULL};
    const char *const spy[] = {"py-spy", "dump", "--pid", text, NULL};
    fprintf(out, "\nnative stacks of process %d:\n", pid);
    fflush(out);
    if (is_python(pid) && run(spy))
        return;
    if (!run(gdb))
        fprintf(out, "  gdb is not installed\n");
    fflush(out);
}

/* A connected socket, or -1. */
static int dial(const char *address)
{
    char host[256];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    const char *colon = strrchr(address, ':');
    if (!colon || (size_t)(colon - address) >= sizeof(host))
        return -1;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
        return -1;
    int fd = -1;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct timeval limit = {.tv_sec = RAS_WAIT_MS / 1000};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

int inspect_ras(FILE *out, const char *address)
{
    static const char ask[] = "CLIENT PROTOCOL 2\nTIMEOUT 1\nVERBOSE STATUS\n";
    char bytes[4096];
    if (!address)
        address = getenv("NCCL_RAS_ADDR");
    int fd = dial(address && *address ? address : RAS_ADDRESS);
    if (fd < 0)
        return -1;
    fprintf(out, "\nNCCL RAS status:\n");
    if (send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(ask) - 1)
        for (struct pollfd p = {.fd = fd, .events = POLLIN}; poll(&p, 1, RAS_WAIT_MS) > 0;) {
            ssize_t n = read(fd, bytes, sizeof(bytes));
            if (n <= 0)
                break;
            fwrite(bytes, 1, (size_t)n, out);
        }
    close(fd);
    fflush(out);
    return 0;
}

static void print_gpus(FILE *out)
{
    setenv("JOBCTL_GPU_PROBE_MS", "500", 0); /* a failing GPU may not respond for minutes */
    json_t *facts = probe_facts(".", NULL);
    size_t i;
    json_t *gpu;
    json_array_foreach(json_object_get(facts, "gpus"), i, gpu)
    {
        if (i == 0)
            fprintf(out, "\nGPUs:\n");
        fputs("  ", out);
        json_dumpf(gpu, out, JSON_COMPACT);
        fputc('\n', out);
    }
    json_decref(facts);
    fflush(out);
}

int inspect_print(FILE *out, const int *pids, int n, struct err *err)
{
    char address[256];
    unsetenv("DEBUGINFOD_URLS"); /* gdb must not download symbols now */
    process_variable(address, sizeof(address), n > 0 ? pids[0] : 0, "NCCL_RAS_ADDR");
    inspect_ras(out, address[0] ? address : NULL);
    print_gpus(out); /* before the stacks, which may use up the remaining time */
    for (int i = 0; i < n; i++)
        print_stacks(out, program_of(pids[i]));
    return fflush(out) == 0 ? 0 : err_set(err, ERR_SYSTEM, "cannot write");
}
