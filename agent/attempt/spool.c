/* SPDX-License-Identifier: Apache-2.0 */
/* spool.c - see spool.h */
#include "agent/attempt/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { HEADER = 4096, RECORD_MAX = 512 * 1024 };
#define MAGIC   UINT64_C(0x316C6F6F7073436A) /* "jCspool1" */
#define SEQ_MAX ((uint64_t)INT64_MAX / 2)    /* larger means corrupt: no agent counts that far */

struct header {
    uint64_t magic;
    uint64_t acked;
};

struct record {
    uint32_t length;
    uint32_t check;
    uint64_t seq;
};
_Static_assert(sizeof(struct record) == 16, "the record header is part of the format");

struct spool {
    int fd;
    char *path;
    off_t size; /* file size */
    off_t head; /* offset of the first unacknowledged record */
    off_t tail; /* offset of the next record */
    int64_t acked, last;
    off_t next_at;    /* spool_next() continues here ... */
    int64_t next_seq; /* ... after this seq */
    unsigned long thinned;
    json_t *held; /* array: the newest events, which the disk refused; each has its seq */
};

static uint32_t checksum(uint64_t seq, const char *bytes, size_t size)
{
    uint32_t h = 0x811c9dc5u ^ (uint32_t)size; /* FNV-1a */
    for (int i = 0; i < 8; i++)
        h = (h ^ (unsigned char)(seq >> (8 * i))) * 0x01000193u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)bytes[i]) * 0x01000193u;
    return h;
}

static off_t record_bytes(uint32_t length)
{
    return (off_t)(sizeof(struct record) + ((length + 7u) & ~7u));
}

static int write_all(int fd, const void *bytes, size_t size, off_t at)
{
    const char *p = bytes;
    while (size) {
        ssize_t n = pwrite(fd, p, size, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Reads the record at `at`, which must be newer than `after`: 1 and *text (to be freed), 0 at
 * the end of the valid records, -1 without memory. */
static int read_record(int fd, off_t at, uint64_t after, struct record *r, char **text)
{
    if (pread(fd, r, sizeof(*r), at) != (ssize_t)sizeof(*r) || r->length == 0 ||
        r->length > RECORD_MAX || r->seq <= after || r->seq > SEQ_MAX)
        return 0;
    char *bytes = malloc((size_t)r->length + 1);
    if (!bytes)
        return -1;
    if (pread(fd, bytes, r->length, at + (off_t)sizeof(*r)) != (ssize_t)r->length ||
        checksum(r->seq, bytes, r->length) != r->check) {
        free(bytes);
        return 0;
    }
    bytes[r->length] = '\0';
    *text = bytes;
    return 1;
}

/* Finds head, tail and last of an existing file. */
static int scan(struct spool *s)
{
    uint64_t seq = 0;
    off_t at = HEADER;
    s->head = 0;
    for (;;) {
        struct record r;
        char *text;
        int rc = read_record(s->fd, at, seq, &r, &text);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        free(text);
        if (at + record_bytes(r.length) > s->size) /* truncated within its zero padding */
            break;
        seq = r.seq;
        if (!s->head && (int64_t)seq > s->acked)
            s->head = at;
        at += record_bytes(r.length);
    }
    s->tail = at;
    if (!s->head)
        s->head = at;
    s->last = (int64_t)seq > s->acked ? (int64_t)seq : s->acked;
    return 0;
}

static int save_acked(struct spool *s)
{
    struct header h = {MAGIC, (uint64_t)s->acked};
    return write_all(s->fd, &h, sizeof(h), 0);
}

int spool_open(struct spool **out, const char *path, size_t bytes, struct err *err)
{
    struct spool *s = calloc(1, sizeof(*s));
    struct stat st;
    struct header h = {0};
    if (!s || !(s->path = strdup(path)) || !(s->held = json_array())) {
        free(s ? s->path : NULL);
        free(s);
        return err_set(err, ERR_MEMORY, "no memory for the spool");
    }
    s->fd = safe_open(path, O_RDWR | O_CREAT, err);
    if (s->fd < 0)
        goto fail;
    if (fstat(s->fd, &st) < 0) {
        err_set(err, ERR_SYSTEM, "cannot open the spool '%s': %s", path, strerror(errno));
        goto fail;
    }
    s->size = st.st_size;
    s->head = s->tail = HEADER;
    ssize_t got = pread(s->fd, &h, sizeof(h), 0);
    if (got == (ssize_t)sizeof(h) && h.magic == MAGIC && h.acked <= SEQ_MAX) {
        s->acked = (int64_t)h.acked;
        if (scan(s) < 0) {
            err_set(err, ERR_MEMORY, "no memory to read the spool");
            goto fail;
        }
    } else if (got < 0 || h.magic || h.acked) { /* zeros: created, but never initialized */
        err_set(err, ERR_DATA, "'%s' is not a spool; remove it", path);
        goto fail;
    } else {
        int rc = posix_fallocate(s->fd, 0, (off_t)bytes);
        if (rc != 0 || save_acked(s) < 0) {
            err_set_errno(err, rc ? rc : errno, "cannot make the spool '%s' of %zu bytes", path, bytes);
            unlink(path);
            goto fail;
        }
        s->size = (off_t)bytes;
    }
    s->next_at = s->head;
    s->next_seq = s->acked;
    *out = s;
    return 0;
fail:
    spool_close(s);
    return -1;
}

void spool_close(struct spool *s)
{
    if (!s)
        return;
    /* Every record is acknowledged: frees the preallocated disk space. */
    if (s->fd >= 0 && s->last > 0 && s->acked >= s->last && ftruncate(s->fd, HEADER) < 0)
        errno = 0;
    if (s->fd >= 0)
        close(s->fd);
    json_decref(s->held);
    free(s->path);
    free(s);
}

/* Copies [head, tail) into a new file with room for `more` bytes and replaces the old one. */
static int renew(struct spool *s, off_t more, struct err *err)
{
    off_t used = s->tail - s->head, size = s->size;
    while (size - HEADER < 2 * (used + more))
        size *= 2;
    char tmp[4096];
    char *copy = NULL;
    int fd = -1;
    if ((size_t)snprintf(tmp, sizeof(tmp), "%s.new", s->path) >= sizeof(tmp))
        return err_set(err, ERR_USAGE, "the path of the spool is too long");

    fd = safe_open(tmp, O_RDWR | O_CREAT | O_TRUNC, NULL);
    copy = malloc((size_t)used + 1);
    struct header h = {MAGIC, (uint64_t)s->acked};
    if (fd < 0 || !copy || posix_fallocate(fd, 0, size) != 0 ||
        pread(s->fd, copy, (size_t)used, s->head) != (ssize_t)used ||
        write_all(fd, copy, (size_t)used, HEADER) < 0 || write_all(fd, &h, sizeof(h), 0) < 0 ||
        fdatasync(fd) < 0 || rename(tmp, s->path) < 0) {
        err_set(err, ERR_SYSTEM, "cannot rewrite the full spool '%s': %s", s->path, strerror(errno));
        free(copy);
        if (fd >= 0) {
            close(fd);
            unlink(tmp);
        }
        return -1;
    }
    free(copy);
    close(s->fd);
    s->fd = fd;
    s->size = size;
    s->next_at = HEADER;
    s->next_seq = s->acked;
    s->head = HEADER;
    s->tail = HEADER + used;
    return 0;
}

static bool thin_out(struct spool *s)
{
    off_t used = s->tail - s->head, room = s->size - HEADER;
    unsigned long every = used > room / 4 * 3 ? 0 : used > room / 2 ? 60 : used > room / 4 ? 10 : 1;
    return every == 0 || s->thinned++ % every != 0;
}

static int64_t seq_of(const json_t *event)
{
    return json_integer_value(json_object_get(event, "seq"));
}

/* Writes an event after the others. */
static int put(struct spool *s, const json_t *event, struct err *err)
{
    const uint64_t seq = (uint64_t)seq_of(event);
    const size_t length = json_dumpb(event, NULL, 0, JSON_COMPACT);
    off_t bytes = record_bytes((uint32_t)length);
    if (s->tail + bytes + 8 > s->size && renew(s, bytes + 8, err) < 0)
        return -1;

    /* Header, text, and the zeros that end the file, in one write. */
    char *record = calloc(1, (size_t)bytes + 8);
    if (!record)
        return err_set(err, ERR_MEMORY, "no memory for an event of %zu bytes", length);
    char *text = record + sizeof(struct record);
    json_dumpb(event, text, length, JSON_COMPACT);
    struct record r = {(uint32_t)length, checksum(seq, text, length), seq};
    memcpy(record, &r, sizeof(r));
    int rc = write_all(s->fd, record, (size_t)bytes + 8, s->tail);
    free(record);
    if (rc < 0)
        return err_set(err, ERR_SYSTEM, "cannot write to the spool '%s': %s", s->path, strerror(errno));
    s->tail += bytes;
    return 0;
}

/* Writes the events that the disk refused before, in order. */
static int put_held(struct spool *s, struct err *err)
{
    while (json_array_size(s->held) > 0) {
        if (put(s, json_array_get(s->held, 0), err) < 0)
            return -1;
        json_array_remove(s->held, 0);
    }
    return 0;
}

int spool_append(struct spool *s, json_t *event, bool droppable, struct err *err)
{
    if (droppable && thin_out(s))
        return 1;
    if (json_object_set_new(event, "seq", json_integer(s->last + 1)) < 0)
        return err_set(err, ERR_MEMORY, "no memory for an event");
    const size_t length = json_dumpb(event, NULL, 0, JSON_COMPACT);
    if (length == 0 || length > RECORD_MAX)
        return err_set(err, ERR_BUG, "an event of %zu bytes does not fit the spool", length);
    struct err why = {0};
    if (put_held(s, &why) < 0 || put(s, event, &why) < 0) {
        if (droppable)
            return 1;
        if (json_array_size(s->held) == SPOOL_HELD || json_array_append(s->held, event) < 0)
            return err_set(err, why.code, "%s", why.text);
    }
    s->last++;
    return 0;
}

int spool_sync(struct spool *s, struct err *err)
{
    if (put_held(s, err) < 0)
        return err_prefix(err, "%zu events are in memory only: ", json_array_size(s->held));
    if (fdatasync(s->fd) < 0)
        return err_set(err, ERR_SYSTEM, "cannot sync the spool '%s': %s", s->path, strerror(errno));
    return 0;
}

void spool_ack(struct spool *s, int64_t seq)
{
    if (seq > s->last)
        seq = s->last;
    if (seq <= s->acked)
        return;
    s->acked = seq;
    while (json_array_size(s->held) > 0 && seq_of(json_array_get(s->held, 0)) <= seq)
        json_array_remove(s->held, 0);
    struct record r;
    while (s->head < s->tail && pread(s->fd, &r, sizeof(r), s->head) == (ssize_t)sizeof(r) &&
           (int64_t)r.seq <= seq)
        s->head += record_bytes(r.length);
    if (s->head == s->tail)
        s->head = s->tail = HEADER;
    s->next_at = s->head;
    s->next_seq = s->acked;
    /* if lost in a crash, the events are acknowledged again */
    if (save_acked(s) < 0)
        return;
}

size_t spool_held(const struct spool *s)
{
    return json_array_size(s->held);
}

int64_t spool_acked(const struct spool *s)
{
    return s->acked;
}

int64_t spool_last(const struct spool *s)
{
    return s->last;
}

/* The next event after `seq`, from *at on, which moves past it: 1; 0: no more; -1: it is not JSON.
 * *after: seq of the record before *at. */
static int next_event(int fd, off_t *at, int64_t *after, int64_t seq, json_t **event)
{
    struct record r;
    char *text;
    *event = NULL;
    while (read_record(fd, *at, (uint64_t)*after, &r, &text) > 0) {
        *at += record_bytes(r.length);
        *after = (int64_t)r.seq;
        if (*after > seq)
            *event = json_loadb(text, r.length, 0, NULL);
        free(text);
        if (*after > seq)
            return *event ? 1 : -1;
    }
    return 0;
}

/* The first of those in memory after `seq`; NULL: none. */
static json_t *next_held(const struct spool *s, int64_t seq)
{
    size_t i;
    json_t *event;
    json_array_foreach (s->held, i, event)
        if (seq_of(event) > seq)
            return json_deep_copy(event);
    return NULL;
}

int spool_next(struct spool *s, int64_t seq, json_t **event, struct err *err)
{
    *event = NULL;
    if (seq < s->next_seq) {
        s->next_at = s->head;
        s->next_seq = s->acked;
    }
    int rc = s->next_at < s->tail
                 ? next_event(s->fd, &s->next_at, &s->next_seq, seq, event) : 0;
    if (rc == 0 && s->next_at == s->tail)
        *event = next_held(s, seq);
    if (rc > 0 || (rc == 0 && s->next_at == s->tail))
        return 0;
    return err_set(err, ERR_DATA, "cannot read the spool '%s' at %lld", s->path, (long long)s->next_at);
}

int spool_read(const char *path, int64_t seq, int (*each)(void *arg, const json_t *event), void *arg, struct err *err)
{
    struct header h;
    int given = 0, rc;
    off_t at = HEADER;
    int64_t after = 0;
    json_t *event;
    int fd = safe_open(path, O_RDONLY, err);
    if (fd < 0)
        return -1;
    if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) || h.magic != MAGIC) {
        close(fd);
        return err_set(err, ERR_DATA, "'%s' is not a spool", path);
    }
    for (bool stop = false; !stop && (rc = next_event(fd, &at, &after, seq, &event)) != 0;) {
        given += rc > 0;
        stop = rc > 0 && each(arg, event) != 0;
        json_decref(event);
    }
    close(fd);
    return given;
}
