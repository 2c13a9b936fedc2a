/* SPDX-License-Identifier: Apache-2.0 */
/* notify_names.c - see notify_names.h */
#include "controller/spec/notify_names.h"

#include "controller/spec/config.h"
#include "controller/spec/notify_target.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

static int no_target(const char *name, const json_t *targets, struct err *err)
{
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *known = field_text(json_array_get(targets, i), "name");
        if (spec_distance(known, name) <= 2)
            return err_set(err, ERR_USAGE, "notify.to: unknown target \"%.60s\"; did you mean %.64s?", name, known);
    }
    return err_set(err, ERR_USAGE, "notify.to: unknown target \"%.60s\"; define it in config.yaml, such as notify: "
                   "{%.60s: {webhook: \"${SLACK_URL}\"}}", name, name);
}

int notify_names_check(const json_t *to, struct err *err)
{
    struct config config = { .groups = NULL };
    int rc = json_array_size(to) > 0 ? config_load(&config, err) : 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(to); i++) {
        const char *name = json_string_value(json_array_get(to, i));
        if (!notify_target_find(config.notify, name))
            rc = no_target(name, config.notify, err);
    }
    config_fini(&config);
    return rc;
}
