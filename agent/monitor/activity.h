/* SPDX-License-Identifier: Apache-2.0 */
/* activity.h - signs of life of a rank, from the counters of its whole process tree
 *
 * Pure: no clock, no I/O.
 * Output is a sign of life, and so are, in a window (hang_rules_window_ms() of agent/core/hang_rules.h): 10 ms of work
 * (agent/monitor/waiting.h), 4 KB/s read or written, and any byte that others moved for the rank. Each, except the
 * last, must also be at least 1 % of the job's norm: its mean rate over all intervals, of all ranks, in which it was a
 * sign. So a logger alone does not count once the job has worked. The first value seen becomes the first norm.
 * 1 ms of work of main threads counts whatever is usual: a light step every few seconds is far below the rate at which
 * a program starts, but loggers run in other threads, and the main thread of a hung rank only waits. Launchers, which
 * poll in their main threads, are left out.
 *
 * Spinning is not a sign of life. Nothing counts while the rank is inside a collective, and CPU and GPU time do not
 * count while the GPU is busy but its memory controller and links are idle.
 */
#ifndef AGENT_MONITOR_ACTIVITY_H
#define AGENT_MONITOR_ACTIVITY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum activity_sign { ACTIVITY_OUTPUT, ACTIVITY_CPU, ACTIVITY_IO, ACTIVITY_MOVED, ACTIVITY_GPU, ACTIVITY_SIGNS };

/* One reading of a rank's counters. */
struct activity_sample {
    int64_t  at_ms; /* on the monotonic clock of its node; 0: none yet */
    uint64_t output_bytes;                         /* output grows, */
    uint64_t work_us, io_bytes, moved_bytes;       /* and so do these, which were read */
    uint64_t main_us;                              /* work of main threads */
    int64_t  counted_ms;                           /* at this time, which ends the window since the previous reading */
    bool     blocked;                              /* a thread waits for a disk or a network file system */
    bool     gpu;                                  /* the fields below are known */
    unsigned gpu_busy, gpu_memory;           /* percent of the time */
    uint64_t link_kb_s;                      /* over PCIe and NVLink */
};

/* What is usual for the job; zeroed: not known. */
struct activity_norm {
    double sum[ACTIVITY_SIGNS], seconds[ACTIVITY_SIGNS];
};

/* State of one rank; zeroed: no sample yet. */
struct activity {
    struct activity_sample last;
    double rate[ACTIVITY_SIGNS]; /* between the last two samples or windows: cores, bytes/s, percent */
    bool free;                   /* in this window it was outside collectives at least part of the time */
    bool main_works;             /* a main thread worked in the last window */
    bool spins;                  /* its GPU was busy without moving data */
};

/* Takes a sample. The result has a bit 1 << sign for each sign of life since the previous sample; 0 for a sample
 * already taken. in_collective: the rank was in the same collective all the time. */
unsigned activity_take(struct activity *a, struct activity_norm *norm,
                       const struct activity_sample *s, bool in_collective);

/* The usual rate; 0: not known. */
double activity_usual(const struct activity_norm *norm, enum activity_sign sign);

/* Appends "no output, no CPU work, nothing read or written, no network traffic" to the text, and the activity that
 * is too small to count: "CPU work 0.2 % of the usual rate". */
void activity_say(char *text, size_t size, const struct activity *a, const struct activity_norm *norm);

/* The norm for the next attempt: {"cpu": cores, "io": bytes/s, ...}, rounded, a new object; and the function that
 * reads it, which accepts NULL. */
json_t *activity_norm_json(const struct activity_norm *norm);
void activity_norm_read(struct activity_norm *norm, const json_t *json);

#endif
