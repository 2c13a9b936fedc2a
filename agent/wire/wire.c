/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - see wire.h; the table of messages, and the check of a body against its row */
#include "agent/wire/wire.h"

#include <string.h>

#include "agent/wire/leader_wire.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define ATTEMPT      "job:i attempt:i nonce:s "

/* A dotted name is a field of an object; an object with such rows is checked as strictly as the
 * body, an object without may contain anything. */
static const struct wire_row rows[] = {
    {WIRE_HELLO, "hello", TO_CONTROLLER, 256 * 1024,
     ATTEMPT "node:s boot_id:s pid:i start_time:i incarnation:i version:s launched:b "
             "first_seq:i last_seq:i facts:o origin:s? wall_ms:i? call_error:s?"},
    {WIRE_EVENT, "event", TO_CONTROLLER, 256 * 1024,
     ATTEMPT "incarnation:i seq:i mono_ns:i wall_ms:i kind:s body:o"},
    {WIRE_HEARTBEAT, "heartbeat", TO_CONTROLLER, 4 * 1024,
     ATTEMPT "generation:i state:s step:n steps:n phase:s loss:n lr:n samples_per_s:n "
             "ranks_alive:i step_ms:n call_error:s?"},
    {WIRE_LOG, "log", TO_CONTROLLER, 256 * 1024, ATTEMPT "file:s offset:i data:s"},
    {WIRE_AGENT_GONE, "agent gone", TO_CONTROLLER, 4 * 1024, ATTEMPT "text:s full:b?"},
    {WIRE_KEEPALIVE, "keepalive", TO_CONTROLLER, 1024, ATTEMPT},
    {WIRE_LISTENING, "listening", TO_CONTROLLER, 8 * 1024,
     ATTEMPT "endpoint:o endpoint.addresses:a endpoint.port:i endpoint.key:s"},
    {WIRE_GPU_LOAD, "GPU load", TO_CONTROLLER, 256 * 1024, ATTEMPT "node:s gpus:a"},
    {WIRE_LAUNCH, "launch", TO_AGENT, 2 * 1024 * 1024,
     ATTEMPT "name:s spec:o spec_digest:s run_dir:s job_dir:s ckpt_dir:s acked:i secrets:o env_place:s? "
             "budget:o budget.restarts:i budget.backoff_min_ms:i budget.backoff_max_ms:i "
             "budget.no_progress:i budget.same_line:i? budget.same_line_ms:i? budget.early_ms:i? "
             "history:o history.failures_without_progress:i history.same_fingerprint:i "
             "history.last_step:i history.fingerprint:s history.step_ms:n? "
             "learned:o? excluded:o? names_to:s? code:o? code.dir:s code.must:b code.workdir:s "
             "group:o? group.node:i group.nodes:i group.names:a group.lost_ms:i? group.endpoint:o? group.endpoint.addresses:a "
             "group.endpoint.port:i group.endpoint.key:s"},
    {WIRE_ACK, "ack", TO_AGENT, 1024, ATTEMPT "seq:i"},
    {WIRE_STOP, "stop", TO_AGENT, 4 * 1024, ATTEMPT "reason:s grace_ms:i checkpoint:b"},
    {WIRE_CHECKPOINT, "checkpoint", TO_AGENT, 1024, ATTEMPT},
    {WIRE_ATTACH, "attach", TO_AGENT, 64 * 1024,
     ATTEMPT "key:s may_start:b dismiss:b acked:i logs:o origin:s? forget:b?"},
    {WIRE_NODE_GONE, "node gone", TO_AGENT, 4 * 1024, ATTEMPT "node:i text:s"},
    {WIRE_WATCH_GPUS, "watch GPUs", TO_AGENT, 1024, ATTEMPT "for_ms:i"},
};

const struct wire_row *wire_find(unsigned number, enum wire_direction direction)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].number == number && rows[i].direction == direction)
            return &rows[i];
    return leader_wire_find(number, direction);
}

bool wire_id_same(const struct wire_id *a, const struct wire_id *b)
{
    return a->job == b->job && a->attempt == b->attempt && a->nonce && b->nonce &&
           strcmp(a->nonce, b->nonce) == 0;
}

struct wire_id wire_id_of(const json_t *body)
{
    return (struct wire_id){
        .job = json_integer_value(json_object_get(body, "job")),
        .attempt = json_integer_value(json_object_get(body, "attempt")),
        .nonce = json_string_value(json_object_get(body, "nonce")),
    };
}

/* One "name:type" of a row's fields. */
struct field {
    const char *name;
    size_t len;
    char type;
    bool optional;
};

/* The next field at *at, or false at the end. */
static bool next_field(struct field *f, const char **at)
{
    const char *p = *at + strspn(*at, " ");
    if (!*p)
        return false;
    f->name = p;
    f->len = strcspn(p, ":");
    f->type = p[f->len + 1];
    f->optional = p[f->len + 2] == '?';
    *at = p + f->len + 2 + f->optional;
    return true;
}

/* The rest of f's name inside the object `prefix` ("" or "budget."), or NULL. */
static const char *inside(const struct field *f, const char *prefix, size_t *len)
{
    size_t n = strlen(prefix);
    if (f->len <= n || strncmp(f->name, prefix, n) != 0 || memchr(f->name + n, '.', f->len - n))
        return NULL;
    *len = f->len - n;
    return f->name + n;
}

/* The types of a field, each with the types of JSON that it may have; the last for all other letters. */
static const struct type {
    char        letter;
    const char *name;
    unsigned    json;
} types[] = {
    {'i', "an integer", 1U << JSON_INTEGER},
    {'s', "a string", 1U << JSON_STRING},
    {'b', "true or false", 1U << JSON_TRUE | 1U << JSON_FALSE},
    {'n', "a number or null", 1U << JSON_INTEGER | 1U << JSON_REAL | 1U << JSON_NULL},
    {'t', "a string or null", 1U << JSON_STRING | 1U << JSON_NULL},
    {'a', "an array", 1U << JSON_ARRAY},
    {'o', "an object", 1U << JSON_OBJECT},
};

static const struct type *type_of(char letter)
{
    const struct type *t = types;
    while (t < types + ARRAY_LEN(types) - 1 && t->letter != letter)
        t++;
    return t;
}

/* Does the row list `key` in the object `prefix`? */
static bool known(const struct wire_row *row, const char *prefix, const char *key)
{
    struct field f;
    for (const char *at = row->fields; next_field(&f, &at);) {
        size_t len;
        const char *name = inside(&f, prefix, &len);
        if (name && strlen(key) == len && memcmp(name, key, len) == 0)
            return true;
    }
    return false;
}

/* Does the row list fields of the object `prefix`? */
static bool described(const struct wire_row *row, const char *prefix)
{
    struct field f;
    size_t len;
    for (const char *at = row->fields; next_field(&f, &at);)
        if (inside(&f, prefix, &len))
            return true;
    return false;
}

static int check_object(const struct wire_row *row, const char *prefix, const json_t *object, struct err *err)
{
    struct field f;
    for (const char *at = row->fields; next_field(&f, &at);) {
        char name[64], path[64];
        size_t len;
        const char *p = inside(&f, prefix, &len);
        if (!p || len >= sizeof(name) || f.len + 2 > sizeof(path))
            continue;
        memcpy(name, p, len);
        name[len] = '\0';
        const json_t *v = json_object_get(object, name);
        if (!v && f.optional)
            continue;
        if (!v)
            return err_set(err, ERR_DATA, "a %s message has no field '%s%s'", row->name, prefix, name);
        const struct type *type = type_of(f.type);
        if (!(type->json >> json_typeof(v) & 1))
            return err_set(err, ERR_DATA, "field '%s%s' of a %s message is not %s", prefix, name,
                           row->name, type->name);
        memcpy(path, f.name, f.len);
        memcpy(path + f.len, ".", 2);
        if (f.type == 'o' && described(row, path) && check_object(row, path, v, err) < 0)
            return -1;
    }

    const char *key;
    json_t *value;
    /* jansson's iteration takes no const, but does not modify. */
    json_t *walk = (json_t *)(uintptr_t)object;
    json_object_foreach(walk, key, value) if (!known(row, prefix, key)) return err_set(
        err, ERR_DATA, "a %s message has an unknown field '%s%.60s'", row->name, prefix, key);
    return 0;
}

int wire_check(const struct wire_row *row, const json_t *body, struct err *err)
{
    if (!json_is_object(body))
        return err_set(err, ERR_DATA, "a %s message must be a JSON object", row->name);
    return check_object(row, "", body, err);
}
