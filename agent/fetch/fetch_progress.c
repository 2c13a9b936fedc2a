/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_progress.c - see fetch_progress.h */
#include "agent/fetch/fetch_progress.h"

#include <stdio.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/contract/progress.h"
#include "engine/base/text_append.h"

enum { TERMINAL_MS = 200, LOG_MS = 10000, PARTS = 20 };

const char *fetch_progress_size(char out[FETCH_SIZE], int64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int unit = 0;
    for (; v >= 999.95 && unit < 4; unit++)
        v /= 1000;
    snprintf(out, FETCH_SIZE, unit ? "%.1f %s" : "%.0f %s", v, units[unit]);
    return out;
}

static void say(const struct fetch_progress *p, char text[200])
{
    char a[FETCH_SIZE], b[FETCH_SIZE], c[FETCH_SIZE];
    const double s = 1e-3 * (double)(clock_ms() - p->began_ms), got = (double)(p->done - p->at_first);
    const double speed = s > 0 ? got / s : 0;
    text[0] = '\0';
    text_append(text, 200, "%s of %s", fetch_progress_size(a, p->done), fetch_progress_size(b, p->bytes));
    if (p->files > 1)
        text_append(text, 200, ", file %d of %d", p->file, p->files);
    if (speed > 0 && s > 0.5)
        text_append(text, 200, ", %s/s", fetch_progress_size(c, (int64_t)speed));
    if (speed > 0 && s > 2 && p->done < p->bytes)
        text_append(text, 200, ", %.0f s left", (double)(p->bytes - p->done) / speed);
}

static void tell_agent(struct fetch_progress *p, const char *text, int64_t now)
{
    const int part = p->bytes > 0 ? (int)(p->done * PARTS / p->bytes) : PARTS;
    if (!p->agent || part == p->told_part || (part < PARTS && now - p->told_ms < 1000 && p->told_part >= 0))
        return;
    p->told_part = part;
    progress_fetch(p->agent, text);
}

static void tell(struct fetch_progress *p, bool last)
{
    char text[200];
    const int64_t now = clock_ms();
    if (!last && now - p->told_ms < TERMINAL_MS)
        return;
    say(p, text);
    tell_agent(p, text, now);
    if (p->terminal) {
        fprintf(stderr, "\r\033[K%s%s", text, last ? "\n" : "");
        p->open = !last;
    } else if (last || now - p->told_ms >= LOG_MS) {
        fprintf(stderr, "%s\n", text);
    } else {
        return;
    }
    p->told_ms = now;
}

void fetch_progress_begin(struct fetch_progress *p, struct progress *agent, int files, int64_t bytes)
{
    const int64_t now = clock_ms();
    *p = (struct fetch_progress){.agent = agent, .terminal = isatty(2) == 1, .files = files, .bytes = bytes,
                                 .began_ms = now, .told_ms = now - TERMINAL_MS, .told_part = -1};
}

void fetch_progress_add(struct fetch_progress *p, int64_t n)
{
    p->done += n;
    tell(p, false);
}

void fetch_progress_had(struct fetch_progress *p, int64_t n)
{
    p->done += n;
    p->at_first += n;
}

void fetch_progress_end(struct fetch_progress *p)
{
    if (p->files > 0)
        tell(p, true);
}
