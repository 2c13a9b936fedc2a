/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_write.c - see yaml_write.h */
#include "controller/base/yaml_write.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "engine/base/err.h"

enum { WIDTH = 120 };

static bool emit(yaml_emitter_t *out, yaml_event_t *event, int made)
{
    return made && yaml_emitter_emit(out, event);
}

static bool emit_text(yaml_emitter_t *out, const char *text, bool plain)
{
    yaml_event_t event;
    const yaml_scalar_style_t style = strchr(text, '\n') ? YAML_LITERAL_SCALAR_STYLE
                                      : plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    return emit(out, &event, yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                                          (int)strlen(text), plain, !plain, style));
}

static bool emit_map(yaml_emitter_t *out, const json_t *map);

static bool emit_value(yaml_emitter_t *out, const json_t *v)
{
    yaml_event_t event;
    char number[40];
    size_t i;
    json_t *one;
    if (json_is_object(v))
        return emit_map(out, v);
    if (json_is_string(v))
        return emit_text(out, json_string_value(v), false);
    if (json_is_array(v)) {
        bool ok = emit(out, &event, yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                                         YAML_FLOW_SEQUENCE_STYLE));
        json_array_foreach ((json_t *)(uintptr_t)v, i, one)
            ok = ok && emit_value(out, one);
        return ok && emit(out, &event, yaml_sequence_end_event_initialize(&event));
    }
    if (json_is_integer(v))
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(number, sizeof(number), "%.17g", json_real_value(v));
    else
        snprintf(number, sizeof(number), "%s", json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
    return emit_text(out, number, true);
}

static bool emit_map(yaml_emitter_t *out, const json_t *map)
{
    yaml_event_t event;
    const char *key;
    json_t *v;
    bool ok = emit(out, &event, yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
    json_object_foreach ((json_t *)(uintptr_t)map, key, v)
        ok = ok && emit_text(out, key, true) && emit_value(out, v);
    return ok && emit(out, &event, yaml_mapping_end_event_initialize(&event));
}

static bool emit_all(yaml_emitter_t *out, const json_t *root)
{
    yaml_event_t event;
    return emit(out, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)) &&
           emit(out, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)) &&
           emit_value(out, root) && emit(out, &event, yaml_document_end_event_initialize(&event, 1)) &&
           emit(out, &event, yaml_stream_end_event_initialize(&event));
}

int yaml_write(char **text, const json_t *root, struct err *err)
{
    yaml_emitter_t out;
    size_t size = 0;
    *text = NULL;
    FILE *f = open_memstream(text, &size);
    bool done = false;
    if (f && yaml_emitter_initialize(&out)) {
        yaml_emitter_set_output_file(&out, f);
        yaml_emitter_set_unicode(&out, 1);
        yaml_emitter_set_width(&out, WIDTH);
        done = emit_all(&out, root);
        yaml_emitter_delete(&out);
    }
    if (f)
        done = fclose(f) == 0 && done;
    if (done)
        return 0;
    free(*text);
    *text = NULL;
    return err_set(err, ERR_MEMORY, "out of memory for the text of a spec");
}
