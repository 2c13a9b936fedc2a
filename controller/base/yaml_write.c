/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_write.c - see yaml_write.h */
#include "controller/base/yaml_write.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "controller/base/yaml.h"
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

static bool emit_node(yaml_emitter_t *out, const struct yaml_node *node)
{
    yaml_event_t event;
    const bool map = node->kind == YAML_MAP;
    if (node->kind == YAML_SCALAR)
        return emit_text(out, node->text, node->plain);
    if (!emit(out, &event, map ? yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE)
                               : yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_FLOW_SEQUENCE_STYLE)))
        return false;
    for (const struct yaml_node *n = node->first; n; n = n->next)
        if ((map && !emit_text(out, n->key, true)) || !emit_node(out, n))
            return false;
    return emit(out, &event, map ? yaml_mapping_end_event_initialize(&event)
                                 : yaml_sequence_end_event_initialize(&event));
}

static bool emit_all(yaml_emitter_t *out, const struct yaml_node *root)
{
    yaml_event_t event;
    return emit(out, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)) &&
           emit(out, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)) &&
           emit_node(out, root) && emit(out, &event, yaml_document_end_event_initialize(&event, 1)) &&
           emit(out, &event, yaml_stream_end_event_initialize(&event));
}

int yaml_write(char **text, const struct yaml_node *root, struct err *err)
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
