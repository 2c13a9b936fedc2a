/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_jobspec.c - a job spec that anybody may have written
 *
 * Lines "# set: a.b=c" at the top are passed as overrides, as in tests/specs,
 * which is half of the corpus.  What is refused has a sentence and a place in
 * the text; what is accepted becomes the same JSON each time, with every path
 * absolute, and the engine can read it.
 */
#include <string.h>

#include "controller/jobspec.h"
#include "engine/err.h"
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

static void check_refused(const char *text, const struct spec_error *where, const struct err *err)
{
    PROMISE(err->code == ERR_USAGE && err->text[0]);
    json_t *sentence = json_string(err->text); /* it travels as JSON: it must be UTF-8 */
    PROMISE(sentence);
    json_decref(sentence);
    for (const char *p = err->text; *p; p++)   /* and one line on a terminal */
        PROMISE((unsigned char)*p >= 0x20 && *p != 0x7f);
    PROMISE(where->line >= 0 && where->line <= lines_of(text) + 1);
    PROMISE(where->line ? where->column >= 1 : where->column == 0);
    PROMISE((size_t)where->column <= strlen(text) + 1);
}

static void check_accepted(const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "name"));
    const char *workdir = json_string_value(json_object_get(spec, "workdir"));
    PROMISE(name && name[0] && strlen(name) <= JOB_NAME_MAX && !strpbrk(name, "/ \n"));
    PROMISE(workdir && workdir[0] == '/');
    PROMISE(json_is_null(json_object_get(spec, "run")) !=
            json_is_null(json_object_get(spec, "train")));
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
    struct spec_error where, where2;
    struct err err = {0}, err2 = {0};
    const char *const *sets = (const char *const *)set;
    int r = jobspec_parse(&spec, text, "spec.yaml", "/", sets, nset, &where, &err);
    int r2 = jobspec_parse(&again, text, "spec.yaml", "/", sets, nset, &where2, &err2);
    PROMISE(r == r2 && (r == 0 ? spec && json_equal(spec, again) : !spec && !again));
    if (r == 0)
        check_accepted(spec);
    else
        check_refused(text, &where, &err);
    json_decref(spec);
    json_decref(again);
    for (int i = 0; i < nset; i++)
        free(set[i]);
    free(text);
    return 0;
}
