/* SPDX-License-Identifier: Apache-2.0 */
/* hub_check.c - see hub_check.h */
#include "controller/cli/hub_check.h"

#include <stdbool.h>
#include <string.h>

#include "agent/os/hub_query.h"
#include "controller/cli/command.h"
#include "controller/remote/remote.h"
#include "engine/contract/field.h"
#include "engine/hub/hub_name.h"
#include "engine/hub/hub_spec.h"

/* The answer's row of a key. */
static const json_t *row_of(const json_t *answer, const char *key)
{
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(answer, "names"), i, row)
        if (strcmp(field_text(row, "key"), key) == 0)
            return row;
    return NULL;
}

/* Nothing of a commit that is there. */
static void note(const struct hub_spec_name *name, const json_t *row, bool here, json_t *notes)
{
    const char *state = field_text(row, "state"), *text = field_text(row, "text");
    if (strcmp(state, "there") == 0 && here && strcmp(name->text, field_text(row, "pinned")) == 0)
        return;
    if (strcmp(state, "absent") == 0)
        json_array_append_new(notes, json_sprintf("%s: not checked here: %s", name->key, text));
    else if (here)
        json_array_append_new(notes, json_sprintf("%s: %s", name->key, text));
    else
        json_array_append_new(notes, json_sprintf("%s: %s is downloaded on each host that does not have it", name->key,
                                                  field_text(row, "pinned")));
}

static void treat(struct call *call, const json_t *request, const struct hub_spec_name *name, const json_t *row,
                  bool here, json_t *notes, hub_check_refuse *refuse)
{
    const char *state = field_text(row, "state"), *pinned = field_text(row, "pinned");
    if (strcmp(state, "refused") == 0 || (strcmp(state, "absent") == 0 && here)) {
        refuse(call, request, name->key, "%s", field_text(row, "text"));
        return;
    }
    note(name, row, here, notes);
    if (pinned[0])
        json_object_set_new(name->map, name->last, json_string(pinned));
}

void hub_check(struct call *call, const json_t *request, json_t *spec, json_t *notes, hub_check_refuse *refuse)
{
    struct hub_spec_name name[HUB_SPEC_NAMES];
    struct err err = {.code = ERR_NONE};
    const bool here = remote_of_spec(spec) == &remote_local;
    const int n = hub_spec_names(name, spec);
    json_t *answer = n > 0 ? hub_query(spec, &err) : NULL;
    for (int i = 0; i < n; i++) {
        const json_t *row = row_of(answer, name[i].key);
        if (row)
            treat(call, request, &name[i], row, here, notes, refuse);
        else
            json_array_append_new(notes, json_sprintf("%s: not checked: %s", name[i].key, err.text));
    }
    json_decref(answer);
}
