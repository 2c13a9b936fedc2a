/* SPDX-License-Identifier: Apache-2.0 */
/* traceback_choice.c - see traceback_choice.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/traceback_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/printed/printed_progress.h"
#include "agent/printed/printed_table.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Exceptions of those who start or stop others. */
static const char *const weak[] = {"ChildFailedError", "CalledProcessError", "SystemExit", "KeyboardInterrupt",
                                   "SignalException", "ProcessExitedException", "BrokenProcessPool", "CancelledError"};

static bool is_weak(const struct traceback *t)
{
    for (size_t i = 0; i < ARRAY_LEN(weak); i++)
        if (traceback_is(t, weak[i]))
            return true;
    return strstr(t->text, "DataLoader worker (pid") && strstr(t->text, "exited unexpectedly");
}

/* The launchers whose output has the tracebacks of several programs. */
static bool has_launcher(const char *text)
{
    return strstr(text, "ChildFailedError") || strstr(text, "mpirun") || strstr(text, "MPI_ABORT") ||
           strstr(text, "srun: error:") || strstr(text, "exits with return code") ||
           strstr(text, "failed (exitcode:");
}

/* The rank that torchrun saw fail first, or -1. */
static int first_rank(const char *text)
{
    const char *at = strstr(text, "Root Cause (first observed failure)");
    at = at ? strstr(at, "\n  rank ") : NULL;
    at = at ? strchr(at, ':') : NULL;
    return at ? atoi(at + 1) : -1;
}

static bool is_of_rank(const struct traceback *t, int rank)
{
    char a[32], b[32];
    snprintf(a, sizeof(a), "[rank%d]", rank);
    snprintf(b, sizeof(b), "[default%d]", rank);
    return rank >= 0 && (strstr(t->prefix, a) || strstr(t->prefix, b));
}

/* It went on training after that. */
static bool goes_on(const char *text)
{
    struct text_line line;
    struct printed_table table = {0};
    struct printed_progress p;
    char copy[1024];
    while (text_line_next(&text, &line)) {
        snprintf(copy, sizeof(copy), "%.*s", (int)line.n, line.at);
        printed_progress_line(&p, copy, &table);
        if (printed_progress_has(&p, PRINTED_STEP) && printed_progress_has(&p, PRINTED_LOSS))
            return true;
    }
    return false;
}

/* chain[i]: the first traceback of the chain of i. */
static void build(int *chain, const struct traceback *all, int n)
{
    for (int i = 0; i < n; i++) {
        chain[i] = i;
        for (int j = i - 1; j >= 0 && chain[i] == i && all[i].link != TRACEBACK_ALONE; j--)
            if (all[i].link == TRACEBACK_MEMBER || strcmp(all[j].prefix, all[i].prefix) == 0)
                chain[i] = chain[j];
    }
}

static int end_of(const int *chain, int n, int first)
{
    int last = first;
    for (int i = first; i < n; i++)
        if (chain[i] == first)
            last = i;
    return last;
}

/* 0: best; 3: it does not count. */
static int rank_of(const struct traceback *last, bool launcher)
{
    if (!launcher && goes_on(last->end))
        return 3;
    return is_weak(last) ? 2 : last->aside ? 1 : 0;
}

/* The first traceback of the best chain, or -1. */
static int choose(const int *chain, const struct traceback *all, int n, const char *text)
{
    const bool launcher = has_launcher(text);
    const int rank = first_rank(text);
    int best = -1, best_rank = 3;
    bool is_first = false;
    for (int i = 0; i < n; i++) {
        if (chain[i] != i)
            continue;
        const int r = rank_of(&all[end_of(chain, n, i)], launcher);
        const bool of_first = launcher && is_of_rank(&all[i], rank);
        if (r < best_rank || (r == best_rank && r < 3 && (launcher ? of_first && !is_first : true))) {
            best = i;
            best_rank = r;
            is_first = of_first;
        }
    }
    return best;
}

void traceback_choice_make(struct traceback_choice *out, const struct traceback *all, int n, const char *text)
{
    int chain[TRACEBACKS];
    *out = (struct traceback_choice){0};
    build(chain, all, n);
    const int first = choose(chain, all, n, text);
    if (first < 0)
        return;
    const int last = end_of(chain, n, first);
    out->last = &all[last];
    out->root = &all[first];
    out->link = all[last].link;
    for (int i = first + 1; i <= last; i++)
        if (chain[i] == first && (all[i].link == TRACEBACK_ORIGINAL || all[i].link == TRACEBACK_MEMBER)) {
            out->last = &all[first]; /* these stand behind what they caused */
            out->root = &all[i];
            out->link = all[i].link;
            break;
        }
    out->weak = is_weak(out->last) && is_weak(out->root);
}
