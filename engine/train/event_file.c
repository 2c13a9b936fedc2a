/* SPDX-License-Identifier: Apache-2.0 */
/* event_file.c - see event_file.h */
#include "engine/train/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/base/write_all.h"
#include "engine/train/protobuf.h"

/* Numbers of the fields. event.proto: */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
/* summary.proto: */
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_IMAGE = 4, VALUE_METADATA = 9 };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_COLORS = 3, IMAGE_BYTES = 4, RGB = 3 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
/* The hparams plugin, plugin_data.proto; google/protobuf/struct.proto: */
enum { HPARAMS_START = 3, START_SETTINGS = 1, START_TIME = 5, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { STRUCT_NUMBER = 2, STRUCT_TEXT = 3, STRUCT_BOOL = 4 };

enum { PNG_HEAD = 24, PICTURE_MOST = 64 << 20, PATH_OF_KEY = 200 };

struct event_file {
    int  fd;
    char path[SCRATCH_PATH];
};

/* ---- records ---- */

uint32_t event_file_crc(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint32_t crc = ~0u;
    while (size-- > 0) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    return ~crc;
}

/* A record may hold records: a plain CRC of those would be a constant. */
static uint32_t masked_crc(const void *bytes, size_t size)
{
    const uint32_t crc = event_file_crc(bytes, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static int write_record(struct event_file *f, const struct protobuf *event, struct err *err)
{
    const uint64_t size = event->size;
    const uint32_t head = masked_crc(&size, sizeof(size)), tail = masked_crc(event->bytes, event->size);
    const size_t whole = sizeof(size) + sizeof(head) + event->size + sizeof(tail);
    char *record = event->failed ? NULL : malloc(whole);
    if (!record)
        return err_set(err, ERR_MEMORY, "out of memory for %s", f->path);
    memcpy(record, &size, sizeof(size));
    memcpy(record + sizeof(size), &head, sizeof(head));
    memcpy(record + sizeof(size) + sizeof(head), event->bytes, event->size);
    memcpy(record + whole - sizeof(tail), &tail, sizeof(tail));
    const int rc = write_all(f->fd, record, whole);
    free(record);
    return rc == 0 ? 0 : err_set_errno(err, errno, "cannot write %s", f->path);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Completes the event, which has `field`, and writes it; frees `inner`. */
static int write_event(struct event_file *f, int64_t step, unsigned field, struct protobuf *inner, struct err *err)
{
    struct protobuf event = {0};
    protobuf_double(&event, EVENT_TIME, now_s());
    protobuf_int(&event, EVENT_STEP, (uint64_t)step);
    protobuf_message(&event, field, inner);
    const int rc = write_record(f, &event, err);
    protobuf_free(&event);
    return rc;
}

/* ---- a file ---- */

static int write_head(struct event_file *f, int64_t step, struct err *err)
{
    struct protobuf event = {0}, session = {0};
    protobuf_double(&event, EVENT_TIME, now_s());
    protobuf_text(&event, EVENT_VERSION, "brain.Event:2");
    const int rc = write_record(f, &event, err);
    protobuf_free(&event);
    if (rc < 0 || step <= 0)
        return rc;
    protobuf_int(&session, SESSION_STATUS, SESSION_START);
    return write_event(f, step + 1, EVENT_SESSION, &session, err);
}

int event_file_open(struct event_file **out, const char *dir, int64_t step, struct err *err)
{
    char host[65] = "";
    struct event_file *f = calloc(1, sizeof(*f));
    *out = NULL;
    if (!f)
        return err_set(err, ERR_MEMORY, "out of memory for the events of TensorBoard");
    gethostname(host, sizeof(host) - 1);
    snprintf(f->path, sizeof(f->path), "%s/events.out.tfevents.%lld.%s.%d", dir, (long long)time(NULL), host,
             (int)getpid());
    f->fd = scratch_mkdirs(dir, err) < 0 ? -1 : open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0 && !err->code)
        err_set_errno(err, errno, "cannot create %s", f->path);
    if (f->fd < 0 || write_head(f, step, err) < 0) {
        event_file_close(f);
        return -1;
    }
    *out = f;
    return 0;
}

void event_file_close(struct event_file *f)
{
    if (f && f->fd >= 0)
        close(f->fd);
    free(f);
}

/* ---- what is told ---- */

int event_file_scalars(struct event_file *f, int64_t step, const struct event_scalar *list, size_t count,
                       struct err *err)
{
    struct protobuf summary = {0};
    for (size_t i = 0; f && i < count; i++) {
        struct protobuf value = {0};
        protobuf_text(&value, VALUE_TAG, list[i].tag);
        protobuf_float(&value, VALUE_SIMPLE, (float)list[i].value);
        protobuf_message(&summary, SUMMARY_VALUE, &value);
    }
    return f ? write_event(f, step, EVENT_SUMMARY, &summary, err) : 0;
}

/* The whole file; the caller frees it. */
static unsigned char *read_png(size_t *size, const char *path, struct err *err)
{
    struct stat st;
    unsigned char *bytes = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= PNG_HEAD && st.st_size <= PICTURE_MOST &&
        (bytes = malloc((size_t)st.st_size)) && read(fd, bytes, (size_t)st.st_size) != st.st_size) {
        free(bytes);
        bytes = NULL;
    }
    if (!bytes)
        err_set(err, ERR_DATA, "cannot read the picture %s for TensorBoard", path);
    else
        *size = (size_t)st.st_size;
    if (fd >= 0)
        close(fd);
    return bytes;
}

static unsigned number_at(const unsigned char *p)
{
    return (unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3];
}

int event_file_picture(struct event_file *f, int64_t step, const char *tag, const char *path, struct err *err)
{
    struct protobuf summary = {0}, value = {0}, image = {0};
    size_t size;
    unsigned char *png = f ? read_png(&size, path, err) : NULL;
    if (!png)
        return f ? -1 : 0;
    protobuf_int(&image, IMAGE_HEIGHT, number_at(png + 20)); /* of the header IHDR, which is always first */
    protobuf_int(&image, IMAGE_WIDTH, number_at(png + 16));
    protobuf_int(&image, IMAGE_COLORS, RGB);
    protobuf_bytes(&image, IMAGE_BYTES, png, size);
    free(png);
    protobuf_text(&value, VALUE_TAG, tag);
    protobuf_message(&value, VALUE_IMAGE, &image);
    protobuf_message(&summary, SUMMARY_VALUE, &value);
    return write_event(f, step, EVENT_SUMMARY, &summary, err);
}

/* ---- hyper-parameters ---- */

static void add_setting(struct protobuf *start, const char *path, const json_t *v)
{
    struct protobuf entry = {0}, value = {0};
    if (json_is_number(v))
        protobuf_double(&value, STRUCT_NUMBER, json_number_value(v));
    else if (json_is_boolean(v))
        protobuf_int(&value, STRUCT_BOOL, json_is_true(v));
    else
        protobuf_text(&value, STRUCT_TEXT, json_string_value(v));
    protobuf_text(&entry, ENTRY_KEY, path);
    protobuf_message(&entry, ENTRY_VALUE, &value);
    protobuf_message(start, START_SETTINGS, &entry);
}

static void add_settings(struct protobuf *start, const char *prefix, const json_t *tree)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)tree, key, v) {
        char path[PATH_OF_KEY];
        snprintf(path, sizeof(path), "%.*s%.90s", PATH_OF_KEY / 2, prefix, key);
        if (json_is_number(v) || json_is_boolean(v) || json_is_string(v))
            add_setting(start, path, v);
        else if (json_is_object(v)) {
            strncat(path, ".", sizeof(path) - strlen(path) - 1);
            add_settings(start, path, v);
        }
    }
}

int event_file_settings(struct event_file *f, const json_t *settings, struct err *err)
{
    struct protobuf summary = {0}, value = {0}, metadata = {0}, plugin = {0}, content = {0}, start = {0};
    if (!f)
        return 0;
    add_settings(&start, "", settings);
    protobuf_double(&start, START_TIME, now_s());
    protobuf_message(&content, HPARAMS_START, &start);
    protobuf_text(&plugin, PLUGIN_NAME, "hparams");
    protobuf_message(&plugin, PLUGIN_CONTENT, &content);
    protobuf_message(&metadata, METADATA_PLUGIN, &plugin);
    protobuf_text(&value, VALUE_TAG, "_hparams_/session_start_info");
    protobuf_message(&value, VALUE_METADATA, &metadata);
    protobuf_message(&summary, SUMMARY_VALUE, &value);
    return write_event(f, 0, EVENT_SUMMARY, &summary, err);
}
