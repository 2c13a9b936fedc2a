/* SPDX-License-Identifier: Apache-2.0 */
/* incident.c - see incident.h */
#include "agent/attempt/incident.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "agent/nodes/leader.h"
#include "engine/base/buf.h"
#include "agent/os/kernel_log.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { LAST_ENTRIES = 24, LAST_LINES = 12, THREADS = 24, TOLD_RANKS = 4 };

/* The beginning of a /proc file, "" if unreadable. */
static const char *slurp(char *out, size_t size, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return out;
}

/* --- one rank ---------------------------------------------------------------------------- */

/* "step 41, forward for 5.1 s, in all-reduce 412 for 5.0 s" */
static void put_place(struct buf *t, const struct flight_page *p)
{
    if (!p->pid) {
        buf_print(t, "step unknown: the command writes no flight page");
        return;
    }
    buf_print(t, "step %" PRIu64 ", %s for %.1f s", flight_step(p) + 1,
              flight_phase_name(flight_phase_of(p)), clock_ago_s(p->phase_start_ns));
    if (p->phase_total)
        buf_print(t, " (%" PRIu64 " of %" PRIu64 " done)", p->phase_done, p->phase_total);
    if (p->coll_seq > p->coll_done_seq)
        buf_print(t, ", in %s %" PRIu64 " for %.1f s", flight_coll_name(p->coll_kind), p->coll_seq,
                  clock_ago_s(p->coll_start_ns));
}

static void put_last_steps(struct buf *t, const struct flight_page *p)
{
    uint64_t next = p->ring_next ? p->ring_next : 1;
    uint64_t seq = next > LAST_ENTRIES ? next - LAST_ENTRIES : 1, step = UINT64_MAX;
    for (; seq < next; seq++) {
        const struct flight_entry *e = &p->ring[seq % FLIGHT_RING];
        if (e->seq != seq)
            continue;
        if (e->step_phase >> 8 != step)
            buf_print(t, "\n    step %" PRIu64 ":", (e->step_phase >> 8) + 1);
        step = e->step_phase >> 8;
        buf_print(t, " %s -%.3fs", flight_phase_name((enum flight_phase)(e->step_phase & 0xff)), clock_ago_s(e->at_ns));
    }
    buf_print(t, "\n");
}

static void put_page(struct buf *t, const struct flight_page *p)
{
    if (!p->pid)
        return;
    buf_print(t, "  collectives: %" PRIu64 " begun, %" PRIu64 " done", p->coll_seq, p->coll_done_seq);
    if (p->coll_seq)
        buf_print(t, "; last begun: %s of %" PRIu64 " bytes, %.3f s ago",
                  flight_coll_name(p->coll_kind), p->coll_bytes, clock_ago_s(p->coll_start_ns));
    buf_print(t, "\n  micro-batch %" PRIu64 " of bucket %u x %u; a step takes %.1f ms (median), "
                 "%.1f ms (99.9 %%)\n  last phases, seconds ago:",
              p->micro_batch, (unsigned)(p->bucket >> 32), (unsigned)p->bucket,
              (double)flight_quantile_ns(p->step_hist, 0.5) / 1e6,
              (double)flight_quantile_ns(p->step_hist, 0.999) / 1e6);
    put_last_steps(t, p);
}

/* The position of each thread in the kernel: available without stopping it. */
static void put_threads(struct buf *t, int64_t pid)
{
    char path[320], name[64], where[128], call[200], stack[2048];
    snprintf(path, sizeof(path), "/proc/%lld/task", (long long)pid);
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' || n++ >= THREADS)
            continue;
        snprintf(path, sizeof(path), "/proc/%lld/task/%s/comm", (long long)pid, e->d_name);
        slurp(name, sizeof(name), path);
        snprintf(path, sizeof(path), "/proc/%lld/task/%s/wchan", (long long)pid, e->d_name);
        slurp(where, sizeof(where), path);
        snprintf(path, sizeof(path), "/proc/%lld/task/%s/syscall", (long long)pid, e->d_name);
        slurp(call, sizeof(call), path);
        buf_print(t, "  thread %s (%.*s): wchan %s, syscall %.*s\n", e->d_name, (int)strcspn(name, "\n"), name,
                  where[0] ? where : "?", (int)strcspn(call, "\n"), call[0] ? call : "?");
        snprintf(path, sizeof(path), "/proc/%lld/task/%s/stack", (long long)pid, e->d_name);
        for (const char *line = slurp(stack, sizeof(stack), path); *line;) {
            size_t len = strcspn(line, "\n");
            buf_print(t, "      %.*s\n", (int)len, line);
            line += len + (line[len] == '\n');
        }
    }
    if (d)
        closedir(d);
}

static void put_process(struct buf *t, int64_t pid)
{
    static const char *const keys[] = {"State:", "VmRSS:", "VmSwap:", "Threads:", "RssShmem:"};
    char path[64], status[4096];
    snprintf(path, sizeof(path), "/proc/%lld/status", (long long)pid);
    slurp(status, sizeof(status), path);
    buf_print(t, "  process %lld:", (long long)pid);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *at = strstr(status, keys[i]);
        if (at)
            buf_print(t, " %.*s;", (int)strcspn(at, "\n"), at);
    }
    buf_print(t, "\n");
    put_threads(t, pid);
}

static void put_output(struct buf *t, const char *tail)
{
    const char *at = tail + strlen(tail);
    for (int n = 0; at > tail; at--)
        if (at[-1] == '\n' && at[0] && ++n == LAST_LINES)
            break;
    buf_print(t, "  last lines:\n");
    while (*at) {
        size_t len = strcspn(at, "\n");
        buf_print(t, "    | %.*s\n", (int)(len < 400 ? len : 400), at);
        at += len + (at[len] == '\n');
    }
}

static void put_rank(struct buf *t, const struct incident *i, int rank, struct flight_page *page)
{
    int64_t pid = leader_look(i->leader, rank, page, NULL, NULL);
    const char *where = leader_where(i->leader, rank);
    buf_print(t, "\nrank %d%s%s: %s", rank, where[0] ? " on " : "", where, pid ? "" : "exited; last state: ");
    put_place(t, page);
    buf_print(t, "\n");
    put_page(t, page);
    if (pid && leader_is_here(i->leader, rank))
        put_process(t, page->pid ? (int64_t)page->pid : pid);
    put_output(t, leader_last_lines(i->leader, rank));
}

/* --- node -------------------------------------------------------------------------------- */

static void put_disk(struct buf *t, const char *path)
{
    struct statvfs v;
    if (path && path[0] && statvfs(path, &v) == 0)
        buf_print(t, "  %s: %.1f GB of %.1f GB free\n", path, (double)v.f_bavail * (double)v.f_frsize / 1e9,
                  (double)v.f_blocks * (double)v.f_frsize / 1e9);
}

static void put_node(struct buf *t, const struct incident *i)
{
    static const char *const keys[] = {"MemTotal:", "MemAvailable:", "Shmem:", "SwapFree:", "Dirty:"};
    char text[4096];
    buf_print(t, "\nnode:\n  load %s", slurp(text, sizeof(text), "/proc/loadavg"));
    slurp(text, sizeof(text), "/proc/meminfo");
    buf_print(t, "  memory:");
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        const char *at = strstr(text, keys[k]);
        if (at)
            buf_print(t, " %.*s;", (int)strcspn(at, "\n"), at);
    }
    buf_print(t, "\n");
    put_disk(t, i->run_dir);
    put_disk(t, i->ckpt_dir);
    put_disk(t, "/dev/shm");
    const char *kernel = kernel_log_recent(true);
    if (kernel[0])
        buf_print(t, "  kernel log:\n%s", kernel);
}

/* --- report file ------------------------------------------------------------------------- */

/* One sentence; if there are many ranks, only the first few. `reason` names the blamed rank. */
static void put_summary(struct buf *t, const struct incident *i, struct flight_page *page)
{
    const int np = leader_ranks(i->leader);
    for (int r = 0; r < np && r < TOLD_RANKS; r++) {
        int64_t pid = leader_look(i->leader, r, page, NULL, NULL);
        buf_print(t, "%srank %d: ", r ? "; " : "", r);
        if (!page->pid) { /* a script that does not call jobctl */
            buf_print(t, pid ? "running" : "exited");
            continue;
        }
        buf_print(t, pid ? "" : "exited, last state: ");
        put_place(t, page);
    }
    if (np > TOLD_RANKS)
        buf_print(t, "; and %d others", np - TOLD_RANKS);
}

static int write_all(const char *path, const struct buf *t, struct err *err)
{
    int fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    size_t at = 0;
    while (fd >= 0 && at < t->size) {
        ssize_t n = write(fd, t->data + at, t->size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        at += (size_t)n;
    }
    int rc = fd >= 0 && at == t->size
                 ? 0
                 : err_set(err, ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int name_file(char *out, size_t size, const char *run_dir, int generation)
{
    return (size_t)snprintf(out, size, "%s/incident-%d.txt", run_dir, generation) < size ? 0 : -1;
}

void incident_append(const char *run_dir, int generation, const char *who, const char *text)
{
    char path[4200];
    if (name_file(path, sizeof(path), run_dir, generation) < 0)
        return;
    int fd = safe_open(path, O_WRONLY | O_APPEND | O_CREAT, NULL);
    if (fd < 0)
        return; /* no report to append to */
    dprintf(fd, "\non %s:\n%s\n", who, text);
    close(fd);
}

json_t *incident_write(const struct incident *i, struct err *err)
{
    char path[4200], when[40];
    struct buf text, summary;
    struct flight_page *page = calloc(1, sizeof(*page));
    time_t now = time(NULL);
    struct tm tm;
    json_t *body = NULL;
    buf_init(&text);
    buf_init(&summary);
    gmtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (!page) {
        err_set(err, ERR_MEMORY, "no memory for an incident report");
        goto out;
    }
    buf_print(&text, "incident of job %" PRId64 ", attempt %" PRId64 ", generation %d, %s\n%s\n", i->job,
              i->attempt, i->generation, when, i->reason);
    for (int r = 0; r < leader_ranks(i->leader); r++)
        put_rank(&text, i, r, page);
    put_node(&text, i);
    put_summary(&summary, i, page);
    if (name_file(path, sizeof(path), i->run_dir, i->generation - INCIDENTS_KEPT) == 0)
        unlink(path);
    if (name_file(path, sizeof(path), i->run_dir, i->generation) < 0)
        err_set(err, ERR_USAGE, "the run directory's path is too long");
    else if (write_all(path, &text, err) == 0)
        body = json_make("{s:s, s:o}", "path", path, "text", json_text_n(summary.data, summary.size));
out:
    buf_fini(&text);
    buf_fini(&summary);
    free(page);
    return body;
}
