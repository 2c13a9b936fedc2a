/* SPDX-License-Identifier: Apache-2.0 */
/* log_feed.c - see log_feed.h */
#include "agent/wire/log_feed.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log_reader.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { PIECE = 32 * 1024 };

struct log_feed {
    char run_dir[PATH_MAX];
    json_t *sent; /* {FILE: offset} */
};

bool log_feed_carries(const char *file)
{
    if (strcmp(file, "agent.log") == 0 || strcmp(file, "setup.log") == 0)
        return true;
    const size_t begin = strncmp(file, "rank", 4) == 0         ? 4
                         : strncmp(file, "setup.node", 10) == 0 ? 10
                                                                : 0;
    const size_t digits = begin ? strspn(file + begin, "0123456789") : 0;
    return digits > 0 && digits < 6 && strcmp(file + begin + digits, ".log") == 0;
}

int log_feed_open(struct log_feed **out, const char *run_dir, const json_t *have, struct err *err)
{
    struct log_feed *f = calloc(1, sizeof(*f));
    if (!f || !(f->sent = have ? json_copy((json_t *)(uintptr_t)have) : json_object())) {
        free(f);
        return err_set(err, ERR_MEMORY, "no memory for the logs of an attempt");
    }
    if ((size_t)snprintf(f->run_dir, sizeof(f->run_dir), "%s", run_dir) >= sizeof(f->run_dir)) {
        log_feed_close(f);
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    }
    *out = f;
    return 0;
}

void log_feed_close(struct log_feed *f)
{
    if (!f)
        return;
    json_decref(f->sent);
    free(f);
}

json_t *log_feed_text(const char *bytes, size_t size)
{
    char *text = malloc(2 * size + 1);
    size_t n = 0;
    if (!text)
        return NULL;
    for (size_t i = 0; i < size; i++) {
        unsigned c = (unsigned char)bytes[i];
        if (c == 0)
            c = 0x100;
        if (c >= 0x80)
            text[n++] = (char)(0xC0 | c >> 6);
        text[n++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3F) : c);
    }
    json_t *v = json_text_n(text, n);
    free(text);
    return v;
}

char *log_feed_bytes(const json_t *data, size_t *size)
{
    const unsigned char *p = (const unsigned char *)json_string_value(data);
    size_t n = json_string_length(data), at = 0;
    char *bytes = p ? malloc(n + 1) : NULL;
    if (!bytes)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        unsigned c = p[i];
        if (c >= 0x80) /* UTF-8, validated by jansson: valid text has at most two bytes here */
            c = c < 0xE0 && i + 1 < n ? (c & 0x1F) << 6 | (p[++i] & 0x3F) : UINT_MAX;
        if (c > 0x100) {
            free(bytes);
            return NULL;
        }
        bytes[at++] = (char)(c & 0xFF);
    }
    bytes[at] = '\0';
    *size = at;
    return bytes;
}

/* The next new part of one file, or NULL. */
static json_t *next_of(struct log_feed *f, const char *file)
{
    char path[PATH_MAX + 256];
    json_t *body = NULL;
    struct log_reader c = {.offset = json_integer_value(json_object_get(f->sent, file))};
    snprintf(path, sizeof(path), "%s/%s", f->run_dir, file);
    if (log_reader_read(&c, path, PIECE, NULL) == 0 && c.got > 0) {
        body = json_make("{s:s, s:I, s:o}", "file", file, "offset", (json_int_t)c.offset, "data",
                         log_feed_text(c.data, c.got));
        if (body)
            json_object_set_new(f->sent, file, json_integer(c.offset + (int64_t)c.got));
    }
    free(c.data);
    return body;
}

json_t *log_feed_next(struct log_feed *f)
{
    json_t *body = NULL;
    DIR *d = opendir(f->run_dir);
    for (struct dirent *e; d && !body && (e = readdir(d));)
        if (log_feed_carries(e->d_name))
            body = next_of(f, e->d_name);
    if (d)
        closedir(d);
    return body;
}
