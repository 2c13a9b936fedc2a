/* SPDX-License-Identifier: Apache-2.0 */
/* wire_version.c - see wire_version.h */
#include "agent/wire/wire_version.h"

#include "engine/contract/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The earliest accepted version, by direction. */
static const unsigned earliest[WIRE_DIRECTIONS] = {
    [TO_CONTROLLER] = 1,
    [TO_AGENT] = WIRE_VERSION,
    [TO_LEADER] = WIRE_VERSION,
    [TO_FOLLOWER] = WIRE_VERSION,
};

/* Up to and including version `until` the key `now` of a message was called `then`. `object`:
 * the key of the object it is in, by its current name; NULL: the body itself. The row of an
 * object precedes those of its keys. */
static const struct renamed {
    unsigned until;
    enum wire_message number;
    const char *object, *then, *now;
} renamed[] = {
    {1, WIRE_LAUNCH, NULL, "crew", "group"},
    {1, WIRE_LAUNCH, "group", "door", "endpoint"},
    {1, WIRE_LISTENING, NULL, "door", "endpoint"},
    {1, WIRE_HELLO, NULL, "unreached", "call_error"},
    {1, WIRE_HEARTBEAT, NULL, "unreached", "call_error"},
};

/* Keys that a message did not have up to and including version `until`: left out for such an agent. `key` NULL: the
 * whole message, which is not sent to it. */
static const struct added {
    unsigned until;
    enum wire_message number;
    const char *object, *key;
} added[] = {
    {2, WIRE_LAUNCH, NULL, "env_place"},
    {2, WIRE_LAUNCH, NULL, "names_to"},
    {2, WIRE_LAUNCH, "budget", "same_line"},
    {2, WIRE_LAUNCH, "budget", "same_line_ms"},
    {2, WIRE_ATTACH, NULL, "forget"},
    {3, WIRE_WATCH_GPUS, NULL, NULL},
};

static void leave_out(unsigned version, enum wire_message number, json_t *body)
{
    for (size_t i = 0; i < ARRAY_LEN(added); i++)
        if (added[i].number == number && added[i].key && version <= added[i].until)
            json_object_del(added[i].object ? json_object_get(body, added[i].object) : body, added[i].key);
}

bool wire_version_knows(unsigned version, enum wire_message number)
{
    for (size_t i = 0; i < ARRAY_LEN(added); i++)
        if (added[i].number == number && !added[i].key && version <= added[i].until)
            return false;
    return true;
}

bool wire_version_accepted(unsigned version, enum wire_direction direction)
{
    return version >= earliest[direction] && version <= WIRE_VERSION;
}

static bool applies(const struct renamed *r, unsigned version, enum wire_message number)
{
    return r->number == number && version <= r->until;
}

/* Renames a key. -1: no memory. */
static int move_key(json_t *object, const char *from, const char *to)
{
    json_t *value = json_object_get(object, from);
    if (!value)
        return 0;
    return json_object_set(object, to, value) < 0 ? -1 : json_object_del(object, from);
}

int wire_version_read(unsigned version, const struct wire_row *row, json_t *body, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++) {
        const struct renamed *r = &renamed[i];
        if (!applies(r, version, row->number))
            continue;
        json_t *in = r->object ? json_object_get(body, r->object) : body;
        if (json_object_get(in, r->now))
            return err_set(err, ERR_DATA, "a %s message of protocol version %u has an unknown field '%s'",
                           row->name, version, r->now);
        if (move_key(in, r->then, r->now) < 0)
            return err_set(err, ERR_MEMORY, "no memory for a %s message", row->name);
    }
    return 0;
}

json_t *wire_version_write(unsigned version, enum wire_message number, const json_t *body)
{
    json_t *copy = json_deep_copy(body);
    for (size_t i = ARRAY_LEN(renamed); copy && i-- > 0;) { /* keys before their object */
        const struct renamed *r = &renamed[i];
        json_t *in = r->object ? json_object_get(copy, r->object) : copy;
        if (!applies(r, version, number) || move_key(in, r->now, r->then) == 0)
            continue;
        json_decref(copy);
        copy = NULL;
    }
    leave_out(version, number, copy);
    return copy;
}
