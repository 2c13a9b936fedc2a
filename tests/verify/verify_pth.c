/* SPDX-License-Identifier: Apache-2.0 */
/* verify_pth.c - kind "pth": a file of torch.save(), exactly; and files that must be refused
 *
 * "content" maps paths of the saved object to a tensor's type, shape and SHA-256 of its bytes, or to a value.
 * A case with "files" instead lists files next to it, each of which must be refused by a message that names it.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "tests/verify/verify_internal.h"
#include "engine/weights/pickle.h"
#include "engine/weights/pth.h"
#include "tests/verify/sha256.h"
#include "engine/weights/tensor_view.h"

struct pth_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    struct pth                     *pth;
    size_t                          tensors; /* of the JSON */
};

/* One row of the result: 0 or 1 difference. */
static void tell(struct verify_result *result, const struct verify_case_files *files, const char *what, bool same)
{
    const float ours = !same;
    const double want = 0;
    verify_compare(result, files, &(struct verify_row){what, VERIFY_EXACT, &ours, &want, 1, 0});
}

static void beside(char path[PATH_MAX], const struct verify_case_files *files, const char *name)
{
    const char *slash = strrchr(files->path, '/');
    snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash - files->path + 1) : 0, files->path, name);
}

/* --- content ------------------------------------------------------------------------------ */

static void digest_view(char text[SHA256_TEXT], const struct tensor_view *v)
{
    enum { PART = 4096 };
    unsigned char bytes[PART * 8];
    struct sha256 s;
    sha256_begin(&s);
    for (size_t done = 0, part; done < v->count; done += part) {
        part = v->count - done < PART ? v->count - done : PART;
        tensor_view_copy(bytes, v, done, part);
        sha256_add(&s, bytes, part * st_dtype_size(v->dtype));
    }
    sha256_text(&s, text);
}

static bool same_shape(const struct tensor_view *v, const json_t *shape)
{
    bool same = json_array_size(shape) == (size_t)v->ndim;
    for (int i = 0; same && i < v->ndim; i++)
        same = json_integer_value(json_array_get(shape, (size_t)i)) == v->dim[i];
    return same;
}

static bool same_text(const json_t *want, const char *ours)
{
    return json_is_string(want) && strcmp(json_string_value(want), ours) == 0;
}

static const struct tensor_view *find_tensor(const struct pth *f, const char *path)
{
    for (int i = 0; i < pth_len(f); i++)
        if (strcmp(pth_at(f, i)->name, path) == 0)
            return pth_at(f, i);
    return NULL;
}

static bool same_tensor(const struct pth *f, const char *path, const json_t *want)
{
    char digest[SHA256_TEXT];
    const struct tensor_view *v = find_tensor(f, path);
    if (!v)
        return false;
    digest_view(digest, v);
    return same_text(json_object_get(want, "dtype"), st_dtype_name(v->dtype)) &&
           same_shape(v, json_object_get(want, "shape")) && same_text(json_object_get(want, "sha256"), digest);
}

/* A value of the file, looked for by its path. */
struct wanted {
    const char   *path;
    const json_t *value;
    bool          found, same;
};

static bool same_value(const struct pickle_value *v, const json_t *want)
{
    switch (v->kind) {
    case PICKLE_NONE:
        return json_is_null(want);
    case PICKLE_BOOL:
        return json_is_boolean(want) && json_boolean_value(want) == (v->number != 0);
    case PICKLE_INT:
        return json_is_integer(want) && json_integer_value(want) == v->number;
    case PICKLE_FLOAT:
        return json_is_number(want) && json_number_value(want) == v->real;
    case PICKLE_TEXT:
        return json_is_string(want) && json_string_length(want) == v->len &&
               memcmp(json_string_value(want), v->bytes, v->len) == 0;
    default:
        return false;
    }
}

static void look_for(void *ctx, const char *path, const struct pickle_value *value)
{
    struct wanted *w = ctx;
    if (strcmp(path, w->path) != 0)
        return;
    w->found = true;
    w->same = same_value(value, w->value);
}

/* An entry without a value is one that a reader may pass over. */
static void check_entry(struct pth_case *c, const char *path, const json_t *want)
{
    const json_t *value = json_object_get(want, "value");
    struct wanted w = {.path = path, .value = value};
    if (json_object_get(want, "sha256")) {
        tell(c->result, c->files, path, same_tensor(c->pth, path, want));
        c->tensors++;
    } else if (value) {
        pth_each_value(c->pth, look_for, &w);
        tell(c->result, c->files, path, w.found && w.same);
    }
}

static int check_content(struct pth_case *c, const json_t *content, struct err *err)
{
    const char *path;
    json_t *want;
    if (!json_is_object(content))
        return err_set(err, ERR_DATA, "the case has no \"content\"");
    json_object_foreach ((json_t *)(uintptr_t)content, path, want)
        check_entry(c, path, want);
    tell(c->result, c->files, "number of tensors", c->tensors == (size_t)pth_len(c->pth));
    return 0;
}

/* --- files that must be refused ----------------------------------------------------------- */

static void check_refused(struct verify_result *result, const struct verify_case_files *files, const char *name)
{
    char path[PATH_MAX];
    struct pth *f = NULL;
    struct err err = {0};
    beside(path, files, name);
    const bool refused = pth_open(&f, path, &err) < 0 && err.code == ERR_DATA;
    pth_close(f);
    if (files->each && refused)
        fprintf(files->each, "refused: %s\n", err.text);
    tell(result, files, name, refused && strstr(err.text, name));
}

static int check_all_refused(struct verify_result *result, const struct verify_case_files *files)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(files->config, "files"), i, row) {
        const char *name = json_string_value(json_object_get(row, "file"));
        check_refused(result, files, name ? name : "");
    }
    return 0;
}

int verify_pth(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    char path[PATH_MAX];
    struct pth_case c = {.result = result, .files = files};
    const char *name = json_string_value(json_object_get(files->config, "file"));
    if (json_is_array(json_object_get(files->config, "files")))
        return check_all_refused(result, files);
    if (!name)
        return err_set(err, ERR_DATA, "the case names no \"file\"");
    beside(path, files, name);
    if (pth_open(&c.pth, path, err) < 0)
        return -1;
    const int rc = check_content(&c, json_object_get(files->config, "content"), err);
    pth_close(c.pth);
    return rc;
}
