/* SPDX-License-Identifier: Apache-2.0 */
/* edit_text.c - see edit_text.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/submit/edit_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/redact.h"
#include "engine/base/json_text.h"

enum { KEY_BYTES = 256 };

static const char TITLE[] = "# Overrides given at submission; they replace keys in the text below. Change or remove "
                            "them here:\n";
static const char LINE[] = "# --set ", END[] = "#\n";

/* As it stands behind LINE; for free(). */
static char *line_of(const char *one)
{
    json_t *text = strchr(one, '\n') || one[0] == '"' ? json_text(one) : NULL;
    char *line = text ? json_dumps(text, JSON_ENCODE_ANY) : strdup(one);
    json_decref(text);
    return line;
}

/* `text` with a line more; takes it. */
static json_t *add_line(json_t *text, const char *one)
{
    char *line = line_of(one);
    json_t *out = line ? json_text_f("%s%s%s\n", json_string_value(text), LINE, line) : NULL;
    json_decref(text);
    free(line);
    return out;
}

char *edit_text_make(const char *yaml, const json_t *set)
{
    const size_t n = json_array_size(set);
    json_t *head = json_text(n > 0 ? TITLE : "");
    for (size_t i = 0; i < n && head; i++)
        head = add_line(head, json_string_value(json_array_get(set, i)));
    json_t *text = head ? json_text_f("%s%s%s", json_string_value(head), n > 0 ? END : "", yaml) : NULL;
    char *out = text ? strdup(json_string_value(text)) : NULL;
    json_decref(head);
    json_decref(text);
    return out;
}

static json_t *override_of(const char *line, size_t size)
{
    json_t *quoted = line[0] == '"' ? json_loadb(line, size, JSON_DECODE_ANY, NULL) : NULL;
    return json_is_string(quoted) ? quoted : json_text_n(line, size);
}

const char *edit_text_split(json_t **set, const char *text)
{
    *set = json_array();
    if (strncmp(text, TITLE, sizeof(TITLE) - 1) != 0)
        return text;
    text += sizeof(TITLE) - 1;
    while (strncmp(text, LINE, sizeof(LINE) - 1) == 0) {
        text += sizeof(LINE) - 1;
        const size_t size = strcspn(text, "\n");
        json_array_append_new(*set, override_of(text, size));
        text += size + (text[size] != '\0');
    }
    return strncmp(text, END, sizeof(END) - 1) == 0 ? text + sizeof(END) - 1 : text;
}

static bool same_key(const char *a, const char *b)
{
    const size_t n = strcspn(a, "=");
    return n == strcspn(b, "=") && strncmp(a, b, n) == 0;
}

/* One more, or in place of that of its key. */
static int put(json_t *set, const char *one)
{
    size_t i;
    json_t *old;
    json_array_foreach (set, i, old)
        if (same_key(json_string_value(old), one))
            return json_array_set_new(set, i, json_string(one));
    return json_array_append_new(set, json_string(one));
}

json_t *edit_text_merge(const json_t *set, const char *const *more, int n)
{
    json_t *out = set ? json_copy((json_t *)(uintptr_t)set) : json_array();
    for (int i = 0; i < n; i++)
        if (put(out, more[i]) < 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}

/* KEY=VALUE of the value at KEY, or NULL. */
static json_t *told_again(const char *one, const json_t *stored)
{
    const char *equals = strchr(one, '=');
    const json_t *at = equals ? stored : NULL;
    for (const char *p = one; at && p < equals;) {
        const size_t n = strcspn(p, ".=");
        char key[KEY_BYTES];
        at = snprintf(key, sizeof(key), "%.*s", (int)n, p) < KEY_BYTES ? json_object_get(at, key) : NULL;
        p += n + 1;
    }
    char *value = at ? json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    json_t *out = value ? json_text_f("%.*s=%s", (int)(equals - one), one, value) : NULL;
    free(value);
    return out;
}

json_t *edit_text_overrides(const json_t *set, const json_t *stored)
{
    json_t *out = json_array(), *one;
    size_t i;
    json_array_foreach ((json_t *)(uintptr_t)set, i, one) {
        const char *text = json_string_value(one);
        json_t *again = strstr(text, REDACTED) ? told_again(text, stored) : json_incref(one);
        if (again)
            json_array_append_new(out, again);
    }
    return out;
}
