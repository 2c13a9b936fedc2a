/* SPDX-License-Identifier: Apache-2.0 */
/* thread_times.c - see thread_times.h */
#include "agent/os/thread_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/process.h"

enum { TEXT = 4096 };

/* The text behind a key at the start of a line, or NULL. */
static const char *value_of(const char *status, const char *key)
{
    const char *at = strstr(status, key);
    return at ? at + strlen(key) : NULL;
}

/* The name in parentheses may hold any character. */
static bool parse_stat(struct thread_times *out, const char *stat, long hz)
{
    unsigned long long user, system;
    const char *after = strrchr(stat, ')');
    if (!after || sscanf(after + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &out->state, &user,
                         &system) != 3)
        return false;
    out->cpu_ns = (user + system) * (1000000000 / (uint64_t)hz);
    out->ticks = true;
    return true;
}

bool thread_times_parse(struct thread_times *out, const char *schedstat, const char *status, const char *stat, long hz)
{
    const char *waits = value_of(status, "\nvoluntary_ctxt_switches:"), *state = value_of(status, "\nState:\t");
    *out = (struct thread_times){.cpu_ns = strtoull(schedstat, NULL, 10), .waits = waits ? atoll(waits) : -1};
    if (out->cpu_ns == 0 || !state) /* a thread that has run has nanoseconds */
        return parse_stat(out, stat, hz);
    out->state = *state;
    return true;
}

bool thread_times_read(struct thread_times *out, int64_t pid, int64_t tid)
{
    static const char *const files[] = {"schedstat", "status", "stat"};
    char text[3][TEXT] = {"", "", ""}, name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "task/%lld/%s", (long long)tid, files[i]);
        process_text(text[i], TEXT, pid, name);
        if (i == 1 && thread_times_parse(out, text[0], text[1], "", 1))
            return true;
    }
    return thread_times_parse(out, text[0], text[1], text[2], sysconf(_SC_CLK_TCK));
}
