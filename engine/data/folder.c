/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - see folder.h */
#include "engine/data/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/contract/err.h"
#include "engine/data/image.h"

enum { CAPTION_MAX = 16384, PATH_SIZE = 4096 };

/* State of reading a directory. */
struct reading {
    struct folder f;
    folder_bad_fn bad; /* or NULL */
    void         *arg;
};

void folder_free(struct folder *f)
{
    for (int i = 0; i < f->len; i++) {
        free(f->items[i].file);
        free(f->items[i].caption);
    }
    free(f->items);
    free(f->path);
    *f = (struct folder){0};
}

/* Trims blanks at both ends, turns line ends into blanks. */
static void trim(char *text)
{
    size_t n = strlen(text), skip = 0;
    for (size_t i = 0; i < n; i++)
        if (isspace((unsigned char)text[i]))
            text[i] = ' ';
    while (n > 0 && text[n - 1] == ' ')
        n--;
    while (skip < n && text[skip] == ' ')
        skip++;
    memmove(text, text + skip, n - skip);
    text[n - skip] = '\0';
}

static int join(char *to, const char *dir, const char *name, struct err *err)
{
    if (snprintf(to, PATH_SIZE, "%s/%s", dir, name) >= PATH_SIZE)
        return err_set(err, ERR_DATA, "the path is too long: %.200s", name);
    return 0;
}

/* Copies both texts. */
static int add(struct folder *f, const char *file, const char *caption, struct err *err)
{
    char path[PATH_SIZE];
    struct stat st;
    if (join(path, f->path, file, err) < 0)
        return -1;
    if (stat(path, &st) < 0)
        return errno == ENOENT ? err_set(err, ERR_DATA, "cannot read the picture %s: %s", path, strerror(errno))
                               : err_set_errno(err, errno, "cannot read the picture %s", path);
    if ((f->len & (f->len - 1)) == 0) { /* the list doubles at each power of two */
        size_t room = f->len ? (size_t)f->len * 2 : 1;
        struct folder_item *more = realloc(f->items, room * sizeof(*more));
        if (!more)
            return err_set(err, ERR_MEMORY, "out of memory for a list of %zu pictures", room);
        f->items = more;
    }
    struct folder_item it = {.file = strdup(file),
                             .caption = strdup(caption),
                             .size = st.st_size,
                             .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 +
                                         st.st_mtim.tv_nsec};
    if (!it.file || !it.caption) {
        free(it.file);
        free(it.caption);
        return err_set(err, ERR_MEMORY, "out of memory for a list of pictures");
    }
    trim(it.caption);
    f->items[f->len++] = it;
    return 0;
}

/* An invalid sample ends the reading, or is reported and skipped. */
static int bad_sample(const struct reading *r, const char *where, struct err *err)
{
    if (!r->bad || err->code != ERR_DATA)
        return -1;
    r->bad(r->arg, where, err->text);
    *err = (struct err){0};
    return 0;
}

static int read_jsonl(struct reading *r, FILE *in, const char *path, struct err *err)
{
    char *line = NULL;
    size_t room = 0;
    int rc = 0;
    for (int n = 1; rc == 0 && getline(&line, &room, in) >= 0; n++) {
        json_error_t why;
        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, &why);
        const char *file = json_string_value(json_object_get(o, "file"));
        const char *text = json_string_value(json_object_get(o, "text"));
        if (!file || !text)
            rc = err_set(err, ERR_DATA,
                         "%s:%d: expected {\"file\": \"NAME\", \"text\": \"CAPTION\"}%s%s", path, n,
                         o ? "" : ": ", o ? "" : why.text);
        else if (add(&r->f, file, text, err) < 0)
            rc = err_prefix(err, "%s:%d: ", path, n);
        if (rc < 0) {
            char where[48];
            snprintf(where, sizeof(where), "captions.jsonl:%d", n);
            rc = bad_sample(r, where, err);
        }
        json_decref(o);
    }
    free(line);
    return rc;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_picture(const struct dirent *e)
{
    return e->d_name[0] != '.' && image_name_ok(e->d_name);
}

static int add_with_txt(struct folder *f, const char *file, struct err *err)
{
    char path[PATH_SIZE], text[CAPTION_MAX + 1];
    char txt[300];
    snprintf(txt, sizeof(txt), "%.*s.txt", (int)(strrchr(file, '.') - file), file);
    if (join(path, f->path, txt, err) < 0)
        return -1;
    FILE *in = fopen(path, "re");
    if (!in)
        return err_set(err, ERR_DATA,
                       "%s/%s has no caption: %s is missing, and the folder has no captions.jsonl",
                       f->path, file, txt);
    size_t n = fread(text, 1, sizeof(text), in);
    fclose(in);
    if (n > CAPTION_MAX)
        return err_set(err, ERR_DATA, "%s is longer than a caption may be (%d bytes)", path,
                       CAPTION_MAX);
    text[n] = '\0';
    return add(f, file, text, err);
}

static int read_dir(struct reading *r, struct err *err)
{
    struct folder *f = &r->f;
    struct dirent **names = NULL;
    int n = scandir(f->path, &names, is_picture, by_name);
    int rc = 0;
    if (n < 0)
        return err_set_errno(err, errno, "cannot read the data folder %s", f->path);
    for (int i = 0; i < n; i++) {
        if (rc == 0 && add_with_txt(f, names[i]->d_name, err) < 0)
            rc = bad_sample(r, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

int folder_read_all(struct folder *out, const char *path, folder_bad_fn bad, void *arg,
                    struct err *err)
{
    struct reading r = {.f.path = strdup(path), .bad = bad, .arg = arg};
    char list[PATH_SIZE];
    *out = (struct folder){0};
    if (!r.f.path)
        return err_set(err, ERR_MEMORY, "out of memory for a list of pictures");
    int rc = join(list, path, "captions.jsonl", err);
    FILE *in = rc == 0 ? fopen(list, "re") : NULL;
    if (in) {
        rc = read_jsonl(&r, in, list, err);
        fclose(in);
    } else if (rc == 0) {
        rc = read_dir(&r, err);
    }
    if (rc == 0 && r.f.len == 0)
        rc = err_set(err, ERR_DATA, "%s holds no pictures (.png, .jpg, .jpeg or .webp)", path);
    if (rc == 0)
        *out = r.f;
    else
        folder_free(&r.f);
    return rc;
}

int folder_read(struct folder *out, const char *path, struct err *err)
{
    return folder_read_all(out, path, NULL, NULL, err);
}
