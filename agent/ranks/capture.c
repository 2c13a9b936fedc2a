/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - see capture.h */
#include "agent/ranks/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/log_reader.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

static struct capture_losses losses;

struct capture {
    int fd;
    char *path;
    int64_t limit, size;
    int64_t lost; /* bytes that could not be written */
    bool at_line_start;
    bool torn; /* the file ends within a line whose rest was lost */
    size_t tail_size;
    char tail[2 * CAPTURE_TAIL + 1];
};

static int open_file(struct capture *c, struct err *err)
{
    struct stat st;
    c->fd = safe_open(c->path, O_WRONLY | O_CREAT | O_APPEND, err);
    if (c->fd < 0)
        return -1;
    if (fstat(c->fd, &st) < 0)
        return err_set(err, ERR_SYSTEM, "cannot open the log '%s': %s", c->path, strerror(errno));
    c->size = st.st_size;
    return 0;
}

int capture_open(struct capture **out, const char *path, int64_t limit, struct err *err)
{
    struct capture *c = calloc(1, sizeof(*c));
    if (!c || !(c->path = strdup(path))) {
        free(c);
        return err_set(err, ERR_MEMORY, "no memory for the log '%s'", path);
    }
    c->limit = limit;
    c->at_line_start = true;
    if (open_file(c, err) < 0) {
        capture_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

void capture_close(struct capture *c)
{
    if (!c)
        return;
    losses.logs -= c->lost > 0;
    if (c->fd >= 0)
        close(c->fd);
    free(c->path);
    free(c);
}

static void lose(struct capture *c, int64_t size)
{
    losses.logs += c->lost == 0;
    losses.bytes += size;
    c->lost += size;
}

struct capture_losses capture_losses(void)
{
    return losses;
}

/* Writes as much as the file system accepts. */
static void put(struct capture *c, const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = c->fd < 0 ? -1 : write(c->fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            lose(c, (int64_t)size);
            return;
        }
        c->torn = bytes[n - 1] != '\n';
        bytes += n;
        size -= (size_t)n;
        c->size += n;
    }
}

/* Replaced atomically: a reader sees the old number or the new one. */
static void write_base(const char *path, int64_t base)
{
    char name[4096], fresh[4096 + 8], text[32];
    if ((size_t)snprintf(name, sizeof(name), "%s" LOG_READER_BASE, path) >= sizeof(name))
        return;
    snprintf(fresh, sizeof(fresh), "%s.new", name);
    int fd = safe_open(fresh, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int n = snprintf(text, sizeof(text), "%lld\n", (long long)base);
    if (fd < 0 || write(fd, text, (size_t)n) != n || rename(fresh, name) < 0)
        unlink(fresh);
    if (fd >= 0)
        close(fd);
}

void capture_begin_at(const char *path, int64_t offset)
{
    char old[4096];
    if ((size_t)snprintf(old, sizeof(old), "%s" LOG_READER_OLDER, path) < sizeof(old))
        unlink(old);
    unlink(path);
    write_base(path, offset);
}

/* Starts a new file; if that fails, output continues in the old one. */
static void rotate(struct capture *c)
{
    char old[4096];
    int64_t base = log_reader_base(c->path) + c->size;
    if ((size_t)snprintf(old, sizeof(old), "%s" LOG_READER_OLDER, c->path) >= sizeof(old) ||
        rename(c->path, old) < 0)
        return;
    int was = c->fd;
    if (open_file(c, NULL) < 0) {
        c->fd = was;
        return;
    }
    close(was);
    write_base(c->path, base);
}

static void keep_tail(struct capture *c, const char *bytes, size_t size)
{
    if (size > CAPTURE_TAIL) {
        bytes += size - CAPTURE_TAIL;
        size = CAPTURE_TAIL;
    }
    if (c->tail_size + size > 2 * CAPTURE_TAIL) {
        size_t drop = c->tail_size - CAPTURE_TAIL;
        memmove(c->tail, c->tail + drop, CAPTURE_TAIL);
        c->tail_size = CAPTURE_TAIL;
    }
    memcpy(c->tail + c->tail_size, bytes, size);
    c->tail_size += size;
}

/* As a line of its own, when the file system takes all of it. */
static void tell_lost(struct capture *c)
{
    char line[96];
    const int n = snprintf(line, sizeof(line), "%s--- %lld bytes of output lost: disk full ---\n", c->torn ? "\n" : "",
                           (long long)c->lost);
    const ssize_t done = c->fd < 0 ? -1 : write(c->fd, line, (size_t)n);
    if (done > 0) {
        c->size += done;
        c->torn = done < n;
    }
    if (done < n)
        return;
    losses.logs--;
    c->lost = 0;
}

void capture_write(struct capture *c, const char *bytes, size_t size)
{
    keep_tail(c, bytes, size);
    if (c->lost && c->at_line_start)
        tell_lost(c);
    /* The length up to the end of the last line that still fits. */
    if (c->size + (int64_t)size > c->limit) {
        size_t fits = c->size < c->limit ? (size_t)(c->limit - c->size) : 0;
        const char *end = fits ? memrchr(bytes, '\n', fits) : NULL;
        size_t first = end ? (size_t)(end - bytes) + 1 : 0;
        if (first || c->at_line_start) {
            put(c, bytes, first);
            rotate(c);
            bytes += first;
            size -= first;
        } else if (c->size > 2 * c->limit) {
            rotate(c); /* a line longer than the limit */
        }
    }
    if (size) {
        put(c, bytes, size);
        c->at_line_start = bytes[size - 1] == '\n';
    } else {
        c->at_line_start = true;
    }
}

void capture_mark(struct capture *c, const char *text)
{
    char line[300];
    int n = snprintf(line, sizeof(line), "%s--- %.250s ---\n", c->at_line_start ? "" : "\n", text);
    put(c, line, (size_t)n);
    c->at_line_start = true;
    c->tail_size = 0;
}

void capture_remark(struct capture *c, const char *line)
{
    if (c->tail_size && c->tail[c->tail_size - 1] != '\n')
        keep_tail(c, "\n", 1);
    keep_tail(c, line, strlen(line));
    keep_tail(c, "\n", 1);
}

const char *capture_tail(struct capture *c)
{
    size_t from = c->tail_size > CAPTURE_TAIL ? c->tail_size - CAPTURE_TAIL : 0;
    c->tail[c->tail_size] = '\0';
    for (size_t i = from; i < c->tail_size; i++)
        if (!c->tail[i])
            c->tail[i] = '?';
    if (from) {
        const char *line = strchr(c->tail + from, '\n');
        return line ? line + 1 : c->tail + from;
    }
    return c->tail;
}
