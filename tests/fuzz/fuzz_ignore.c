/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ignore.c - somebody else's .gitignore: the first line is a path, the rest are rules
 *
 * A rule for another directory, and one without effect, change nothing.
 */
#include <string.h>

#include "controller/code/ignore.h"
#include "tests/fuzz/target.h"

#define ELSEWHERE "elsewhere"

enum { MOST = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[MOST + 1];
    if (size > MOST || memchr(data, 0, size))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *rules = strchr(text, '\n');
    if (!rules || strncmp(text, ELSEWHERE, strlen(ELSEWHERE)) == 0 || rules == text || strlen(text) > 1024 ||
        text[0] == '/')
        return 0;
    *rules++ = '\0';
    struct ignore *g = ignore_create();
    PROMISE(g && ignore_add(g, "", rules) == 0);
    const bool directory = ignore_has(g, text, true);
    ignore_has(g, text, false);
    PROMISE(ignore_add(g, ELSEWHERE, "*\n") == 0 && ignore_has(g, text, true) == directory);
    PROMISE(ignore_add(g, "", "!*\n!**\n# *\n\n") == 0 && !ignore_has(g, text, true));
    ignore_destroy(g);
    return 0;
}
