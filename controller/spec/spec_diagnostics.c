/* SPDX-License-Identifier: Apache-2.0 */
/* spec_diagnostics.c - see spec_diagnostics.h */
#include "controller/spec/spec_diagnostics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/spec/spec_rows.h"

int spec_diagnostics_init(struct spec_diagnostics *f, struct err *err)
{
    *f = (struct spec_diagnostics){.suppressed = json_object(), .strangers = json_object()};
    if (f->suppressed && f->strangers)
        return 0;
    spec_diagnostics_fini(f);
    return err_set(err, ERR_MEMORY, "out of memory while checking the spec");
}

void spec_diagnostics_fini(struct spec_diagnostics *f)
{
    json_decref(f->suppressed);
    json_decref(f->strangers);
    f->suppressed = f->strangers = NULL;
}

static int add(struct spec_diagnostics *f, const struct yaml_node *n, enum spec_spot spot, const struct err *err)
{
    struct err told = *err;
    struct yaml_mark at = {0, 0};
    if (n && n->origin)
        err_prefix(&told, "%s: ", n->origin);
    else if (n)
        at = spot == SPOT_KEY && n->key ? n->key_at : n->at;
    diagnostics_add(&f->found, at.line, at.column, &told);
    return -1;
}

__attribute__((format(printf, 1, 0)))
static struct err sentence(const char *fmt, va_list ap)
{
    struct err err = {.code = ERR_NONE};
    char text[sizeof(err.text)];
    vsnprintf(text, sizeof(text), fmt, ap);
    err_set(&err, ERR_USAGE, "%s", text);
    return err;
}

int spec_diagnostic_at(struct spec_diagnostics *f, const struct yaml_node *node, enum spec_spot spot, const char *fmt,
                       ...)
{
    va_list ap;
    va_start(ap, fmt);
    const struct err err = sentence(fmt, ap);
    va_end(ap);
    return add(f, node, spot, &err);
}

/* Returns the next part of a path and advances it. */
static const char *take_part(char *part, size_t size, const char *path)
{
    size_t n = strcspn(path, ".");
    snprintf(part, size, "%.*s", (int)n, path);
    return path + n + (path[n] == '.');
}

int spec_diagnostic_err(struct spec_diagnostics *f, const char *path, const struct err *err)
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

int spec_diagnostic_of(struct spec_diagnostics *f, const char *path, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const struct err err = sentence(fmt, ap);
    va_end(ap);
    return spec_diagnostic_err(f, path, &err);
}

void spec_diagnostics_suppress(struct spec_diagnostics *f, const char *path)
{
    json_object_set_new(f->suppressed, path, json_true());
}

void spec_diagnostics_stranger(struct spec_diagnostics *f, const char *map)
{
    json_object_set_new(f->strangers, map, json_true());
}

static bool trusted(const struct spec_diagnostics *f, const char *path)
{
    char above[SPEC_PATH], part[SPEC_PATH];
    const struct yaml_node *at = f->root;
    bool strange = json_object_get(f->strangers, "") != NULL;
    for (const char *rest = path; *rest;) {
        rest = take_part(part, sizeof(part), rest);
        snprintf(above, sizeof(above), "%.*s", (int)(rest - path - (*rest != '\0')), path);
        if (json_object_get(f->suppressed, above))
            return false;
        at = yaml_get(at, part);
        strange = strange || (*rest && json_object_get(f->strangers, above));
    }
    return at || !strange;
}

bool spec_diagnostics_trust(const struct spec_diagnostics *f, const char *paths)
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
