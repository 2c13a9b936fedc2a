/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_status.c - jobctl status: list jobs with state, step, speed and goodput */
#include <ctype.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/job_select.h"
#include "controller/cli/output.h"
#include "controller/job/job_list.h"
#include "controller/job/job_view.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { STORE = 1600, LIMIT = 100, LIMIT_MOST = 10000, PAGE = 10000, REDRAW_MS = 1000 };

static const struct option_row options[] = {
    {"all", 'a', OPTION_FLAG, NULL, "include done jobs; the newest 100"},
    {"number", 'n', OPTION_COUNT, "N", "at most N jobs"},
    {"state", 's', OPTION_TEXT, "STATES", "only jobs in these states, such as running,failed; also done, active"},
    {"output", 'o', OPTION_TEXT, "FIELDS", "columns, such as id,name,status,loss,reason"},
    {"watch", 'w', OPTION_FLAG, NULL, "repaint every second until Ctrl-C"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};

struct list {
    json_t *jobs;           /* those that are shown */
    char    store[STORE];   /* what is wrong with the store, "" if nothing is */
    char    notify[600];    /* what keeps messages from being delivered */
    char    machine[1200];  /* what other users have of this machine */
    char    totals[200];    /* of all that match, of which --number may hide some */
    size_t  total;
};

static void list_fini(struct list *l)
{
    json_decref(l->jobs);
    l->jobs = NULL;
}

/* Which states are asked for: --state, else those of active jobs, or with --all all. */
static int wanted(struct call *call, job_list_words *words)
{
    const struct options *o = &call->options;
    const char *text = options_text(o, "state");
    *words = options_has(o, "all") || o->nargs > 0 ? JOB_LIST_ACTIVE | JOB_LIST_DONE : JOB_LIST_ACTIVE;
    return text ? job_list_parse(words, text, &call->err) : 0;
}

static void keep(json_t *to, const json_t *rows, job_list_words words)
{
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        if (job_list_has(words, row))
            json_array_append(to, row);
}

static bool is_table(const struct call *call)
{
    return !call->json && !options_has(&call->options, "quiet");
}

/* How many rows per request: what is shown, unless they are filtered here. */
static size_t page_size(job_list_words words, size_t most)
{
    return words == JOB_LIST_ACTIVE || words == (JOB_LIST_ACTIVE | JOB_LIST_DONE) ? most : PAGE;
}

static void take_troubles(struct list *l, const json_t *answer)
{
    snprintf(l->store, STORE, "%s", field_text(answer, "store"));
    snprintf(l->notify, sizeof(l->notify), "%s", field_text(answer, "notify"));
    snprintf(l->machine, sizeof(l->machine), "%s", field_text(answer, "machine"));
}

/* Of active jobs, which the daemon filters, sorts and counts. */
static int fetch_table(struct call *call, struct client *c, struct list *l, size_t most)
{
    const char *states = options_text(&call->options, "state");
    json_t *answer;
    if (client_get(c, &answer, &call->err, "/v1/jobs?states=%s&limit=%zu", states ? states : "active", most) < 0)
        return -1;
    json_array_extend(l->jobs, json_object_get(answer, "jobs"));
    job_list_totals_of(l->totals, sizeof(l->totals), json_object_get(answer, "counts"), &l->total);
    take_troubles(l, answer);
    json_decref(answer);
    return 0;
}

/* Page by page, newest first, until there are `most`; active jobs in one answer. */
static int fetch_pages(struct call *call, struct client *c, struct list *l, job_list_words words, size_t most)
{
    const bool done = words & JOB_LIST_DONE;
    const size_t size = page_size(words, most);
    long long before = 0;
    for (bool more = true; more;) {
        json_t *answer;
        if (client_get(c, &answer, &call->err, "/v1/jobs?all=%d&limit=%zu&before=%lld", done, size, before) < 0)
            return -1;
        const json_t *page = json_object_get(answer, "jobs");
        const size_t n = json_array_size(page);
        keep(l->jobs, page, words);
        before = json_integer_value(json_object_get(json_array_get(page, n - 1), "id"));
        take_troubles(l, answer);
        more = (done || words != JOB_LIST_ACTIVE) && n == size && json_array_size(l->jobs) < most;
        json_decref(answer);
    }
    if (is_table(call))
        job_list_sort(l->jobs);
    job_list_totals(l->totals, sizeof(l->totals), l->jobs);
    l->total = json_array_size(l->jobs);
    return 0;
}

/* Tables begin with what runs; ids and JSON are newest first. */
static void arrange(const struct call *call, struct list *l, size_t most)
{
    const size_t used = strlen(l->totals);
    if (l->total == most && options_has(&call->options, "all"))
        snprintf(l->totals + used, sizeof(l->totals) - used, "; older ones with -n");
    if (l->total > most)
        snprintf(l->totals + used, sizeof(l->totals) - used, "; %zu of them shown (-n)", most);
    for (size_t i = json_array_size(l->jobs); i > most; i--)
        json_array_remove(l->jobs, i - 1);
}

/* The jobs that were named; below a sweep, its members. */
static int add_named(struct call *call, struct client *c, struct list *l, const json_t *named, job_list_words words)
{
    const size_t most = (size_t)options_count(&call->options, "number", is_table(call) ? LIMIT : LIMIT_MOST);
    size_t i, k;
    json_t *row, *member;
    json_array_foreach (named, i, row) {
        size_t shown = 0;
        json_t *members = job_select_members(c, row, &call->err);
        if (!members)
            return -1;
        if (json_array_size(members) > 0 || job_list_has(words, row))
            json_array_append(l->jobs, row);
        json_array_foreach (members, k, member)
            if (job_list_has(words, member) && shown < most) {
                json_array_append(l->jobs, member);
                shown++;
            }
        json_decref(members);
    }
    return 0;
}

static int fetch(struct call *call, struct client *c, struct list *l)
{
    const struct options *o = &call->options;
    const long long limit = options_count(o, "number", LIMIT);
    job_list_words words;
    json_t *named;
    *l = (struct list){.jobs = NULL};
    if (limit < 1 || limit > LIMIT_MOST)
        return err_set(&call->err, ERR_USAGE, "--number must be from 1 to %d", LIMIT_MOST);
    if (wanted(call, &words) < 0)
        return -1;
    l->jobs = json_array();
    if (o->nargs == 0) {
        const bool table = is_table(call) && !(words & JOB_LIST_DONE);
        if ((table ? fetch_table(call, c, l, (size_t)limit) : fetch_pages(call, c, l, words, (size_t)limit)) < 0)
            return -1;
        arrange(call, l, (size_t)limit);
        return 0;
    }
    if (job_select(c, &named, o->nargs, o->args, &call->err) < 0)
        return -1;
    const int rc = add_named(call, c, l, named, words);
    json_decref(named);
    if (rc < 0)
        return -1;
    job_list_totals(l->totals, sizeof(l->totals), l->jobs);
    return 0;
}

/* Scripts read the table, with its heads alone, on stdout. */
static void print_none(const struct call *call)
{
    const struct options *o = &call->options;
    fprintf(call->out.tty ? call->out.file : stderr, options_has(o, "state") ? "No jobs are in these states.\n"
            : options_has(o, "all") ? "No jobs yet. Submit one: jobctl submit FILE\n"
                                    : "No active jobs. To include done jobs: jobctl status -a\n");
}

static int print(struct call *call, const struct list *l)
{
    size_t i;
    json_t *row;
    if (options_has(&call->options, "quiet")) {
        json_array_foreach (l->jobs, i, row)
            fprintf(call->out.file, "%lld\n", (long long)json_integer_value(json_object_get(row, "id")));
        return 0;
    }
    if (json_array_size(l->jobs) == 0)
        print_none(call);
    if (json_array_size(l->jobs) == 0 && call->out.tty)
        return 0;
    return job_view_table(&call->out, l->jobs, options_text(&call->options, "output"), &call->err);
}

/* Scripts read the table on stdout. */
static void print_totals(const struct call *call, const struct list *l)
{
    if (call->out.tty && json_array_size(l->jobs) > 1 && !options_has(&call->options, "quiet"))
        fprintf(call->out.file, "%s%s%s\n", terminal_style(&call->out, STYLE_DIM), l->totals,
                terminal_style(&call->out, STYLE_PLAIN));
    if (call->out.tty && l->machine[0] && !options_has(&call->options, "quiet"))
        fprintf(call->out.file, "%sOther users of this machine: %s\n%s", terminal_style(&call->out, STYLE_DIM),
                l->machine, terminal_style(&call->out, STYLE_PLAIN));
}

static void print_troubles(struct call *call, const struct list *l)
{
    if ((!l->store[0] && !l->notify[0]) || options_has(&call->options, "quiet"))
        return;
    FILE *f = call->out.tty ? call->out.file : stderr;
    fflush(call->out.file);
    char shown[STORE];
    if (l->store[0]) {
        terminal_fit(&call->out, shown, sizeof(shown), l->store, 0);
        fprintf(f, "%c%s\n", toupper((unsigned char)shown[0]), shown + 1);
    }
    if (l->notify[0]) {
        terminal_fit(&call->out, shown, sizeof(shown), l->notify, 0);
        fprintf(f, "Messages are not delivered to %s; to test it: jobctl notify test\n", shown);
    }
}

/* ---- --watch ---- */

/* Over the picture before, line by line, so that nothing flickers; what does not fit the window is left out. */
static void paint(FILE *f, const char *picture, int height)
{
    int lines = 0;
    fputs("\033[H", f);
    for (const char *p = picture; *p && (height <= 0 || lines < height - 1); lines++) {
        const int n = (int)strcspn(p, "\n");
        fprintf(f, "%.*s\033[K\n", n, p);
        p += n + (p[n] == '\n');
    }
    fputs("\033[J", f);
}

/* The picture is drawn in memory, with the totals on top: a long table is cut below. */
static int draw(struct call *call, const struct list *l)
{
    char *picture = NULL;
    size_t size;
    FILE *screen = call->out.file;
    if (!call->out.tty)
        return print(call, l);
    if (!(call->out.file = open_memstream(&picture, &size))) {
        call->out.file = screen;
        return err_set(&call->err, ERR_MEMORY, "out of memory for a table");
    }
    print_totals(call, l);
    const int rc = print(call, l);
    print_troubles(call, l);
    fclose(call->out.file);
    call->out.file = screen;
    if (rc == 0)
        paint(screen, picture, call->out.height);
    free(picture);
    return rc;
}

static int watch(struct call *call, struct client *c)
{
    const volatile int *stop = interrupt_catch();
    bool drawn = false;
    client_stop_when(c, stop);
    client_wait_for_far(c, -1, NULL, NULL);
    while (!*stop) {
        struct list l;
        int rc = fetch(call, c, &l);
        terminal_measure(&call->out);
        if (rc == 0 && call->out.tty && !drawn)
            fputs("\033[2J", call->out.file);
        drawn = true;
        if (rc == 0)
            rc = draw(call, &l);
        list_fini(&l);
        if (rc < 0)
            return *stop ? 0 : -1;
        if (output_closed(call))
            break;
        poll(NULL, 0, REDRAW_MS);
    }
    return 0;
}

static int show(struct call *call, struct client *c)
{
    struct list l;
    int rc = fetch(call, c, &l);
    if (rc == 0 && call->json) {
        output_json(call, json_make("{s:O, s:s, s:s, s:s}", "jobs", l.jobs, "store", l.store, "notify", l.notify, "machine",
                                    l.machine));
    } else if (rc == 0 && (rc = print(call, &l)) == 0) {
        print_totals(call, &l);
        print_troubles(call, &l);
    }
    list_fini(&l);
    return rc;
}

static int run(struct call *call)
{
    struct client *c;
    job_list_words words;
    if (options_has(&call->options, "watch") && call->json)
        return err_set(&call->err, ERR_USAGE, "--watch and --json cannot be combined: --json prints one value");
    if (wanted(call, &words) < 0 || client_open(&c, true, &call->err) < 0)
        return -1;
    const int rc = options_has(&call->options, "watch") ? watch(call, c) : show(call, c);
    client_close(c);
    return rc;
}

const struct command cmd_status = {
    .name = "status", .group = GROUP_WATCH, .aliases = "ls|queue", .args = ARGS_JOBS_OR_NONE,
    .summary = "list jobs with state, step, speed and goodput (productive share of time)",
    .help = "Without JOBS: all jobs that are not done, running ones first. JOBS are ids (7), ranges (3-5 or 3,5-8), "
            "names, or last. A sweep or an array has one row for all members; jobctl status 12 lists its members that "
            "have started, with their values, and 12_3 is the member with index 3.",
    .options = options, .run = run,
};
