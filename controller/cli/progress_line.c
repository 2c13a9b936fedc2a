/* SPDX-License-Identifier: Apache-2.0 */
/* progress_line.c - see progress_line.h */
#include "controller/cli/progress_line.h"

#include <stdio.h>
#include <string.h>

#include "controller/job/job_view.h"
#include "engine/base/field.h"

enum { BAR_LEAST = 8, BAR_MOST = 32, WIDTH_PLAIN = 100 };

/* `width`: minimum columns, so that the bar does not move when the number of digits changes. */
static void add(char *out, size_t size, const char *label, const json_t *row, const char *field, int width)
{
    char value[JOB_CELL];
    size_t at = strlen(out);
    job_view_field(value, sizeof(value), row, field);
    if (strcmp(value, "-") != 0 && at < size)
        snprintf(out + at, size - at, "%s%s%s%*s", at ? "  " : "", label, *label ? " " : "", width, value);
}

static void draw_bar(char *out, size_t size, int columns, double share, bool utf8)
{
    const char *full = utf8 ? "\xE2\x96\x88" : "#", *empty = utf8 ? "\xE2\x96\x91" : ".";
    int filled = (int)(share * columns);
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < columns && at + 4 < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s", i < filled ? full : empty);
}

/* All known fields, the least important last: a narrow terminal cuts them first. */
static void facts(char *out, size_t size, const json_t *row)
{
    out[0] = '\0';
    const bool runs = strcmp(field_text(row, "state"), "running") == 0;
    const bool steps = json_is_integer(json_object_get(row, "step"));
    if (!runs)
        add(out, size, "", row, "status", 0);
    else if (strcmp(field_text(row, "phase"), "init") == 0)
        add(out, size, "", row, "phase", 0);
    add(out, size, "", row, "progress", 0);
    add(out, size, "loss", row, "loss", 6);
    add(out, size, "", row, "speed", 6);
    add(out, size, "ETA", row, "eta_s", 6);
    if (steps)
        add(out, size, "goodput", row, "goodput", 4);
    if (runs && json_is_number(json_object_get(row, "still_s")))
        add(out, size, "", row, "reason", 0);
    if (!out[0])
        add(out, size, "running for", row, "elapsed", 0);
    if (!runs)
        add(out, size, "", row, "reason", 0);
    if (!out[0])
        add(out, size, "", row, "status", 0);
}

void progress_line_make(char *out, size_t size, const struct terminal *t, const json_t *row)
{
    char title[96], text[JOB_CELL + 200], bar[BAR_MOST * 3 + 8] = "", line[PROGRESS_LINE_SIZE];
    int width = t->width ? t->width - 1 : WIDTH_PLAIN;
    double steps = json_number_value(json_object_get(row, "steps"));
    double step = json_number_value(json_object_get(row, "step"));
    snprintf(title, sizeof(title), "job %lld", (long long)json_integer_value(json_object_get(row, "id")));
    facts(text, sizeof(text), row);
    int room = width - terminal_columns(title) - terminal_columns(text) - 4;
    if (t->tty && steps > 0 && room >= BAR_LEAST)
        draw_bar(bar, sizeof(bar), room > BAR_MOST ? BAR_MOST : room, step < steps ? step / steps : 1, t->utf8);
    snprintf(line, sizeof(line), "%s  %s%s%s", title, bar, bar[0] ? "  " : "", text);
    terminal_fit(t, out, size, line, width);
}
