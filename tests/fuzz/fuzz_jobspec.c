/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_jobspec.c - a job spec that anybody may have written
 *
 * Lines "# set: a.b=c" at the top are passed as overrides, as in tests/specs,
 * which is half of the corpus.  What is refused has sentences and places in
 * the text; what is accepted becomes the same JSON each time, with every path
 * absolute, and the engine can read it.
 */
#include <string.h>

#include "controller/base/diagnostics.h"
#include "controller/spec/jobspec.h"
#include "engine/base/err.h"
#include "tests/fuzz/target.h"

enum { SETS = 8 };

static int read_sets(const char *text, char **set)
{
    int n = 0;
    while (strncmp(text, "# set: ", 7) == 0 && n < SETS) {
        size_t len = strcspn(text + 7, "\n");
        set[n] = strndup(text + 7, len);
        PROMISE(set[n]);
        n++;
        text += 7 + len + (text[7 + len] == '\n');
    }
    return n;
}

static int lines_of(const char *text)
{
    int n = 1;
    for (; *text; text++)
        n += *text == '\n' || *text == '\r' || (unsigned char)*text >= 0x80; /* NEL, LS, PS */
    return n;
}

static void check_finding(const char *text, const struct finding *one)
{
    const struct err *err = &one->err;
    PROMISE(err->code == ERR_USAGE && err->text[0]);
    json_t *sentence = json_string(err->text); /* it travels as JSON: it must be UTF-8 */
    PROMISE(sentence);
    json_decref(sentence);
    for (const char *p = err->text; *p; p++)   /* and one line on a terminal */
        PROMISE((unsigned char)*p >= 0x20 && *p != 0x7f);
    PROMISE(one->line >= 0 && one->line <= lines_of(text) + 1);
    PROMISE(one->line ? one->column >= 1 : one->column == 0);
    PROMISE((size_t)one->column <= strlen(text) + 1);
}

/* Each mistake has a sentence and a place, the places are in order, and an answer carries them all. */
static void check_refused(const char *text, const struct diagnostics *found)
{
    struct diagnostics again;
    PROMISE(found->count > 0 && found->count <= DIAGNOSTICS_MAX && found->more >= 0);
    PROMISE(found->more == 0 || found->count == DIAGNOSTICS_MAX);
    for (int i = 0; i < found->count; i++) {
        const struct finding *one = &found->list[i];
        check_finding(text, one);
        if (i > 0 && one->line)
            PROMISE(one[-1].line && one[-1].line <= one->line);
    }
    json_t *answer = diagnostics_to_json(found, "spec.yaml");
    diagnostics_from_json(&again, answer);
    json_decref(answer);
    PROMISE(again.count == found->count && again.more == found->more);
}

static void check_accepted(const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "name"));
    const char *workdir = json_string_value(json_object_get(spec, "workdir"));
    PROMISE(name && name[0] && strlen(name) <= JOB_NAME_MAX && !strpbrk(name, "/ \n"));
    PROMISE(workdir && workdir[0] == '/');
    PROMISE(json_is_null(json_object_get(spec, "run")) != json_is_null(json_object_get(spec, "train")));
    char *text = json_dumps(spec, JSON_COMPACT);
    PROMISE(text);
    json_t *again = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    PROMISE(again && json_equal(spec, again));
    json_decref(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *set[SETS];
    PROMISE(text);
    memcpy(text, data, size);
    text[size] = '\0';
    int nset = read_sets(text, set);

    json_t *spec, *again;
    struct diagnostics found, found2;
    struct err err = {0}, err2 = {0};
    const char *const *sets = (const char *const *)set;
    int r = jobspec_parse(&spec, text, "spec.yaml", "/", sets, nset, &found, &err);
    int r2 = jobspec_parse(&again, text, "spec.yaml", "/", sets, nset, &found2, &err2);
    PROMISE(r == r2 && (r == 0 ? spec && json_equal(spec, again) : !spec && !again));
    if (r == 0)
        check_accepted(spec);
    else
        check_refused(text, &found);
    json_decref(spec);
    json_decref(again);
    for (int i = 0; i < nset; i++)
        free(set[i]);
    free(text);
    return 0;
}
