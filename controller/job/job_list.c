/* SPDX-License-Identifier: Apache-2.0 */
/* job_list.c - see job_list.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/job/job_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/contract/field.h"

/* In the order of a list; the bits of job_list_words. */
static const char *const names[] = {"running", "recovering", "stopping", "starting", "pending", "held",
                                    "succeeded", "failed", "cancelled"};
enum { WORDS = sizeof(names) / sizeof(names[0]), PENDING = 4, HELD };

/* Words for several. */
static const struct {
    const char    *name;
    job_list_words words;
} groups[] = {{"active", JOB_LIST_ACTIVE}, {"done", JOB_LIST_DONE}};

static int word_of(const json_t *row)
{
    const char *result = field_text(row, "result"), *state = field_text(row, "state");
    const bool held = json_is_true(json_object_get(row, "held")) && strcmp(state, "pending") == 0;
    const char *word = result[0] ? result : held ? "held" : state;
    for (int i = 0; i < WORDS; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return WORDS;
}

static job_list_words find(const char *name)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (strcmp(groups[i].name, name) == 0)
            return groups[i].words;
    for (int i = 0; i < WORDS; i++)
        if (strcmp(names[i], name) == 0)
            return 1u << i;
    return 0;
}

int job_list_parse(job_list_words *words, const char *text, struct err *err)
{
    *words = 0;
    for (const char *p = text; p; p = strchr(p, ',')) {
        char name[64];
        p += *p == ',';
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(p, ","), p);
        const job_list_words found = find(name);
        if (!found)
            return err_set(err, ERR_USAGE, "unknown state \"%.40s\"; states: running, recovering, stopping, starting, "
                           "pending, held, succeeded, failed, cancelled, or active, done", name);
        *words |= found;
    }
    return 0;
}

bool job_list_has(job_list_words words, const json_t *row)
{
    const int word = word_of(row);
    return word < WORDS && (words >> word & 1u);
}

static json_int_t number(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

/* Done jobs are not told apart. */
static int rank_of(const json_t *row)
{
    const int word = word_of(row);
    return word > HELD ? WORDS : word;
}

static int compare(const void *pa, const void *pb)
{
    const json_t *a = *(json_t *const *)pa, *b = *(json_t *const *)pb;
    const int ra = rank_of(a), rb = rank_of(b);
    const json_int_t first = number(a, "priority"), second = number(b, "priority");
    const json_int_t later = number(a, "id") - number(b, "id");
    if (ra != rb)
        return ra < rb ? -1 : 1;
    if (ra == PENDING && first != second)
        return first > second ? -1 : 1;
    return (later > 0) == (ra == PENDING) ? 1 : -1;
}

void job_list_sort(json_t *rows)
{
    const size_t count = json_array_size(rows);
    json_t **list = calloc(count + 1, sizeof(json_t *));
    if (!list)
        return; /* as it came: newest first */
    for (size_t i = 0; i < count; i++)
        list[i] = json_incref(json_array_get(rows, i));
    qsort(list, count, sizeof(json_t *), compare);
    for (size_t i = 0; i < count; i++)
        json_array_set_new(rows, i, list[i]);
    free(list);
}

void job_list_totals(char *out, size_t size, const json_t *rows)
{
    size_t count[WORDS + 1] = {0}, at = 0, i;
    const size_t total = json_array_size(rows);
    json_t *row;
    const char *before = ": ";
    json_array_foreach (rows, i, row)
        count[word_of(row)]++;
    out[0] = '\0';
    if (total > 0)
        at = (size_t)snprintf(out, size, "%zu job%s", total, total == 1 ? "" : "s");
    for (int w = 0; w < WORDS; w++)
        if (count[w] > 0 && at < size) {
            at += (size_t)snprintf(out + at, size - at, "%s%zu %s", before, count[w], names[w]);
            before = ", ";
        }
}
