/* SPDX-License-Identifier: Apache-2.0 */
/* far_answer.c - see far_answer.h */
#include "controller/base/far_answer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a control character at text[0], of n; 0: none begins there. Those from U+0080 on are C2 80 to C2 9F. */
static size_t control(const unsigned char *text, size_t n)
{
    if ((text[0] < 0x20 && text[0] != '\n' && text[0] != '\t') || text[0] == 0x7f)
        return 1;
    return n > 1 && text[0] == 0xc2 && text[1] < 0xa0 ? 2 : 0;
}

static bool has_control(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (control((const unsigned char *)text + i, n - i))
            return true;
    return false;
}

static void clean_text(json_t *value)
{
    const char *text = json_string_value(value);
    const size_t n = json_string_length(value);
    if (!has_control(text, n))
        return;
    char *out = malloc(n);
    size_t at = 0;
    for (size_t i = 0; out && i < n;) {
        const size_t bad = control((const unsigned char *)text + i, n - i);
        out[at++] = bad ? '?' : text[i];
        i += bad ? bad : 1;
    }
    json_string_setn(value, out ? out : "", at);
    free(out);
}

static bool stays(const char *key)
{
    return strcmp(key, "data") == 0 || strcmp(key, "spec") == 0;
}

void far_answer_clean(json_t *answer)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_string(answer))
        clean_text(answer);
    json_array_foreach (answer, i, value)
        far_answer_clean(value);
    json_object_foreach (answer, key, value)
        if (!stays(key))
            far_answer_clean(value);
}
