/* SPDX-License-Identifier: Apache-2.0 */
/* pid_span.c - see pid_span.h */
#include "agent/os/pid_span.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number that begins the file, or -1. */
static int64_t number_of(const char *path)
{
    char text[32];
    FILE *f = fopen(path, "re");
    const bool read = f && fgets(text, sizeof(text), f);
    if (f)
        fclose(f);
    return read ? strtoll(text, NULL, 10) : -1;
}

/* "processes 673890" of /proc/stat, or -1. */
static int64_t count_forks(void)
{
    static const char key[] = "\nprocesses ";
    char *line = NULL;
    size_t room = 0;
    int64_t forks = -1;
    FILE *f = fopen("/proc/stat", "re");
    while (f && forks < 0 && getline(&line, &room, f) > 0)
        if (strncmp(line, key + 1, sizeof(key) - 2) == 0)
            forks = strtoll(line + sizeof(key) - 2, NULL, 10);
    free(line);
    if (f)
        fclose(f);
    return forks;
}

struct pid_span pid_span_now(void)
{
    return (struct pid_span){number_of("/proc/sys/kernel/ns_last_pid"), count_forks()};
}

bool pid_span_between(const struct pid_span *then, const struct pid_span *now, int64_t pid_max, int64_t *after,
                      int64_t *until)
{
    const int64_t forks = now->forks - then->forks;
    *after = then->last;
    *until = now->last;
    /* Half: a fork that fails has taken a pid and is not counted. */
    return then->last > 0 && now->last >= then->last && then->forks > 0 && forks >= 0 && forks < pid_max / 2;
}

bool pid_span_since(const struct pid_span *then, int64_t *after, int64_t *until)
{
    const struct pid_span now = pid_span_now();
    return pid_span_between(then, &now, number_of("/proc/sys/kernel/pid_max"), after, until);
}
