/* SPDX-License-Identifier: Apache-2.0 */
/* printed_table.c - see printed_table.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_table.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "agent/printed/printed_number.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct { const char *head; enum printed_field field; } heads[] = {
    {"epoch", PRINTED_EPOCH}, {"e", PRINTED_EPOCH}, {"step", PRINTED_STEP}, {"iter", PRINTED_STEP}, {"#", PRINTED_STEP},
    {"train_loss", PRINTED_LOSS}, {"train loss", PRINTED_LOSS}, {"training loss", PRINTED_LOSS}, {"loss", PRINTED_LOSS},
    {"lr", PRINTED_LR}, {"learning_rate", PRINTED_LR},
};

/* The length of the cell at `p`: up to two blanks, a tab, '|' or the end. */
static size_t cell(const char *p)
{
    size_t n = 0;
    while (p[n] && p[n] != '\t' && p[n] != '|' && !(p[n] == ' ' && (p[n + 1] == ' ' || !p[n + 1])))
        n++;
    return n;
}

/* A head has no number: "loss 11.0" is a record. */
static bool has_number(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isdigit((unsigned char)p[i]) && (i == 0 || p[i - 1] == ' '))
            return true;
    return false;
}

static const char *next_cell(const char *p)
{
    return p + strspn(p, " \t|");
}

static int field_of(const char *p, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        if (strlen(heads[i].head) == n && strncasecmp(p, heads[i].head, n) == 0)
            return (int)heads[i].field;
    return -1;
}

bool printed_table_heads(struct printed_table *t, const char *line)
{
    struct printed_table found = {0};
    unsigned told = 0;
    for (const char *p = next_cell(line); *p && found.count < PRINTED_COLUMNS; p = next_cell(p)) {
        const size_t n = cell(p);
        if (memchr(p, ':', n) || memchr(p, '=', n) || has_number(p, n))
            return false;
        const int f = field_of(p, n);
        told |= f >= 0 ? 1u << f : 0;
        found.field[found.count++] = f;
        p += n;
    }
    if (found.count < 3 || !(told & (1u << PRINTED_EPOCH | 1u << PRINTED_STEP)))
        return false;
    *t = found;
    return true;
}

bool printed_table_row(const struct printed_table *t, const char *line, struct printed_progress *out)
{
    int column = 0;
    struct printed_progress row = {.rank = -1};
    for (const char *p = next_cell(line); *p; p = next_cell(p), column++) {
        double value;
        bool whole;
        const char *end = isdigit((unsigned char)*p) || *p == '-' ? printed_number_read(p, &value, &whole) : NULL;
        const int f = column < t->count ? t->field[column] : -1;
        if (!end && !(column && strncmp(p, "None", 4) == 0))
            return false;
        if (end && f >= 0 && !printed_progress_has(&row, (enum printed_field)f)) {
            row.told |= 1u << f;
            row.value[f] = value;
        }
        p += strcspn(p, " \t|");
    }
    if (!t->count || column != t->count)
        return false;
    *out = row;
    return true;
}
