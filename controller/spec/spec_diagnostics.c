/* SPDX-License-Identifier: Apache-2.0 */
/* spec_diagnostics.c - see spec_diagnostics.h */
#include "controller/spec/spec_diagnostics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/spec/spec_rows.h"

int spec_faults_init(struct spec_faults *f, struct err *err)
{
    *f = (struct spec_faults){.distrusted = json_object(), .strangers = json_object()};
    if (f->distrusted && f->strangers)
        return 0;
    spec_faults_fini(f);
    return err_set(err, ERR_MEMORY, "out of memory while checking the spec");
}

void spec_faults_fini(struct spec_faults *f)
{
    json_decref(f->distrusted);
    json_decref(f->strangers);
    f->distrusted = f->strangers = NULL;
}

static int add(struct spec_faults *f, const struct yaml_node *n, enum spec_spot spot,
               const struct err *err)
{
    struct err told = *err;
    struct yaml_mark at = {0, 0};
    if (n && n->origin)
        err_prefix(&told, "%s: ", n->origin);
    else if (n)
        at = spot == SPOT_KEY && n->key ? n->key_at : n->at;
    findings_add(&f->found, at.line, at.column, &told);
    return -1;
}

int spec_fault_at(struct spec_faults *f, const struct yaml_node *node, enum spec_spot spot,
                  const char *fmt, ...)
{
    struct err err = {.code = ERR_NONE};
    char text[sizeof(err.text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    err_set(&err, ERR_USAGE, "%s", text);
    return add(f, node, spot, &err);
}

/* The next part of a path, which is moved on. */
static const char *take_part(char *part, size_t size, const char *path)
{
    size_t n = strcspn(path, ".");
    snprintf(part, size, "%.*s", (int)n, path);
    return path + n + (path[n] == '.');
}

int spec_fault_err(struct spec_faults *f, const char *path, const struct err *err)
{
    char part[SPEC_PATH];
    const struct yaml_node *at = f->root;
    while (*path) {
        path = take_part(part, sizeof(part), path);
        const struct yaml_node *next = yaml_get(at, part);
        if (!next)
            return add(f, at, SPOT_KEY, err);
        at = next;
    }
    return add(f, at, SPOT_VALUE, err);
}

int spec_fault_of(struct spec_faults *f, const char *path, const char *fmt, ...)
{
    struct err err = {.code = ERR_NONE};
    char text[sizeof(err.text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    err_set(&err, ERR_USAGE, "%s", text);
    return spec_fault_err(f, path, &err);
}

void spec_faults_distrust(struct spec_faults *f, const char *path)
{
    json_object_set_new(f->distrusted, path, json_true());
}

void spec_faults_stranger(struct spec_faults *f, const char *map)
{
    json_object_set_new(f->strangers, map, json_true());
}

static bool trusted(const struct spec_faults *f, const char *path)
{
    char above[SPEC_PATH], part[SPEC_PATH];
    const struct yaml_node *at = f->root;
    bool strange = json_object_get(f->strangers, "") != NULL;
    for (const char *rest = path; *rest;) {
        rest = take_part(part, sizeof(part), rest);
        snprintf(above, sizeof(above), "%.*s", (int)(rest - path - (*rest != '\0')), path);
        if (json_object_get(f->distrusted, above))
            return false;
        at = yaml_get(at, part);
        strange = strange || (*rest && json_object_get(f->strangers, above));
    }
    return at || !strange;
}

bool spec_faults_trust(const struct spec_faults *f, const char *paths)
{
    char path[SPEC_PATH];
    for (const char *p = paths; *p; p += strspn(p, "|")) {
        const size_t n = strcspn(p, "|");
        snprintf(path, sizeof(path), "%.*s", (int)n, p);
        if (!trusted(f, path))
            return false;
        p += n;
    }
    return true;
}
