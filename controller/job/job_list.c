/* SPDX-License-Identifier: Apache-2.0 */
/* job_list.c - see job_list.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/job/job_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/field.h"

/* In the order of a list; the bits of job_list_words. */
static const char *const names[] = {"running", "recovering", "stopping", "starting", "pending", "held",
                                    "succeeded", "failed", "cancelled"};
enum { WORDS = sizeof(names) / sizeof(names[0]), PENDING = 4, HELD };

/* Words for several. */
static const struct {
    const char    *name;
    job_list_words words;
} groups[] = {{"active", JOB_LIST_ACTIVE}, {"done", JOB_LIST_DONE}};

int job_list_word(const char *state, bool held, const char *result)
{
    const char *word = result[0] ? result : held && strcmp(state, "pending") == 0 ? "held" : state;
    for (int i = 0; i < WORDS; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return WORDS;
}

static int word_of(const json_t *row)
{
    return job_list_word(field_text(row, "state"), json_is_true(json_object_get(row, "held")),
                         field_text(row, "result"));
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

static int64_t number(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

/* Done jobs are not distinguished. */
static int rank_of(const struct job_list_item *item)
{
    return item->word > HELD ? WORDS : item->word;
}

static int compare(const void *pa, const void *pb)
{
    const struct job_list_item *a = pa, *b = pb;
    const int ra = rank_of(a), rb = rank_of(b);
    if (ra != rb)
        return ra < rb ? -1 : 1;
    if (ra == PENDING && a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    return (a->id > b->id) == (ra == PENDING) ? 1 : -1;
}

void job_list_order(struct job_list_item *items, size_t count)
{
    if (count > 1)
        qsort(items, count, sizeof(*items), compare);
}

void job_list_sort(json_t *rows)
{
    const size_t count = json_array_size(rows);
    struct job_list_item *items = calloc(count + 1, sizeof(*items));
    if (!items)
        return; /* unsorted: newest first */
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_array_get(rows, i);
        items[i] = (struct job_list_item){word_of(row), number(row, "priority"), number(row, "id"), json_incref(row)};
    }
    job_list_order(items, count);
    for (size_t i = 0; i < count; i++)
        json_array_set_new(rows, i, items[i].of);
    free(items);
}

json_t *job_list_count(const struct job_list_item *items, size_t count)
{
    json_int_t n[WORDS + 1] = {0};
    json_t *out = json_object();
    for (size_t i = 0; i < count; i++)
        n[items[i].word]++;
    for (int w = 0; w < WORDS; w++)
        if (n[w] > 0)
            json_object_set_new(out, names[w], json_integer(n[w]));
    return out;
}

static void write_totals(char *out, size_t size, const size_t count[WORDS], size_t total)
{
    size_t at = 0;
    const char *before = ": ";
    out[0] = '\0';
    if (total > 0)
        at = (size_t)snprintf(out, size, "%zu job%s", total, total == 1 ? "" : "s");
    for (int w = 0; w < WORDS; w++)
        if (count[w] > 0 && at < size) {
            at += (size_t)snprintf(out + at, size - at, "%s%zu %s", before, count[w], names[w]);
            before = ", ";
        }
}

void job_list_totals_of(char *out, size_t size, const json_t *counts, size_t *total)
{
    size_t count[WORDS];
    *total = 0;
    for (int w = 0; w < WORDS; w++)
        *total += count[w] = (size_t)json_integer_value(json_object_get(counts, names[w]));
    write_totals(out, size, count, *total);
}

void job_list_totals(char *out, size_t size, const json_t *rows)
{
    size_t count[WORDS + 1] = {0}, i;
    json_t *row;
    json_array_foreach (rows, i, row)
        count[word_of(row)]++;
    write_totals(out, size, count, json_array_size(rows));
}
