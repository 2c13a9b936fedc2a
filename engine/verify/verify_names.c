/* SPDX-License-Identifier: Apache-2.0 */
/* verify_names.c - kinds "names" and "names-table": diffusers' names as the authors', and the rows of each
 *
 * "map" has pairs of names, and "op" where rows are taken: "rows 64..127 of 192".  Where CASE.authors.safetensors and
 * CASE.diffusers.safetensors are beside the JSON, the rows must be the same bytes.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/data/safetensors.h"
#include "engine/verify/verify_internal.h"
#include "engine/weights/weights_names.h"

struct names_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    struct st_file                 *authors, *theirs; /* or NULL */
    enum weights_naming             naming, own;
};

static void tell(struct names_case *c, const char *name, bool same)
{
    const float ours = !same;
    const double want = 0;
    verify_compare(c->result, c->files, &(struct verify_row){name, VERIFY_EXACT, &ours, &want, 1, 0});
}

/* The rows that "op" names, against a place in the authors' tensor. */
static bool same_rows(const char *op, const struct weights_place *p)
{
    long first, last, all;
    if (!op || strcmp(op, "same") == 0)
        return p->parts == 1;
    if (sscanf(op, "rows %ld..%ld of %ld", &first, &last, &all) != 3 || all % p->parts != 0)
        return false;
    return first == all / p->parts * p->part && last == first + all / p->parts - 1;
}

static bool same_bytes(const struct names_case *c, const char *name, const struct weights_place *p)
{
    const struct st_tensor *t = st_find(c->theirs, name), *a = st_find(c->authors, p->name);
    if (!t || !a || a->dtype != t->dtype || a->bytes != t->bytes * (size_t)p->parts)
        return false;
    return memcmp((const char *)a->data + (size_t)p->part * t->bytes, t->data, t->bytes) == 0;
}

static bool same_row(const struct names_case *c, const json_t *row, const char *theirs, const char *authors)
{
    struct weights_place p;
    const struct st_tensor *t = c->theirs ? st_find(c->theirs, theirs) : NULL;
    if (!weights_names_map(&p, c->naming, theirs) || strcmp(p.name, authors) != 0 ||
        !same_rows(json_string_value(json_object_get(row, "op")), &p) || (c->theirs && !t))
        return false;
    if (c->theirs && c->authors && !same_bytes(c, theirs, &p))
        return false;
    return weights_names_map(&p, c->own, authors) && strcmp(p.name, authors) == 0;
}

static int check_map(struct names_case *c, const json_t *map, struct err *err)
{
    size_t i;
    json_t *row;
    json_array_foreach(map, i, row) {
        const char *theirs = json_string_value(json_object_get(row, "diffusers"));
        const char *authors = json_string_value(json_object_get(row, "authors"));
        if (!theirs || !authors)
            return err_set(err, ERR_DATA, "map[%zu] has no \"diffusers\" and \"authors\"", i);
        tell(c, theirs, same_row(c, row, theirs, authors));
    }
    return i ? 0 : err_set(err, ERR_DATA, "there is nothing to check: no \"map\"");
}

/* What only the authors have may be missing. */
static void check_optional(struct names_case *c)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(c->files->config, "authors_only"), i, name)
        if (json_is_string(name))
            tell(c, json_string_value(name), weights_names_optional(json_string_value(name)));
}

/* The family, by the names: Lumina-Next's blocks are "layers". */
static void choose_naming(struct names_case *c, const json_t *map)
{
    size_t i;
    json_t *row;
    c->naming = WEIGHTS_SANA_DIFFUSERS;
    c->own = WEIGHTS_SANA;
    json_array_foreach(map, i, row) {
        const char *name = json_string_value(json_object_get(row, "diffusers"));
        if (name && strncmp(name, "layers.", 7) == 0) {
            c->naming = WEIGHTS_LUMINA_DIFFUSERS;
            c->own = WEIGHTS_LUMINA;
        }
    }
}

int verify_names(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    struct names_case c = {.result = result, .files = files};
    const json_t *map = json_object_get(files->config, "map");
    choose_naming(&c, map);
    int rc = verify_open_beside(&c.authors, files->path, "authors.safetensors", false, err);
    if (rc == 0)
        rc = verify_open_beside(&c.theirs, files->path, "diffusers.safetensors", false, err);
    if (rc == 0)
        rc = check_map(&c, map, err);
    if (rc == 0)
        check_optional(&c);
    st_close(c.authors);
    st_close(c.theirs);
    return rc;
}
