/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h */
#include "agent/os/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 2048 };

static int log_fd = -1;
static const char *log_unit = "";
static long log_lost; /* lines since the last one that was written whole */
static bool log_torn; /* a part of one was */
static enum log_level log_least = LOG_LEVEL_INFO;
static char *(*log_clean)(const void *arg, const char *text);
static const void *log_clean_arg;

void log_open(int fd, const char *unit, enum log_level least)
{
    log_fd = fd;
    log_unit = unit;
    log_least = least;
}

void log_filter(char *(*clean)(const void *arg, const char *text), const void *arg)
{
    log_clean = clean;
    log_clean_arg = arg;
}

/* Copies text as one line, control characters escaped; returns the length written. */
static size_t put_visible(char *out, size_t room, const char *text)
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p && n + 5 < room; p++) {
        if (*p >= 0x20 && *p != 0x7f)
            out[n++] = (char)*p;
        else
            n += (size_t)snprintf(out + n, 5, "\\x%02x", *p);
    }
    return n;
}

/* A line that cannot be written is lost. The number of lost lines is logged with the next one that can be. */
static void put_line(const char *line, size_t size)
{
    char note[64];
    if (log_lost > 0) {
        const int n = snprintf(note, sizeof(note), "\n--- %ld lines lost: disk full ---\n", log_lost);
        const bool told = write(log_fd, note + !log_torn, (size_t)(n - !log_torn)) == n - !log_torn;
        log_lost = told ? 0 : log_lost;
        log_torn = log_torn && !told;
    }
    const ssize_t done = log_lost > 0 ? 0 : write(log_fd, line, size);
    log_torn = log_torn || (done > 0 && done < (ssize_t)size);
    log_lost += done < (ssize_t)size;
}

void log_write(enum log_level level, const char *job, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    if (log_fd < 0 || level < log_least)
        return;
    int keep = errno;

    char text[LINE], line[LINE + 128], *clean = NULL;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (log_clean && !(clean = log_clean(log_clean_arg, text)))
        return;

    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03dZ %-5s %s %.40s ",
                          (int)(ts.tv_nsec / 1000000), names[level], log_unit, job ? job : "-");
    n += put_visible(line + n, sizeof(line) - n - 1, clean ? clean : text);
    free(clean);
    line[n++] = '\n';
    put_line(line, n);
    errno = keep;
}
