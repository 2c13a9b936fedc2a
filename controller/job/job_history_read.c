/* SPDX-License-Identifier: Apache-2.0 */
/* job_history_read.c - reads all of a job's history, also around damaged lines; see job_history.h */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/job/job_dir.h"
#include "controller/job/job_history.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { YAML = 1 << 20 };

void job_history_fini(struct job_history *h)
{
    json_decref(h->head);
    json_decref(h->events);
    *h = (struct job_history){ .head = NULL };
}

/* ---- the first line ---- */

static bool is_head(const json_t *head, int64_t id)
{
    return field_int(head, "events_of", -1) == id && json_is_object(json_object_get(head, "spec"));
}

static char *read_yaml(const char *home, int64_t id)
{
    const int fd = job_dir_open_file(home, id, "spec.yaml", O_RDONLY, NULL);
    char *text = fd < 0 ? NULL : calloc(1, YAML);
    if (text && read(fd, text, YAML - 1) < 0)
        text[0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

/* From the two files beside it that say the same. */
static json_t *head_of_spec(const char *home, int64_t id)
{
    json_t *spec = job_dir_spec(home, id);
    char *text = spec ? read_yaml(home, id) : NULL;
    json_t *head = spec ? json_make("{s:I, s:s, s:o, s:O}", "events_of", (json_int_t)id, "origin",
                                    field_text(json_object_get(spec, "checkpoint"), "origin"), "yaml",
                                    json_text(text ? text : ""), "spec", spec) : NULL;
    free(text);
    json_decref(spec);
    return head;
}

static void read_head(struct job_history *h, FILE *f, const char *home, int64_t id)
{
    char *line = NULL;
    size_t room = 0;
    if (getline(&line, &room, f) > 0)
        h->head = json_loads(line, 0, NULL);
    free(line);
    if (is_head(h->head, id))
        return;
    json_decref(h->head);
    h->head = head_of_spec(home, id);
}

/* ---- the events ---- */

/* In the place of one that cannot be read. The first one is always that of the submit. */
static json_t *stand_in(int64_t seq, const json_t *near)
{
    return json_make("{s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:{s:s}}", "seq", (json_int_t)seq, "at_ms",
                     (json_int_t)field_int(near, "at_ms", 0), "source", "controller", "kind",
                     seq == 1 ? "submitted" : "damaged", "attempt", (json_int_t)0, "incarnation", (json_int_t)0,
                     "agent_seq", (json_int_t)-1, "body", "text", "this event was damaged in " JOB_HISTORY);
}

static bool is_event(const json_t *event)
{
    return field_int(event, "seq", 0) > 0 && field_text(event, "kind")[0] && json_is_object(json_object_get(event, "body"));
}

/* Takes a line, after `bad` ones that were not taken: each was an event, or two that a lost end of line has joined, or
 * nothing that the daemon wrote. */
static bool take(struct job_history *h, json_t *event, int64_t bad)
{
    const int64_t seq = field_int(event, "seq", 0), have = (int64_t)json_array_size(h->events);
    if (!is_event(event) || seq <= have || seq > have + 1 + 2 * bad)
        return false;
    if (seq > have + 1 && !h->damaged)
        h->whole = (size_t)have;
    h->damaged |= seq > have + 1;
    for (int64_t lost = have + 1; lost < seq; lost++)
        json_array_append_new(h->events, stand_in(lost, event));
    return json_array_append(h->events, event) == 0;
}

static void read_events(struct job_history *h, FILE *f)
{
    char *line = NULL;
    size_t room = 0;
    int64_t bad = 0;
    while (getline(&line, &room, f) > 0) {
        json_t *event = json_loads(line, 0, NULL);
        bad = take(h, event, bad) ? 0 : bad + 1;
        json_decref(event);
    }
    free(line);
    if (!h->damaged)
        h->whole = json_array_size(h->events);
}

static FILE *open_history(const char *home, int64_t id)
{
    const int fd = job_dir_open_file(home, id, JOB_HISTORY, O_RDONLY, NULL);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f && fd >= 0)
        close(fd);
    return f;
}

/* Without the events, where the last one can be read. */
bool job_history_readable(const char *home, int64_t id)
{
    struct job_history_end end;
    struct job_history h = { .events = NULL };
    FILE *f = job_history_end(&end, home, id) && end.seq > 0 ? open_history(home, id) : NULL;
    if (f)
        read_head(&h, f, home, id);
    bool good = h.head != NULL;
    if (f)
        fclose(f);
    job_history_fini(&h);
    if (!good && job_history_read(&h, home, id, NULL) == 0) {
        good = true;
        job_history_fini(&h);
    }
    return good;
}

int job_history_read(struct job_history *h, const char *home, int64_t id, struct err *err)
{
    FILE *f = open_history(home, id);
    if (!f)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "cannot open %.3900s/jobs/%lld/" JOB_HISTORY
                       ": %m", home, (long long)id);
    *h = (struct job_history){ .events = json_array() };
    read_head(h, f, home, id);
    read_events(h, f);
    fclose(f);
    if (h->head && json_array_size(h->events) > 0)
        return 0;
    job_history_fini(h);
    return err_set(err, ERR_DATA, "%.3900s/jobs/%lld/" JOB_HISTORY " is damaged, and so is spec.json beside it", home,
                   (long long)id);
}
