/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_code_manifest.c - a snapshot's file list, as a host receives it from a controller
 *
 * What is accepted has paths that stay inside, in order, none below a file or a link of the list; its digest is that
 * of the same list read again.
 */
#include <jansson.h>
#include <string.h>

#include "agent/code/code_manifest.h"
#include "engine/base/err.h"
#include "tests/fuzz/target.h"

static void check_entry(const json_t *m, size_t i)
{
    const struct code_entry e = code_manifest_at(m, i);
    PROMISE(e.path && e.text && e.path[0] != '/' && code_path_ok(e.path));
    PROMISE(!strstr(e.path, "/../") && strncmp(e.path, "../", 3) != 0);
    PROMISE(e.bytes >= 0 && (e.kind != CODE_LINK || (e.text[0] != '/' && code_link_inside(e.path, e.text))));
    for (size_t k = 0; k < i; k++) {
        const char *above = code_manifest_at(m, k).path;
        const size_t n = strlen(above);
        PROMISE(strcmp(above, e.path) < 0);
        PROMISE(strncmp(above, e.path, n) != 0 || e.path[n] != '/');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {.code = ERR_NONE};
    char digest[CODE_DIGEST], again[CODE_DIGEST];
    json_t *m = json_loadb((const char *)data, size, 0, NULL);
    if (m && code_manifest_check(m, &err) == 0) {
        for (size_t i = 0; i < code_manifest_count(m) && i < 64; i++)
            check_entry(m, i);
        char *text = json_dumps(m, JSON_COMPACT);
        json_t *same = text ? json_loads(text, 0, NULL) : NULL;
        PROMISE(same && code_manifest_digest(digest, m, NULL) == 0 && code_manifest_digest(again, same, NULL) == 0);
        PROMISE(strcmp(digest, again) == 0 && code_digest_ok(digest));
        json_decref(same);
        free(text);
    } else if (m) {
        PROMISE(err.code == ERR_DATA && err.text[0]);
    }
    json_decref(m);
    return 0;
}
