/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - a wall clock that jumps, and a machine that was suspended, by LD_PRELOAD
 *
 *   FAKE_CLOCK=FILE    holds two numbers of seconds: the wall clock is ahead by the first, as after date -s; the
 *                      machine has been suspended for the second, which the wall clock and CLOCK_BOOTTIME count
 *                      and CLOCK_MONOTONIC does not
 *
 * The kernel's own clocks stay: a wait until a moment of the wall clock ends when the real clock is there.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void offsets(long *ahead, long *suspended)
{
    const char *file = getenv("FAKE_CLOCK");
    char text[80] = "";
    const int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    *ahead = *suspended = 0;
    if (fd < 0)
        return;
    if (read(fd, text, sizeof(text) - 1) > 0)
        sscanf(text, "%ld %ld", ahead, suspended);
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*real)(clockid_t, struct timespec *);
    long ahead, suspended;
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const int rc = real(clock, out);
    if (rc < 0 || (clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME))
        return rc;
    offsets(&ahead, &suspended);
    out->tv_sec += suspended + (clock == CLOCK_REALTIME ? ahead : 0);
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}
