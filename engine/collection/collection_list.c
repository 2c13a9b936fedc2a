/* SPDX-License-Identifier: Apache-2.0 */
/* collection_list.c - pictures listed line by line: captions.jsonl, and metadata.jsonl and .csv of an imagefolder */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/collection/collection_internal.h"
#include "engine/files/csv_record.h"

static int column_of(char *const *field, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(field[i], name) == 0)
            return i;
    return -1;
}

/* "text", or the only column besides those of the picture. */
static int text_column(const struct collection_columns *of, char *const *field)
{
    int found = column_of(field, of->n, "text"), others = 0;
    if (found >= 0)
        return found;
    for (int i = 0; i < of->n; i++)
        if (i != of->file && i != of->height && i != of->width) {
            found = i;
            others++;
        }
    return others == 1 ? found : -1;
}

static int collection_csv_header(struct collection *c, char *record, struct err *err)
{
    char *field[CSV_FIELDS];
    struct collection_columns *of = &c->columns;
    const size_t mark = strncmp(record, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if ((of->n = csv_record_split(field, record + mark, err)) < 0)
        return -1;
    of->file = column_of(field, of->n, "file_name");
    of->height = column_of(field, of->n, "height");
    of->width = column_of(field, of->n, "width");
    of->text = text_column(of, field);
    if (of->file < 0)
        return err_set(err, ERR_DATA, "expected a first line with the names of the columns, file_name and text, with a comma "
                       "between them");
    if (of->text < 0)
        return err_set(err, ERR_DATA, of->n > 1 ? "several columns could be the caption: name it text"
                                                : "there is no column with the caption: name it text");
    return 0;
}

/* A number, where the field is one. */
static void set_number(json_t *o, const char *name, const char *text)
{
    char *end;
    const double x = strtod(text, &end);
    if (end > text && *end == '\0')
        json_object_set_new(o, name, json_real(x));
}

/* A record of metadata.csv as what a line of metadata.jsonl has, in place; NULL: ERR_DATA */
static json_t *collection_csv_line(const struct collection *c, char *record, struct err *err)
{
    char *field[CSV_FIELDS];
    const struct collection_columns *of = &c->columns;
    const int n = csv_record_split(field, record, err);
    if (n < 0)
        return NULL;
    if (n != of->n)
        return err_set(err, ERR_DATA,
                       "the line has %d columns, the first line %d; a caption with a comma stands in quotes", n,
                       of->n), NULL;
    json_t *o = json_make("{s:o, s:o}", "file_name", json_string(field[of->file]), "text", json_string(field[of->text]));
    if (!o)
        return err_set(err, ERR_DATA, "the line is not UTF-8"), NULL;
    if (of->height >= 0 && of->width >= 0) {
        set_number(o, "height", field[of->height]);
        set_number(o, "width", field[of->width]);
    }
    return o;
}

enum { LINE_MAX_BYTES = 16 << 20 };

/* The columns of a line. */
struct columns {
    const char *file, *text;
};

static const char *list_name(const struct collection *c)
{
    return c->layout == COLLECTION_HUB ? "metadata.jsonl" : c->layout == COLLECTION_CSV ? "metadata.csv" : "captions.jsonl";
}

/* The caption of metadata.jsonl: "text", as in the examples of its documentation, or the only other text
 * of the line. */
static const char *hub_text(const json_t *o, struct err *err)
{
    const char *key, *found = NULL;
    json_t *value;
    int texts = 0;
    if (json_object_get(o, "text"))
        return json_string_value(json_object_get(o, "text"));
    json_object_foreach((json_t *)(uintptr_t)o, key, value)
        if (json_is_string(value) && strcmp(key, "file_name") != 0) {
            found = json_string_value(value);
            texts++;
        }
    if (texts > 1)
        err_set(err, ERR_DATA, "several columns could be the caption: name it \"text\"");
    return texts == 1 ? found : NULL;
}

static int read_columns(struct columns *out, const struct collection *c, const json_t *o, const char *why,
                        struct err *err)
{
    const bool hub = c->layout != COLLECTION_LIST;
    out->file = json_string_value(json_object_get(o, hub ? "file_name" : "file"));
    out->text = !hub ? json_string_value(json_object_get(o, "text")) : out->file ? hub_text(o, err) : NULL;
    if (out->file && out->text)
        return 0;
    return err_set(err, ERR_DATA, "expected {\"%s\": \"NAME\", \"text\": \"CAPTION\"}%s%s", hub ? "file_name" : "file",
                   o ? "" : ": ", o ? "" : why);
}

/* The line as JSON; NULL with the reason, or for CSV with err set. */
static json_t *parse(const struct collection *c, char *line, json_error_t *why, struct err *err)
{
    return c->layout == COLLECTION_CSV ? collection_csv_line(c, line, err)
                                       : json_loads(line, JSON_REJECT_DUPLICATES, why);
}

static int set_sample(struct collection_sample *s, const struct columns *of, const struct collection *c,
                      struct err *err)
{
    const char *slash = strrchr(of->file, '/'), *base = slash ? slash + 1 : of->file;
    char *text = strdup(of->text);
    s->name = strdup(of->file);
    s->key = collection_text(err, "%.*s", (int)collection_stem(base), base);
    int rc = text && s->name && s->key ? 0 : err_set(err, ERR_MEMORY, "out of memory for a sample");
    if (rc == 0) {
        collection_trim(text);
        rc = collection_add_caption(s, "prompt", text, err);
    }
    free(text);
    return rc < 0 ? -1 : collection_file_stat(s, c, of->file, err);
}

/* Line i with a NUL behind it; the caller frees it. */
static char *read_line(const struct collection *c, int64_t i, struct err *err)
{
    const struct collection_line *l = &c->lines[i];
    char *line = malloc((size_t)l->bytes + 1);
    if (!line)
        return err_set(err, ERR_MEMORY, "out of memory for a line"), NULL;
    if (pread(c->list, line, l->bytes, l->at) != (ssize_t)l->bytes) {
        err_set(err, ERR_DATA, "%s/%s changed while it was read", c->path, list_name(c));
        free(line);
        return NULL;
    }
    line[l->bytes] = '\0';
    return line;
}

/* Where a line is, for people. */
static char *where_of(const struct collection *c, int64_t i, struct err *err)
{
    return collection_text(err, "%s:%u", list_name(c), c->lines[i].number);
}

static int describe_line(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    struct columns of;
    json_error_t why = {0};
    char *line = read_line(c, i, err);
    json_t *o = line ? parse(c, line, &why, err) : NULL;
    int rc = line && (s->where = where_of(c, i, err)) ? read_columns(&of, c, o, why.text, err) : -1;
    if (rc == 0) {
        collection_label(s, o);
        rc = set_sample(s, &of, c, err);
    }
    if (rc == 0)
        rc = collection_add_side_files(s, c, i, NULL, err);
    json_decref(o);
    free(line);
    return rc;
}

static int load_line(struct collection_bytes *out, const struct collection *c, int64_t i, struct err *err)
{
    struct columns of;
    json_error_t why = {0};
    char *line = read_line(c, i, err);
    json_t *o = line ? parse(c, line, &why, err) : NULL;
    int rc = line ? read_columns(&of, c, o, why.text, err) : -1;
    *out = (struct collection_bytes){0};
    if (rc == 0)
        rc = collection_file_load(out, c, of.file, err);
    json_decref(o);
    free(line);
    return rc;
}

const struct collection_kind collection_list_kind = {describe_line, load_line, collection_file_side};
const struct collection_kind collection_hub_kind = {describe_line, load_line, collection_file_side};
const struct collection_kind collection_csv_kind = {describe_line, load_line, collection_file_side};

/* --- opening ---------------------------------------------------------------------------------- */

static int add_line(struct collection *c, int64_t at, ssize_t bytes, uint32_t number, struct err *err)
{
    struct collection_sample s;
    struct collection_line *more = collection_grow(c->lines, c->len, sizeof(*more), err);
    if (!more)
        return -1;
    c->lines = more;
    if (bytes > LINE_MAX_BYTES)
        return err_set(err, ERR_DATA, "%s/%s:%u: the line has more than %d bytes", c->path, list_name(c), number,
                       LINE_MAX_BYTES);
    c->lines[c->len++] = (struct collection_line){at, (uint32_t)bytes, number};
    if (collection_sample(&s, c, c->len - 1, err) == 0) {
        collection_sample_free(&s);
        return 0;
    }
    char *where = where_of(c, c->len - 1, NULL);
    const int rc = collection_bad(c, where ? where : list_name(c), err);
    free(where);
    return rc < 0 ? err_prefix(err, "%s/", c->path) : 0;
}

/* A record, owned by the reader; in CSV it may have several lines. */
struct reader {
    FILE    *in;
    char    *text;
    size_t   room;
    int64_t  at;           /* of the record in the file */
    ssize_t  bytes;
    uint32_t number, lines; /* of its first line; that it has */
};

static bool append_line(struct reader *r)
{
    char *line = NULL;
    size_t room = 0;
    const ssize_t n = getline(&line, &room, r->in);
    char *more = n > 0 ? realloc(r->text, (size_t)(r->bytes + n) + 1) : NULL;
    if (more) {
        memcpy(more + r->bytes, line, (size_t)n + 1);
        r->text = more;
        r->bytes += n;
        r->lines++;
    }
    free(line);
    return more != NULL;
}

/* false: the end */
static bool next_record(struct reader *r, bool csv)
{
    r->at += r->bytes;
    r->number += r->lines;
    r->lines = 1;
    if ((r->bytes = getline(&r->text, &r->room, r->in)) < 0)
        return false;
    while (csv && r->bytes <= LINE_MAX_BYTES && !csv_record_is_whole(r->text, (size_t)r->bytes) && append_line(r))
        r->room = (size_t)r->bytes + 1;
    return true;
}

static int read_header(struct collection *c, struct reader *r, struct err *err)
{
    if (!next_record(r, true))
        return err_set(err, ERR_DATA, "%s/%s is empty", c->path, list_name(c));
    return collection_csv_header(c, r->text, err) < 0 ? err_prefix(err, "%s/%s:1: ", c->path, list_name(c)) : 0;
}

static int read_lines(struct collection *c, FILE *in, struct err *err)
{
    const bool csv = c->layout == COLLECTION_CSV;
    struct reader r = {.in = in, .number = 1};
    int rc = csv ? read_header(c, &r, err) : 0;
    while (rc == 0 && next_record(&r, csv))
        if (r.text[strspn(r.text, " \t\r\n")] != '\0')
            rc = add_line(c, r.at, r.bytes, r.number, err);
    if (rc == 0 && ferror(in))
        rc = err_set_errno(err, errno, "cannot read %s/%s", c->path, list_name(c));
    free(r.text);
    return rc;
}

int collection_open_list(struct collection *c, const char *file, struct err *err)
{
    char *path = collection_text(err, "%s/%s", c->path, file);
    FILE *in = NULL;
    int rc = -1;
    if (path && (c->list = safe_open_linked(path, O_RDONLY, err)) >= 0 && !(in = fopen(path, "re")))
        err_set_errno(err, errno, "cannot read %s", path);
    if (in) {
        rc = read_lines(c, in, err);
        fclose(in);
    }
    free(path);
    return rc;
}
