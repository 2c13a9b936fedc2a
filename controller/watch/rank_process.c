/* SPDX-License-Identifier: Apache-2.0 */
/* rank_process.c - see rank_process.h */
#include "controller/watch/rank_process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/process.h"
#include "engine/base/err.h"

/* The whole of /proc/PID/environ with a 0 behind it; NULL: another user's, or gone. */
static char *read_environ(int64_t pid, size_t *n)
{
    char path[64], *text = NULL;
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/environ", pid);
    FILE *f = fopen(path, "re");
    size_t room = 0;
    *n = 0;
    while (f) {
        char *more = *n == room ? realloc(text, (room = room ? 2 * room : 16384) + 1) : text;
        if (!more)
            break;
        text = more;
        const size_t k = fread(text + *n, 1, room - *n, f);
        *n += k;
        if (k == 0)
            break;
    }
    if (f)
        fclose(f);
    if (text)
        text[*n] = '\0';
    return text;
}

static bool has(const char *text, size_t n, const char *entry)
{
    for (const char *p = text; p < text + n; p += strlen(p) + 1)
        if (strcmp(p, entry) == 0)
            return true;
    return false;
}

/* Field 22 of /proc/PID/stat: when it was started, in ticks; 0: gone. */
static unsigned long long started(int64_t pid)
{
    char text[1024];
    const char *p = strrchr(process_text(text, sizeof(text), pid, "stat"), ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

/* The texts as a list. -1: no memory. */
static int split(struct rank_process *p, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at < n; at += strlen(p->block + at) + 1)
        count++;
    if (!(p->env = calloc(count + 1, sizeof(*p->env))))
        return -1;
    count = 0;
    for (size_t at = 0; at < n; at += strlen(p->block + at) + 1)
        p->env[count++] = p->block + at;
    return 0;
}

int rank_process_find(struct rank_process *out, const char *nonce, int64_t rank, struct err *err)
{
    char mine[96], number[32];
    unsigned long long oldest = 0;
    size_t n, size = 0;
    *out = (struct rank_process){0};
    snprintf(mine, sizeof(mine), "JOBCTL_NONCE=%s", nonce);
    snprintf(number, sizeof(number), "RANK=%" PRId64, rank);
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const int64_t pid = strtoll(e->d_name, NULL, 10);
        char *text = pid > 0 ? read_environ(pid, &n) : NULL;
        const unsigned long long at = text && has(text, n, mine) && has(text, n, number) ? started(pid) : 0;
        if (at && (!oldest || at < oldest || (at == oldest && pid < out->pid))) {
            char *before = out->block;
            *out = (struct rank_process){.pid = pid, .block = text};
            text = before;
            oldest = at;
            size = n;
        }
        free(text);
    }
    if (dir)
        closedir(dir);
    if (!oldest)
        return err_set(err, ERR_NOT_FOUND, "no process of rank %" PRId64 " runs on this machine", rank);
    return split(out, size) < 0 ? err_set(err, ERR_MEMORY, "no memory for the environment of a rank") : 0;
}

void rank_process_fini(struct rank_process *p)
{
    free(p->env);
    free(p->block);
    *p = (struct rank_process){0};
}
