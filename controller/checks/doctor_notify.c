/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_notify.c - see doctor_notify.h */
#include "controller/checks/doctor_notify.h"

#include <string.h>

#include "controller/base/client.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

enum { SEEN = 800, TODO = 200 };

struct finding {
    char seen[SEEN], todo[TODO];
};

static void take_target(struct finding *f, const json_t *target)
{
    const char *problem = field_text(target, "problem"), *name = field_text(target, "name");
    text_append(f->seen, SEEN, "%s%s (%s)", f->seen[0] ? ", " : "", name, field_text(target, "kind"));
    if (!problem[0])
        return;
    text_append(f->seen, SEEN, ", which cannot be reached: %.200s", problem);
    if (!f->todo[0])
        text_append(f->todo, TODO, "check the target in config.yaml, then try it: jobctl notify test %s", name);
}

/* false: there is nothing to tell. */
static bool look(struct finding *f)
{
    struct client *c = NULL;
    struct err err = {0};
    json_t *answer = NULL;
    size_t i;
    const json_t *target;
    if (client_open(&c, false, &err) < 0)
        return false;
    if (client_get(c, &answer, &err, "/v1/notify") < 0) {
        text_append(f->seen, SEEN, "messages about jobs cannot be sent: %s", err.text);
        text_append(f->todo, TODO, "correct config.yaml; jobctl notify reports remaining mistakes");
    }
    json_array_foreach (json_object_get(answer, "targets"), i, target)
        take_target(f, target);
    json_decref(answer);
    client_close(c);
    return f->seen[0];
}

int doctor_notify_add(json_t *answer, struct err *err)
{
    struct finding f = {.seen = ""};
    if (!look(&f))
        return 0;
    json_t *row = json_make("{s:s, s:s, s:s, s:s}", "check", "notify", "status", f.todo[0] ? "warn" : "ok", "seen",
                            f.seen, "todo", f.todo);
    if (f.todo[0])
        json_object_set_new(answer, "warn", json_integer(field_int(answer, "warn", 0) + 1));
    return json_array_append_new(json_object_get(answer, "rows"), row) == 0
               ? 0 : err_set(err, ERR_MEMORY, "out of memory for the row of notify");
}
