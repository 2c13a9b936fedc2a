/* SPDX-License-Identifier: Apache-2.0 */
/* plan_builder.c - reads and fills a plan under construction; see plan_internal.h
 *
 * Pure: no clock, no I/O.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

__attribute__((format(printf, 2, 0))) static json_t *add_note(struct plan_view *v, const char *fmt, va_list ap)
{
    char text[400];
    vsnprintf(text, sizeof(text), fmt, ap);
    err_make_printable(text);
    json_array_append_new(v->notes, json_text(text));
    return json_array_get(v->notes, json_array_size(v->notes) - 1);
}

void plan_note(struct plan_view *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_note(v, fmt, ap);
    va_end(ap);
}

void plan_note_harm(struct plan_view *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    json_array_append(json_object_get(v->plan, "harmful"), add_note(v, fmt, ap));
    va_end(ap);
}

void plan_set(struct plan_view *v, const char *name, const char *value, const char *why,
              const char *fact, const char *confidence)
{
    json_array_append_new(v->env, json_make("{s:s, s:s, s:s, s:s, s:s}", "name", name, "value",
                                            value, "why", why, "fact", fact, "confidence",
                                            confidence));
}

void plan_set_unset(struct plan_view *v, const char *name, const char *value, const char *why, const char *fact)
{
    if (!json_object_get(json_object_get(v->facts, "environment"), name))
        plan_set(v, name, value, why, fact, "high");
}

const char *plan_env(const json_t *plan, const char *name)
{
    static const char *const lists[] = {"user_env", "env"};
    for (int l = 0; l < 2; l++) {
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(plan, lists[l]), i, row)
        {
            if (strcmp(field_text(row, "name"), name) == 0)
                return field_text(row, "value");
        }
    }
    return NULL;
}

/* Settings of NCCL's log do not change what ranks do, and differ between jobs. */
bool plan_is_words(const json_t *row)
{
    return strncmp(field_text(row, "name"), "NCCL_DEBUG", strlen("NCCL_DEBUG")) == 0;
}

/* A copy of a plan, or of one of its nodes, without NCCL's log settings. */
static json_t *without_words(const json_t *plan)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)plan), *env = json_array(), *nodes = json_array(),
           *row;
    size_t i;
    json_array_foreach(json_object_get(plan, "env"), i, row)
    {
        if (!plan_is_words(row))
            json_array_append(env, row);
    }
    json_object_set_new(copy, "env", env);
    json_array_foreach(json_object_get(plan, "node_env"), i, row)
    {
        json_t *node = without_words(row);
        if (json_array_size(json_object_get(node, "env")) > 0)
            json_array_append(nodes, node);
        json_decref(node);
    }
    if (json_array_size(nodes) > 0)
        json_object_set(copy, "node_env", nodes);
    else
        json_object_del(copy, "node_env");
    json_decref(nodes);
    return copy;
}

/* FNV-1a: distinguishes plans of one job, not of different jobs. */
void plan_set_hash(json_t *plan)
{
    uint64_t h = 0xcbf29ce484222325U;
    char hex[24];
    static const char *const in_notes[] = {"harmful", "unused", "common_notes"};
    json_t *told = without_words(plan);
    for (size_t i = 0; i < sizeof(in_notes) / sizeof(*in_notes); i++)
        json_object_del(told, in_notes[i]);
    char *text = json_dumps(told, JSON_COMPACT | JSON_SORT_KEYS);
    for (const char *p = text; p && *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3U;
    free(text);
    json_decref(told);
    snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)h);
    json_object_set_new(plan, "hash", json_text(hex));
}
