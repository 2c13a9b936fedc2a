/* SPDX-License-Identifier: Apache-2.0 */
/* hub_check.c - see hub_check.h */
#include "controller/submit/hub_check.h"

#include "controller/cli/command.h"
#include "controller/remote/hub_pin.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"
#include "engine/base/text_append.h"

struct place {
    struct call      *call;
    const json_t     *request;
    hub_check_refuse *refuse;
};

static void on_mistake(void *arg, const char *key, const char *text)
{
    const struct place *p = arg;
    p->refuse(p->call, p->request, key, "%s", text);
}

/* The command that downloads what a plan lacks, with the changes of this call. */
static void note_fetch(const struct call *call, const json_t *request, json_t *notes)
{
    char sets[800] = "";
    size_t i;
    const json_t *set;
    json_array_foreach (json_object_get(request, "set"), i, set)
        text_append(sets, sizeof(sets), " --set '%s'", json_string_value(set));
    json_array_append_new(notes, json_text_f("nothing is downloaded now; to have it here: jobctl fetch %s%s",
                                             call->file, sets));
}

void hub_check(struct call *call, const json_t *request, json_t *spec, json_t *notes, hub_check_refuse *refuse)
{
    struct place p = {call, request, refuse};
    const bool plan = field_true(request, "plan");
    if (hub_pin(spec, NULL, plan, notes, on_mistake, &p) && plan)
        note_fetch(call, request, notes);
}
