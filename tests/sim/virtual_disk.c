/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_disk.c - see virtual_disk.h */
#include "tests/sim/virtual_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/virtual_process.h"

enum { NAME = 1024, REGIONS = 64, SECTOR = 512, LOCKS = SQLITE_SHM_NLOCK };

struct node;

struct file {
    sqlite3_file        base;           /* first */
    struct file        *next;           /* of the same node */
    struct node        *node;
    struct sim_process *owner;
    int                 fd, level;
    bool                remove;         /* on close */
    unsigned            shared, exclusive;  /* shared memory: a bit per lock */
};

/* A path that is open. */
struct node {
    struct node *next;
    struct file *files;
    char         path[NAME];
    void        *regions[REGIONS];
    int          region_size;
};

/* A write since the last sync, and what was there before. */
struct unsynced {
    struct unsynced *next;              /* an older one */
    sqlite3_int64    at, size_before;
    int              size, had;
    bool             stays;
    char             path[NAME];
    char             before[];
};

static struct {
    struct node     *nodes;
    struct unsynced *unsynced;          /* newest first */
    enum disk_answer (*ask)(enum disk_call call);
    void            (*die)(void);
} disk;

static struct file *file_of(sqlite3_file *f)
{
    return (struct file *)(void *)f;
}

static enum disk_answer ask(enum disk_call call)
{
    return disk.ask ? disk.ask(call) : DISK_WORKS;
}

static int refused(enum disk_answer a, int failed)
{
    if (a == DISK_DIES)
        disk.die();
    return a == DISK_NO_ROOM ? SQLITE_FULL : failed;
}

/* ---- nodes ---- */

static struct node *node_open(const char *path)
{
    struct node *n = disk.nodes;
    while (n && strcmp(n->path, path) != 0)
        n = n->next;
    if (n)
        return n;
    n = calloc(1, sizeof(*n));
    if (!n)
        abort();
    snprintf(n->path, sizeof(n->path), "%s", path);
    n->next = disk.nodes;
    return disk.nodes = n;
}

static void forget_memory(struct node *n)
{
    for (int i = 0; i < REGIONS; i++)
        free(n->regions[i]);
    memset(n->regions, 0, sizeof(n->regions));
}

static void leave(struct file *f)
{
    struct node *n = f->node;
    struct file **at = &n->files;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    if (n->files)
        return;
    forget_memory(n);
    struct node **where = &disk.nodes;
    while (*where != n)
        where = &(*where)->next;
    *where = n->next;
    free(n);
}

void virtual_disk_left(const struct sim_process *p)
{
    struct node *after;
    for (struct node *n = disk.nodes; n; n = after) {
        after = n->next;
        for (struct file *f = n->files, *next; f; f = next) {
            next = f->next;
            if (f->owner != p)
                continue;
            leave(f);
            if (!next)
                break;                  /* the node may be gone */
        }
    }
}

/* ---- what a power cut may take back ---- */

static void remember(const struct file *f, int size, sqlite3_int64 at)
{
    struct stat st;
    struct unsynced *u = malloc(sizeof(*u) + (size_t)size);
    if (!u || fstat(f->fd, &st) < 0)
        abort();
    *u = (struct unsynced){ .next = disk.unsynced, .at = at, .size_before = st.st_size, .size = size };
    snprintf(u->path, sizeof(u->path), "%s", f->node->path);
    u->had = (int)pread(f->fd, u->before, (size_t)size, at);
    disk.unsynced = u;
}

static void synced(const char *path)
{
    for (struct unsynced **at = &disk.unsynced; *at;) {
        struct unsynced *u = *at;
        if (strcmp(u->path, path) != 0) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        free(u);
    }
}

/* A newer write that stays lies over it. */
static bool covered(const struct unsynced *u)
{
    for (const struct unsynced *n = disk.unsynced; n != u; n = n->next)
        if (n->stays && strcmp(n->path, u->path) == 0 && n->at < u->at + u->size && u->at < n->at + n->size)
            return true;
    return false;
}

static void take_back(const struct unsynced *u)
{
    const int fd = open(u->path, O_RDWR | O_CLOEXEC);
    struct stat st;
    char zeros[4096] = "";
    if (fd < 0)
        return;                         /* it was removed */
    if (u->had > 0 && pwrite(fd, u->before, (size_t)u->had, u->at) != u->had)
        abort();
    for (int done = u->had > 0 ? u->had : 0; done < u->size; done += (int)sizeof(zeros))
        if (pwrite(fd, zeros, u->size - done < (int)sizeof(zeros) ? (size_t)(u->size - done) : sizeof(zeros),
                   u->at + done) < 0)
            abort();
    if (fstat(fd, &st) == 0 && st.st_size == u->at + u->size && st.st_size > u->size_before &&
        ftruncate(fd, u->size_before > u->at ? u->size_before : u->at) < 0)
        abort();
    close(fd);
}

void virtual_disk_power_cut(void)
{
    for (struct unsynced *u = disk.unsynced; u; u = u->next) {
        u->stays = covered(u) || sim_chance() % 2;
        if (!u->stays)
            take_back(u);
    }
    for (struct unsynced *u; (u = disk.unsynced);) {
        disk.unsynced = u->next;
        free(u);
    }
}

/* ---- bytes ---- */

static int disk_close(sqlite3_file *base)
{
    struct file *f = file_of(base);
    if (f->remove)
        unlink(f->node->path);
    leave(f);
    close(f->fd);
    return SQLITE_OK;
}

static int disk_read(sqlite3_file *base, void *out, int size, sqlite3_int64 at)
{
    const ssize_t n = pread(file_of(base)->fd, out, (size_t)size, at);
    if (n < 0)
        return SQLITE_IOERR_READ;
    if (n == size)
        return SQLITE_OK;
    memset((char *)out + n, 0, (size_t)(size - n));
    return SQLITE_IOERR_SHORT_READ;
}

static int disk_write(sqlite3_file *base, const void *bytes, int size, sqlite3_int64 at)
{
    const enum disk_answer a = ask(DISK_WRITE);
    const int part = a == DISK_WORKS ? size : size / 2;
    remember(file_of(base), part, at);
    if (pwrite(file_of(base)->fd, bytes, (size_t)part, at) != part)
        return SQLITE_IOERR_WRITE;
    return a == DISK_WORKS ? SQLITE_OK : refused(a, SQLITE_IOERR_WRITE);
}

static int disk_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    const enum disk_answer a = ask(DISK_TRUNCATE);
    if (a == DISK_FAILS || a == DISK_DIES)
        return refused(a, SQLITE_IOERR_TRUNCATE);
    return ftruncate(file_of(base)->fd, size) < 0 ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int disk_sync(sqlite3_file *base, int flags)
{
    const enum disk_answer a = ask(DISK_SYNC);
    (void)flags;
    if (a == DISK_WORKS)
        synced(file_of(base)->node->path);
    return a == DISK_WORKS ? SQLITE_OK : refused(a, SQLITE_IOERR_FSYNC);
}

static int disk_size(sqlite3_file *base, sqlite3_int64 *size)
{
    struct stat st;
    if (fstat(file_of(base)->fd, &st) < 0)
        return SQLITE_IOERR_FSTAT;
    *size = st.st_size;
    return SQLITE_OK;
}

/* ---- locks: of files, each in another connection ---- */

static int highest_other(const struct file *f)
{
    int level = SQLITE_LOCK_NONE;
    for (const struct file *o = f->node->files; o; o = o->next)
        if (o != f && o->level > level)
            level = o->level;
    return level;
}

static int disk_lock(sqlite3_file *base, int level)
{
    struct file *f = file_of(base);
    const int others = highest_other(f);
    if (level <= f->level)
        return SQLITE_OK;
    if ((level == SQLITE_LOCK_SHARED && others >= SQLITE_LOCK_PENDING) ||
        (level == SQLITE_LOCK_RESERVED && others >= SQLITE_LOCK_RESERVED) ||
        (level == SQLITE_LOCK_EXCLUSIVE && others >= SQLITE_LOCK_SHARED))
        return SQLITE_BUSY;
    f->level = level;
    return SQLITE_OK;
}

static int disk_unlock(sqlite3_file *base, int level)
{
    file_of(base)->level = level;
    return SQLITE_OK;
}

static int disk_reserved(sqlite3_file *base, int *out)
{
    const struct file *f = file_of(base);
    *out = f->level >= SQLITE_LOCK_RESERVED || highest_other(f) >= SQLITE_LOCK_RESERVED;
    return SQLITE_OK;
}

static int disk_control(sqlite3_file *base, int op, void *arg)
{
    (void)base;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int disk_sector(sqlite3_file *base)
{
    (void)base;
    return SECTOR;
}

static int disk_traits(sqlite3_file *base)
{
    (void)base;
    return 0;
}

/* ---- shared memory of a write-ahead log ---- */

static int shm_map(sqlite3_file *base, int i, int size, int extend, void volatile **out)
{
    struct node *n = file_of(base)->node;
    if (i >= REGIONS)
        return SQLITE_NOMEM;
    if (!n->regions[i] && extend && !(n->regions[i] = calloc(1, (size_t)size)))
        return SQLITE_NOMEM;
    *out = n->regions[i];
    return SQLITE_OK;
}

static int shm_lock(sqlite3_file *base, int first, int count, int flags)
{
    struct file *f = file_of(base);
    const unsigned mask = ((1U << count) - 1) << first;
    if (flags & SQLITE_SHM_UNLOCK) {
        f->shared &= ~mask;
        f->exclusive &= ~mask;
        return SQLITE_OK;
    }
    for (const struct file *o = f->node->files; o; o = o->next)
        if (o != f && (mask & (o->exclusive | (flags & SQLITE_SHM_EXCLUSIVE ? o->shared : 0))))
            return SQLITE_BUSY;
    if (flags & SQLITE_SHM_EXCLUSIVE)
        f->exclusive |= mask;
    else
        f->shared |= mask;
    return SQLITE_OK;
}

static void shm_barrier(sqlite3_file *base)
{
    (void)base;
}

static int shm_unmap(sqlite3_file *base, int remove)
{
    struct file *f = file_of(base);
    f->shared = f->exclusive = 0;
    if (remove)
        forget_memory(f->node);
    return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2, .xClose = disk_close, .xRead = disk_read, .xWrite = disk_write, .xTruncate = disk_truncate,
    .xSync = disk_sync, .xFileSize = disk_size, .xLock = disk_lock, .xUnlock = disk_unlock,
    .xCheckReservedLock = disk_reserved, .xFileControl = disk_control, .xSectorSize = disk_sector,
    .xDeviceCharacteristics = disk_traits, .xShmMap = shm_map, .xShmLock = shm_lock, .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

/* ---- the file system ---- */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out_flags)
{
    struct file *f = file_of(base);
    static unsigned unnamed;
    char path[NAME];
    (void)vfs;
    memset(f, 0, sizeof(*f));
    if (name)
        snprintf(path, sizeof(path), "%s", name);
    else
        snprintf(path, sizeof(path), "/tmp/jobctl-sim-%d-%u", (int)getpid(), unnamed++);
    const int how = (flags & SQLITE_OPEN_READWRITE ? O_RDWR : O_RDONLY) | (flags & SQLITE_OPEN_CREATE ? O_CREAT : 0) |
                    (flags & SQLITE_OPEN_EXCLUSIVE ? O_EXCL : 0) | O_CLOEXEC;
    f->fd = open(path, how, 0600);
    if (f->fd < 0)
        return SQLITE_CANTOPEN;
    f->remove = !name || (flags & SQLITE_OPEN_DELETEONCLOSE);
    f->owner = sim_current();
    f->node = node_open(path);
    f->next = f->node->files;
    f->node->files = f;
    base->pMethods = &methods;
    if (out_flags)
        *out_flags = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    (void)sync;
    synced(path);
    return unlink(path) == 0 ? SQLITE_OK : errno == ENOENT ? SQLITE_IOERR_DELETE_NOENT : SQLITE_IOERR_DELETE;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *out)
{
    struct stat st;
    (void)vfs;
    *out = stat(path, &st) == 0 && (flags != SQLITE_ACCESS_EXISTS || st.st_size > 0);
    return SQLITE_OK;
}

static int vfs_path(sqlite3_vfs *vfs, const char *path, int size, char *out)
{
    (void)vfs;
    snprintf(out, (size_t)size, "%s", path);
    return SQLITE_OK;
}

static int vfs_random(sqlite3_vfs *vfs, int size, char *out)
{
    (void)vfs;
    for (int i = 0; i < size; i++)
        out[i] = (char)sim_chance();
    return size;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    sim_wait(NULL, NULL, sim_now() + (int64_t)us * 1000);
    return us;
}

static int vfs_time(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    (void)vfs;
    *out = INT64_C(210866760000000) + sim_wall_ns() / 1000000;
    return SQLITE_OK;
}

static int vfs_error(sqlite3_vfs *vfs, int size, char *out)
{
    (void)vfs;
    (void)size;
    (void)out;
    return errno;
}

void virtual_disk_open(enum disk_answer (*answer)(enum disk_call call), void (*die)(void))
{
    static sqlite3_vfs vfs = {
        .iVersion = 2, .szOsFile = sizeof(struct file), .mxPathname = NAME, .zName = "virtual", .xOpen = vfs_open,
        .xDelete = vfs_delete, .xAccess = vfs_access, .xFullPathname = vfs_path, .xRandomness = vfs_random,
        .xSleep = vfs_sleep, .xGetLastError = vfs_error, .xCurrentTimeInt64 = vfs_time,
    };
    disk.ask = answer;
    disk.die = die;
    sqlite3_vfs_register(&vfs, 1);
}
