/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spool.c - the events that an agent left on disk when it died
 *
 * The input is a header of 16 bytes and then the records, which a spool keeps
 * from byte 4096 on; when its last byte is odd the checks of the records are
 * made right first, so that what is inside them is tried too.  Whatever is on
 * disk: what was found can be read in order, what is appended is found again,
 * and the reader of a dead agent's file sees the same.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/spool.h"
#include "engine/base/err.h"
#include "tests/fuzz/target.h"

enum { HEAD = 16, AT = 4096, RECORD = 16 };

static char folder[4000], path[4096], beside[4096];

static void sweep(void)
{
    unlink(path);
    unlink(beside);
    rmdir(folder);
}

static uint32_t checksum(const uint8_t *seq, const uint8_t *bytes, uint32_t size)
{
    uint32_t h = 0x811c9dc5u ^ size;
    for (int i = 0; i < 8; i++)
        h = (h ^ seq[i]) * 0x01000193u;
    for (uint32_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * 0x01000193u;
    return h;
}

static void mend(uint8_t *records, size_t size)
{
    for (size_t at = 0; at + RECORD <= size;) {
        uint32_t length, check;
        memcpy(&length, records + at, sizeof(length));
        if (length == 0 || length > size - at - RECORD)
            return;
        check = checksum(records + at + 8, records + at + RECORD, length);
        memcpy(records + at + 4, &check, sizeof(check));
        at += RECORD + ((length + 7) & ~(size_t)7);
    }
}

static void write_file(const uint8_t *data, size_t size)
{
    static uint8_t file[AT + (1 << 16)];
    size_t rest = size > HEAD ? size - HEAD : 0;
    if (rest > sizeof(file) - AT)
        rest = sizeof(file) - AT;
    memset(file, 0, AT);
    memcpy(file, data, size < HEAD ? size : HEAD);
    memcpy(file + AT, data + HEAD, rest);
    if (size && data[size - 1] & 1)
        mend(file + AT, rest);
    size_t total = size < HEAD ? size : AT + rest;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    PROMISE(fd >= 0 && write(fd, file, total) == (ssize_t)total);
    close(fd);
}

static int count_event(void *count, const json_t *event)
{
    PROMISE(event);
    ++*(int *)count;
    return 0;
}

/* Reads to the end; the number of events, -1 where one is not as we write them. */
static int drain(struct spool *s, int64_t after)
{
    struct err err = {0};
    json_t *event = NULL;
    int count = 0;
    for (int64_t seq = after;; count++) {
        if (spool_next(s, seq, &event, &err) < 0) {
            PROMISE(!event && err.code != ERR_NONE && err.text[0]);
            return -1;
        }
        if (!event)
            return count;
        int64_t its = json_integer_value(json_object_get(event, "seq"));
        json_decref(event);
        if (its <= seq || its > spool_last(s)) /* what a file that we did not write may say */
            return -1;
        seq = its;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct spool *s = NULL;
    if (!path[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof(folder), "%s/jobctl-fuzz.XXXXXX", tmp ? tmp : "/tmp");
        PROMISE(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/spool", folder);
        snprintf(beside, sizeof(beside), "%s/spool.new", folder);
        atexit(sweep);
    }
    write_file(data, size);
    if (spool_open(&s, path, AT * 2, &err) < 0) {
        PROMISE(err.code != ERR_NONE && err.text[0] && !s);
        return 0;
    }
    PROMISE(spool_acked(s) >= 0 && spool_last(s) >= spool_acked(s));
    int64_t last = spool_last(s);
    drain(s, spool_acked(s));
    if (last == INT64_MAX / 2) { /* the last there is */
        spool_close(s);
        return 0;
    }

    json_t *event = json_pack("{s:s}", "kind", "fuzz"), *back = NULL;
    PROMISE(event && spool_append(s, event, false, &err) == 0 && spool_last(s) == last + 1);
    PROMISE(spool_sync(s, &err) == 0);
    spool_close(s);
    PROMISE(spool_open(&s, path, AT * 2, &err) == 0 && spool_last(s) == last + 1);
    PROMISE(spool_next(s, last, &back, &err) == 0 && back && json_equal(event, back));
    int count = 0;
    PROMISE(spool_read(path, last, count_event, &count, &err) == 1 && count == 1);
    spool_ack(s, last + 1);
    spool_close(s);
    PROMISE(spool_open(&s, path, AT * 2, &err) == 0);
    PROMISE(spool_acked(s) == last + 1 && spool_last(s) == last + 1 && drain(s, last + 1) == 0);
    spool_close(s);
    json_decref(event);
    json_decref(back);
    return 0;
}
