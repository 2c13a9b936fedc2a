/* SPDX-License-Identifier: Apache-2.0 */
/* json_memory.c - see json_memory.h */
#include "engine/base/json_memory.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { PAUSE_MS_MAX = 512 };

static const char *json_program = "jobctl";
static int         json_exit_code;

static void give_up(size_t bytes)
{
    char line[192];
    const int n = snprintf(line, sizeof(line), "%.64s: out of memory: the system refused %zu bytes; free some and "
                           "try again\n", json_program, bytes);
    if (write(STDERR_FILENO, line, (size_t)n) < 0) {
        /* nobody listens */
    }
    _exit(json_exit_code);
}

static void *allocate(size_t bytes)
{
    void *made = malloc(bytes);
    for (int ms = 1; !made && ms <= PAUSE_MS_MAX; ms *= 2) {
        clock_wait(-1, ms);
        made = malloc(bytes);
    }
    if (!made)
        give_up(bytes);
    return made;
}

void json_memory_open(const char *program, int code)
{
    json_program = program;
    json_exit_code = code;
    json_set_alloc_funcs(allocate, free);
}
