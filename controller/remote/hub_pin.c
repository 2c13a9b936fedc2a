/* SPDX-License-Identifier: Apache-2.0 */
/* hub_pin.c - see hub_pin.h */
#include "controller/remote/hub_pin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "agent/os/hub_query.h"
#include "controller/remote/remote.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"
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
        json_array_append_new(notes, json_text_f("%s: not checked on this machine: %s", name->key, text));
    else if (here)
        json_array_append_new(notes, json_text_f("%s: %s", name->key, text));
    else
        json_array_append_new(notes, json_text_f("%s: %s is downloaded on each host that does not have it", name->key,
                                                 field_text(row, "pinned")));
}

/* Is it a mistake? */
static bool is_wrong(const json_t *row, bool here, bool plan)
{
    const char *state = field_text(row, "state");
    return strcmp(state, "refused") == 0 || (strcmp(state, "absent") == 0 && here && !plan);
}

static void pin(const struct hub_spec_name *name, const json_t *row, bool here, json_t *notes)
{
    const char *pinned = field_text(row, "pinned");
    note(name, row, here, notes);
    if (pinned[0])
        json_object_set_new(name->map, name->last, json_text(pinned));
}

static bool is_secret(const json_t *spec, const char *name)
{
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(spec, "secrets"), i, row)
        if (json_is_string(row) && strcmp(json_string_value(row), name) == 0)
            return true;
    return false;
}

/* SSH hosts have an environment of their own (agent/core/submit_env.h): a hub here may not be the hub there. */
static void note_environment(const json_t *spec, json_t *notes)
{
    static const char *const names[] = {"HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && value[0] && !json_object_get(json_object_get(spec, "env"), names[i]) && !is_secret(spec, names[i]))
            json_array_append_new(notes, json_text_f("%s is set here but not on the hosts, which have their own "
                                                     "environment: list it in %s", names[i],
                                                     strcmp(names[i], "HF_TOKEN") == 0 ? "secrets" : "env"));
    }
}

bool hub_pin(json_t *spec, const json_t *environment, bool plan, json_t *notes, hub_pin_refuse *refuse, void *arg)
{
    struct hub_spec_name name[HUB_SPEC_NAMES];
    struct err err = {.code = ERR_NONE};
    const bool here = remote_of_spec(spec) == &remote_local;
    const int n = hub_spec_names(name, spec);
    bool lacking = false;
    json_t *answer = n > 0 ? hub_query(spec, environment, &err) : NULL;
    for (int i = 0; i < n; i++) {
        const json_t *row = row_of(answer, name[i].key);
        lacking |= row && here && strcmp(field_text(row, "state"), "there") != 0;
        if (row && is_wrong(row, here, plan))
            refuse(arg, name[i].key, field_text(row, "text"));
        else if (row)
            pin(&name[i], row, here, notes);
        else
            json_array_append_new(notes, json_text_f("%s: not checked: %s", name[i].key, err.text));
    }
    if (n > 0 && remote_of_spec(spec) == &remote_ssh)
        note_environment(spec, notes);
    json_decref(answer);
    return lacking;
}

static bool decides(const char *name)
{
    static const char *const names[] = {"TRANSFORMERS_OFFLINE", "XDG_CACHE_HOME", "SSL_CERT_FILE", "CURL_CA_BUNDLE",
                                        "HOME"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "HF_", 3) == 0 || strncmp(name, "HUGGING", 7) == 0 ||
           (n > 6 && strcasecmp(name + n - 6, "_proxy") == 0);
}

/* Those of ours, empty: they are not the submitter's. */
static json_t *without_ours(void)
{
    json_t *out = json_object();
    for (char *const *at = environ; *at; at++) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*at, "="), *at);
        if (decides(name) && strcmp(name, "HOME") != 0)
            json_object_set_new(out, name, json_text(""));
    }
    return out;
}

json_t *hub_pin_environment(const json_t *environment, const json_t *secrets)
{
    json_t *out = json_is_object(environment) ? without_ours() : json_object();
    const json_t *const both[] = {environment, secrets};
    const char *name;
    json_t *value;
    for (int i = 0; i < 2; i++)
        json_object_foreach ((json_t *)(uintptr_t)both[i], name, value)
            if (decides(name))
                json_object_set(out, name, value);
    return out;
}
