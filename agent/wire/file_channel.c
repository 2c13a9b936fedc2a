/* SPDX-License-Identifier: Apache-2.0 */
/* file_channel.c - see file_channel.h */
#include "agent/wire/file_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/unix_socket.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

/* Poll interval: short after data arrived, long when idle. */
enum { LOOK_MIN_MS = 10, LOOK_MAX_MS = 400, DRAIN_MS = 2000, PIECE = 64 * 1024 };

#define MAGIC UINT64_C(0x316c69616d626f6a) /* "jobmail1" */

struct header {
    uint64_t magic;
    uint64_t connection;
    uint64_t length;
    uint64_t closed;
};

static int make_path(char out[PATH_MAX], const char *run_dir, const char *name, struct err *err)
{
    if ((size_t)snprintf(out, PATH_MAX, "%s/%s", run_dir, name) >= PATH_MAX)
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    return 0;
}

/* ---- the file that this side writes ---- */

struct outbox {
    int           fd;
    struct header header;
};

static int outbox_header(struct outbox *o, struct err *err)
{
    if (pwrite(o->fd, &o->header, sizeof(o->header), 0) != sizeof(o->header) ||
        fdatasync(o->fd) < 0)
        return err_set(err, ERR_SYSTEM, "cannot write the file channel: %s", strerror(errno));
    return 0;
}

static int outbox_begin(struct outbox *o, const char *run_dir, const char *name, uint64_t connection, struct err *err)
{
    char path[PATH_MAX], beside[PATH_MAX];
    char new_name[32];
    snprintf(new_name, sizeof(new_name), "%s.new", name);
    if (make_path(path, run_dir, name, err) < 0 || make_path(beside, run_dir, new_name, err) < 0)
        return -1;
    o->header = (struct header){ .magic = MAGIC, .connection = connection };
    o->fd = safe_open(beside, O_RDWR | O_CREAT | O_TRUNC, err);
    if (o->fd < 0)
        return -1;
    if (outbox_header(o, err) == 0 && rename(beside, path) == 0)
        return 0;
    err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    close(o->fd);
    o->fd = -1;
    return -1;
}

static int outbox_add(struct outbox *o, const char *bytes, size_t size, struct err *err)
{
    for (size_t done = 0; done < size;) {
        off_t at = (off_t)(sizeof(o->header) + o->header.length + done);
        ssize_t n = pwrite(o->fd, bytes + done, size - done, at);
        if (n <= 0 && errno != EINTR)
            return err_set(err, ERR_SYSTEM, "cannot write the file channel: %s", strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    if (fdatasync(o->fd) < 0)
        return err_set(err, ERR_SYSTEM, "cannot write the file channel: %s", strerror(errno));
    o->header.length += size;
    return outbox_header(o, err);
}

static void outbox_end(struct outbox *o)
{
    struct err ignored = { 0 };
    if (o->fd < 0)
        return;
    o->header.closed = 1;
    outbox_header(o, &ignored);
    close(o->fd);
    o->fd = -1;
}

/* ---- the file that the other side writes ---- */

/* Opens the other side's file; -1: missing, or not a channel file. */
static int inbox_open(struct header *h, const char *run_dir, const char *name)
{
    char path[PATH_MAX];
    struct err ignored = { 0 };
    if (make_path(path, run_dir, name, &ignored) < 0)
        return -1;
    int fd = safe_open(path, O_RDONLY, NULL);
    if (fd < 0)
        return -1;
    if (pread(fd, h, sizeof(*h), 0) == sizeof(*h) && h->magic == MAGIC)
        return fd;
    close(fd);
    return -1;
}

/* ---- one connection ---- */

struct talk {
    const char   *run_dir, *in_name;
    struct outbox out;
    uint64_t      connection;
    uint64_t taken;             /* bytes read from the other side's file */
    int           fd;           /* the socket */
    int stop;                   /* readable: stop; -1: never */
    int64_t answer_by;          /* deadline of the answer; 0: it has arrived */
    bool          caller;
    bool          over;
};

static bool send_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = { .fd = fd, .events = POLLOUT };
            poll(&p, 1, 1000);
        } else if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Reads what the other side has written since the last look. True if there was something. */
static bool read_inbox(struct talk *t)
{
    char piece[PIECE];
    struct header h;
    bool some = false;
    int fd = inbox_open(&h, t->run_dir, t->in_name);
    if (fd < 0)
        return false;
    if (h.connection != t->connection) {
        t->over = !t->caller; /* a newer connection; for the caller: not answered yet */
        close(fd);
        return false;
    }
    t->answer_by = 0;
    while (t->taken < h.length && !t->over) {
        uint64_t left = h.length - t->taken;
        ssize_t n = pread(fd, piece, left < PIECE ? (size_t)left : PIECE, (off_t)(sizeof(h) + t->taken));
        if (n <= 0)
            break; /* not visible yet */
        t->taken += (uint64_t)n;
        t->over = !send_all(t->fd, piece, (size_t)n);
        some = true;
    }
    if (h.closed && t->taken == h.length)
        t->over = true;
    close(fd);
    return some;
}

/* Writes data from the socket, unless the file is full: then it waits for the next connection. */
static bool write_outbox(struct talk *t, int wait_ms, struct err *err)
{
    char piece[PIECE];
    bool full = t->out.header.length >= FILE_CHANNEL_LIMIT;
    struct pollfd p[2] = { { .fd = full ? -1 : t->fd, .events = POLLIN },
                           { .fd = t->stop, .events = POLLIN } };
    if (poll(p, 2, wait_ms) <= 0 || !p[0].revents)
        return false;
    ssize_t n = recv(t->fd, piece, sizeof(piece), MSG_DONTWAIT);
    if (n > 0 && outbox_add(&t->out, piece, (size_t)n, err) == 0)
        return true;
    if (n >= 0 || (errno != EAGAIN && errno != EINTR))
        t->over = true;
    return false;
}

static bool stop_asked(const struct talk *t)
{
    struct pollfd p = { .fd = t->stop, .events = POLLIN };
    return t->stop >= 0 && poll(&p, 1, 0) > 0;
}

static int talk_run(struct talk *t, struct err *err)
{
    int wait_ms = LOOK_MIN_MS;
    int64_t drain_until = 0;
    while (!t->over && err->code == ERR_NONE) {
        bool moved = write_outbox(t, wait_ms, err);
        if (!t->over)
            moved = read_inbox(t) || moved;
        if (t->answer_by && clock_ms() > t->answer_by)
            err_set(err, ERR_NOT_FOUND, "no answer from an agent in %s", t->run_dir);
        if (t->caller &&
            (t->taken >= FILE_CHANNEL_LIMIT || t->out.header.length >= FILE_CHANNEL_LIMIT))
            break;
        if (stop_asked(t)) {
            drain_until = drain_until ? drain_until : clock_ms() + DRAIN_MS;
            if (clock_ms() > drain_until)
                break;
            usleep(LOOK_MIN_MS * 1000);
        }
        wait_ms = moved ? LOOK_MIN_MS : wait_ms * 2 < LOOK_MAX_MS ? wait_ms * 2 : LOOK_MAX_MS;
    }
    outbox_end(&t->out);
    return err->code == ERR_NONE ? 0 : -1;
}

int file_channel_call(const char *run_dir, int fd, int wait_ms, struct err *err)
{
    struct talk t = { .run_dir = run_dir, .in_name = "mail.up", .fd = fd, .stop = -1,
                      .answer_by = clock_ms() + wait_ms, .caller = true };
    if (getrandom(&t.connection, sizeof(t.connection), 0) != sizeof(t.connection))
        return err_set(err, ERR_SYSTEM, "no random numbers for a connection");
    if (outbox_begin(&t.out, run_dir, "mail.down", t.connection, err) < 0)
        return -1;
    return talk_run(&t, err);
}

/* ---- the agent's side ---- */

struct file_channel {
    pthread_t thread;
    int       stop;
    char      run_dir[PATH_MAX], socket[PATH_MAX];
};

static void answer(struct file_channel *m, uint64_t connection)
{
    struct err err = { 0 };
    struct talk t = { .run_dir = m->run_dir, .in_name = "mail.down", .connection = connection,
                      .stop = m->stop };
    t.fd = unix_socket_connect(m->socket, false, &err);
    if (t.fd >= 0 && outbox_begin(&t.out, m->run_dir, "mail.up", connection, &err) == 0)
        talk_run(&t, &err);
    if (err.code != ERR_NONE)
        log_warn(NULL, "%s", err.text);
    if (t.fd >= 0)
        close(t.fd);
}

static void *answer_calls(void *arg)
{
    struct file_channel *m = arg;
    uint64_t last = 0;
    struct pollfd p = { .fd = m->stop, .events = POLLIN };
    do {
        struct header h;
        int fd = inbox_open(&h, m->run_dir, "mail.down");
        if (fd >= 0)
            close(fd);
        if (fd >= 0 && h.connection != last && !h.closed) {
            last = h.connection;
            answer(m, last);
        }
    } while (poll(&p, 1, LOOK_MAX_MS / 4) == 0);
    return NULL;
}

int file_channel_open(struct file_channel **out, const char *run_dir, const char *socket, struct err *err)
{
    sigset_t all, before;
    struct file_channel *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_MEMORY, "no memory for the file channel");
    snprintf(m->run_dir, sizeof(m->run_dir), "%s", run_dir);
    snprintf(m->socket, sizeof(m->socket), "%s", socket);
    m->stop = eventfd(0, EFD_CLOEXEC);
    /* Signals are handled by the loop, in another thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = m->stop < 0 ? errno : pthread_create(&m->thread, NULL, answer_calls, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        if (m->stop >= 0)
            close(m->stop);
        free(m);
        return err_set(err, ERR_SYSTEM, "cannot start a thread: %s", strerror(rc));
    }
    *out = m;
    return 0;
}

void file_channel_close(struct file_channel *m)
{
    if (!m)
        return;
    if (eventfd_write(m->stop, 1) == 0)
        pthread_join(m->thread, NULL);
    close(m->stop);
    free(m);
}
