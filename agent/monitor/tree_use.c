/* SPDX-License-Identifier: Apache-2.0 */
/* tree_use.c - see tree_use.h */
#include "agent/monitor/tree_use.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/monitor/waiting.h"
#include "agent/os/process.h"
#include "agent/os/process_tree.h"
#include "agent/os/tcp_sockets.h"
#include "agent/os/thread_times.h"
#include "engine/base/err.h"

enum { LINE = 4096, SECTOR = 512 };

/* Counters of a thread (CPU time, switches), a process (CPU time of what has ended, bytes, bytes of disks), a socket
 * or a disk (bytes); of an inode its tree. */
struct row {
    uint64_t key, value[3];
};

struct rows {
    struct row *at;
    size_t n, room;
};

enum kind { THREADS, PROCESSES, SOCKETS, DISKS, KINDS };

struct tree_use {
    struct rows now[KINDS], before[KINDS];
    struct rows inodes; /* of the sockets of all trees */
    int64_t window_ms;
    uint64_t tick_ns;
};

int tree_use_create(struct tree_use **out, struct err *err)
{
    struct tree_use *u = *out = calloc(1, sizeof(*u));
    if (!u)
        return err_set(err, ERR_MEMORY, "no memory to watch processes");
    u->tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return 0;
}

void tree_use_destroy(struct tree_use *u)
{
    for (int i = 0; u && i < KINDS; i++) {
        free(u->now[i].at);
        free(u->before[i].at);
    }
    if (u)
        free(u->inodes.at);
    free(u);
}

/* --- rows ------------------------------------------------------------------------------------ */

static void add(struct rows *r, const struct row *one)
{
    if (r->n == r->room) {
        const size_t room = r->room ? 2 * r->room : 64;
        struct row *more = realloc(r->at, room * sizeof(*more));
        if (!more)
            return; /* the next reading treats it as new */
        r->at = more;
        r->room = room;
    }
    r->at[r->n++] = *one;
}

static int by_key(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

static void sort(struct rows *r)
{
    if (r->n)
        qsort(r->at, r->n, sizeof(*r->at), by_key);
}

static const struct row *find(const struct rows *r, uint64_t key)
{
    const struct row one = {.key = key};
    return r->n ? bsearch(&one, r->at, r->n, sizeof(one), by_key) : NULL;
}

/* A counter that shrinks belongs to something new, which counted all of it in this window. */
static uint64_t grown(const struct row *before, int field, uint64_t now)
{
    return before && before->value[field] <= now ? now - before->value[field] : now;
}

static uint64_t number_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static DIR *open_list(int64_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
    return opendir(path);
}

/* --- threads and bytes of a process ---------------------------------------------------------- */

struct looked {
    uint64_t living_ns; /* CPU time of its threads */
    uint64_t main_us;   /* work of the main one */
    bool     ticks, blocked;
};

static uint64_t take_thread(struct tree_use *u, int64_t pid, int64_t tid, const struct thread_times *t,
                            struct looked *l)
{
    const struct row *before = find(&u->before[THREADS], (uint64_t)tid);
    const uint64_t switches = t->waits < 0 ? 0 : (uint64_t)t->waits, cpu_ns = grown(before, 0, t->cpu_ns);
    add(&u->now[THREADS], &(struct row){(uint64_t)tid, {t->cpu_ns, switches}});
    l->living_ns += t->cpu_ns;
    l->ticks = l->ticks || t->ticks;
    l->blocked = l->blocked || t->state == 'D';
    const uint64_t work_us =
        waiting_work_us(cpu_ns, t->waits < 0 ? -1 : (int64_t)grown(before, 1, switches), u->window_ms);
    if (tid == pid && !t->ticks)
        l->main_us = work_us;
    return work_us;
}

static uint64_t read_threads(struct tree_use *u, int64_t pid, struct looked *l)
{
    DIR *d = open_list(pid, "task");
    struct thread_times t;
    uint64_t work_us = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (isdigit((unsigned char)e->d_name[0]) && thread_times_read(&t, pid, atoll(e->d_name)))
            work_us += take_thread(u, pid, atoll(e->d_name), &t, l);
    if (d)
        closedir(d);
    return work_us;
}

/* The time of all threads, which was read before that of each, less that of the living. It is rounded down to ticks, so
 * it sometimes decreases; time once counted is not counted again. */
static uint64_t ended_ns(const struct tree_use *u, const struct process_tree_entry *p, const struct looked *l)
{
    const uint64_t own = p->ticks * u->tick_ns, children = p->child_ticks * u->tick_ns;
    return children + (l->ticks || own < l->living_ns ? 0 : own - l->living_ns);
}

/* --- disks that a thread waits for ----------------------------------------------------------- */

static void read_disks(struct tree_use *u)
{
    FILE *f = fopen("/proc/diskstats", "re");
    char line[LINE];
    unsigned major, minor;
    unsigned long long in, out;
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, " %u %u %*s %*u %*u %llu %*u %*u %*u %llu", &major, &minor, &in, &out) == 4)
            add(&u->now[DISKS], &(struct row){makedev(major, minor), {SECTOR * (in + out)}});
    if (f)
        fclose(f);
    sort(&u->now[DISKS]);
}

/* The device of a mount: that of its file system, or of its source if the file system has none (btrfs). */
static uint64_t device_of(const char *line)
{
    unsigned major, minor;
    char source[256];
    struct stat st;
    const char *behind = strstr(line, " - ");
    if (sscanf(line, "%*d %*d %u:%u", &major, &minor) != 2)
        return 0;
    if (major == 0 && behind && sscanf(behind, " - %*s %255s", source) == 1 && strncmp(source, "/dev/", 5) == 0 &&
        stat(source, &st) == 0)
        return st.st_rdev;
    return makedev(major, minor);
}

static void list_mounts(struct rows *mounts, int64_t pid)
{
    DIR *d = open_list(pid, "fdinfo");
    char name[300], text[LINE];
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(name, sizeof(name), "fdinfo/%s", e->d_name);
        const uint64_t id = number_behind(process_text(text, sizeof(text), pid, name), "mnt_id:\t");
        if (id)
            add(mounts, &(struct row){.key = id});
    }
    if (d)
        closedir(d);
    sort(mounts);
}

/* What the disks of its open files moved. The files themselves are not queried: that could block on their server. */
static uint64_t disks_moved(const struct tree_use *u, int64_t pid)
{
    struct rows mounts = {NULL, 0, 0};
    char line[LINE];
    uint64_t moved = 0;
    list_mounts(&mounts, pid);
    snprintf(line, sizeof(line), "/proc/%lld/mountinfo", (long long)pid);
    FILE *f = fopen(line, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const uint64_t device = find(&mounts, strtoull(line, NULL, 10)) ? device_of(line) : 0;
        const struct row *now = find(&u->now[DISKS], device), *before = find(&u->before[DISKS], device);
        moved += now && before ? grown(before, 0, now->value[0]) : 0;
    }
    if (f)
        fclose(f);
    free(mounts.at);
    return moved;
}

/* --- a process ------------------------------------------------------------------------------- */

static void list_sockets(struct tree_use *u, const struct process_tree_entry *p)
{
    DIR *d = open_list(p->pid, "fd");
    char to[64];
    unsigned long long inode;
    for (struct dirent *e; d && (e = readdir(d));) {
        const ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);
        to[n > 0 ? n : 0] = '\0';
        if (sscanf(to, "socket:[%llu]", &inode) == 1)
            add(&u->inodes, &(struct row){inode, {(uint64_t)p->tree}});
    }
    if (d)
        closedir(d);
}

static void read_process(struct tree_use *u, const struct process_tree_entry *p, bool parent, struct tree_use_sum *sum)
{
    char io[512];
    struct looked l = {0};
    const struct row *before = find(&u->before[PROCESSES], (uint64_t)p->pid);
    sum->work_us += read_threads(u, p->pid, &l);
    sum->main_us += parent ? 0 : l.main_us;
    sum->blocked = sum->blocked || l.blocked;
    process_text(io, sizeof(io), p->pid, "io");
    const uint64_t disk = number_behind(io, "\nread_bytes: ");
    struct row now = {(uint64_t)p->pid,
                      {ended_ns(u, p, &l), number_behind(io, "rchar: ") + number_behind(io, "wchar: ") + disk,
                       disk + number_behind(io, "\nwrite_bytes: ")}};
    if (before && now.value[0] < before->value[0])
        now.value[0] = before->value[0];
    sum->work_us += grown(before, 0, now.value[0]) / 1000;
    sum->io_bytes += grown(before, 1, now.value[1]);
    if (l.blocked)
        sum->moved_bytes += grown(before, 2, now.value[2]) + disks_moved(u, p->pid);
    add(&u->now[PROCESSES], &now);
    list_sockets(u, p);
}

/* --- sockets --------------------------------------------------------------------------------- */

static void read_sockets(struct tree_use *u, const char *first, struct tree_use_sum *sums)
{
    size_t n = 0, own = 0;
    struct tcp_socket *s = tcp_sockets_read(&n);
    uint8_t address[16];
    tcp_sockets_address(address, first);
    for (size_t i = 0; i < n; i++)
        if (find(&u->inodes, s[i].inode))
            s[own++] = s[i];
    for (size_t i = 0; i < own; i++) {
        const struct row *tree = find(&u->inodes, s[i].inode);
        add(&u->now[SOCKETS], &(struct row){s[i].inode, {s[i].bytes}});
        if (waiting_for_others(&s[i], s, own, address))
            sums[tree->value[0]].moved_bytes += grown(find(&u->before[SOCKETS], s[i].inode), 0, s[i].bytes);
    }
    free(s);
}

static bool is_parent(const struct process_tree_entry *all, size_t n, int64_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].parent == pid)
            return true;
    return false;
}

/* --- all ------------------------------------------------------------------------------------- */

void tree_use_read(struct tree_use *u, const int64_t *roots, int n, int64_t window_ms, const char *first,
                   struct tree_use_sum *sums)
{
    size_t count;
    struct process_tree_entry *all = process_tree_find(roots, n, &count);
    u->window_ms = window_ms;
    u->inodes.n = 0;
    read_disks(u);
    for (size_t i = 0; i < count; i++)
        read_process(u, &all[i], is_parent(all, count, all[i].pid), &sums[all[i].tree]);
    sort(&u->inodes);
    read_sockets(u, first, sums);
    for (int i = 0; i < KINDS; i++) {
        const struct rows old = u->before[i];
        u->before[i] = u->now[i];
        u->now[i] = old;
        u->now[i].n = 0;
        sort(&u->before[i]);
    }
    free(all);
}
