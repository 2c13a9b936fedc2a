/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_log.c - see kernel_log.h
 *
 * A read of /dev/kmsg gives one record, "PRIORITY,SEQ,MICROSECONDS,FLAGS;text\n KEY=value\n...".
 */
#include "agent/os/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { RECENT_US = 30 * 1000 * 1000, RECORDS_MAX = 100000 };

bool kernel_log_take(char *out, size_t size, const char *record, long long now_us, bool memory)
{
    static const char *const gpu[] = {"NVRM: Xid", "SXid"};
    static const char *const oom[] = {"Out of memory: Killed process", "oom-kill:",
                                      "Memory cgroup out of memory"};
    long long at_us;
    const char *text = strchr(record, ';');
    if (!text || sscanf(record, "%*[^,],%*[^,],%lld", &at_us) != 1 || at_us < now_us - RECENT_US)
        return false;
    text++;
    bool found = false;
    for (size_t i = 0; i < sizeof(gpu) / sizeof(gpu[0]); i++)
        found = found || strstr(text, gpu[i]);
    for (size_t i = 0; memory && i < sizeof(oom) / sizeof(oom[0]); i++)
        found = found || strstr(text, oom[i]);
    if (found)
        snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
    return found;
}

const char *kernel_log_recent(bool memory)
{
    static char all[4096];
    char record[2048], line[500];
    size_t at = 0;
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    all[0] = '\0';
    if (fd < 0)
        return all;
    const long long now_us = (long long)(clock_ns() / 1000);
    for (int i = 0; i < RECORDS_MAX; i++) {
        ssize_t n = read(fd, record, sizeof(record) - 1);
        if (n < 0 && (errno == EPIPE || errno == EINTR || errno == EINVAL))
            continue; /* EPIPE: overwritten meanwhile; EINVAL: longer than any record of interest */
        if (n <= 0)
            break;
        record[n] = '\0';
        if (kernel_log_take(line, sizeof(line), record, now_us, memory) &&
            at + strlen(line) + 2 < sizeof(all))
            at += (size_t)snprintf(all + at, sizeof(all) - at, "%s\n", line);
    }
    close(fd);
    return all;
}
