/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - see placement.h */
#include "controller/nodes/placement.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/field.h"
#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/hosts.h"
#include "controller/remote/remote.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

struct candidate {
    char    name[64];
    char    why[200];       /* reason to use it only as a last resort; "" = none */
    int64_t failures;
};

struct choice {
    struct job       *job;
    struct candidate *list;     /* best first */
    int               count, good;
    int64_t           holder;   /* a job that uses one of the hosts */
    json_t           *left_out; /* [{name, why}] */
};

static bool lately(int64_t at_ms)
{
    return daemon_now_ms() - at_ms < HOSTS_LATELY_MS;
}

/* How the job lost this node lately; NULL: it did not. */
static const json_t *loss_of(const struct job *job, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach (job->nodes.lost, i, one)
        if (strcmp(field_text(one, "name"), name) == 0 && lately(json_integer_value(json_object_get(one, "at_ms"))))
            return one;
    return NULL;
}

static bool lost(const struct job *job, const char *name, char *why, size_t size)
{
    const json_t *loss = loss_of(job, name);
    if (loss)
        snprintf(why, size, "lost before: %s", field_text(loss, "text"));
    return loss != NULL;
}

int64_t placement_places(const struct job *job, const char *without)
{
    int64_t n = 0;
    size_t i;
    json_t *host;
    json_array_foreach (job->need.hosts, i, host) {
        const char *name = json_string_value(host);
        n += !(without && strcmp(name, without) == 0) && !field_true(loss_of(job, name), "unusable");
    }
    return n < job->need.min_nodes ? 0 : n > job->need.nodes ? n - job->need.nodes + 1 : n > 0;
}

bool placement_nearest(char *out, size_t size, const struct job *job)
{
    const json_t *best = NULL, *one;
    size_t i;
    json_array_foreach (job->nodes.lost, i, one)
        if (json_object_get(one, "usable") && field_int(one, "usable", 0) > field_int(best, "usable", -1))
            best = one;
    if (best)
        snprintf(out, size, "no %s of the job has %lld healthy GPU%s; nearest: %s",
                 job->need.remote == &remote_slurm ? "node" : "host", (long long)job->need.node_gpus,
                 job->need.node_gpus == 1 ? "" : "s", field_text(best, "text"));
    return best != NULL;
}

json_t *placement_too_few(int64_t *places, const struct job *job, const json_t *body)
{
    char text[360], all[460];
    const char *given = field_text(body, "node"), *node = given[0] ? given : job->core.node;
    *places = 0;
    if (!json_object_get(body, "usable") || job->need.remote == &remote_local)
        return NULL;
    snprintf(text, sizeof(text), "%.80s has %.240s", node, field_text(body, "few"));
    json_t *out = json_deep_copy(body);
    json_object_set_new(out, "node", json_text(node));
    json_object_set_new(out, "text", json_text(text));
    *places = job->need.remote == &remote_slurm ? 1 : placement_places(job, node);
    if (*places > 0)
        return out;
    struct job with = *job;
    json_t *lost = job->nodes.lost ? json_copy(job->nodes.lost) : json_array();
    json_array_append(lost, out);
    with.nodes.lost = lost;
    placement_nearest(all, sizeof(all), &with);
    json_decref(lost);
    json_object_set_new(out, "text", json_text(all));
    return out;
}

static bool any_lost(const struct job *job)
{
    size_t i;
    json_t *one;
    json_array_foreach (job->nodes.lost, i, one)
        if (lately(json_integer_value(json_object_get(one, "at_ms"))))
            return true;
    return false;
}

static void leave_out(struct choice *c, const char *name, const char *why)
{
    json_t *one = json_make("{s:s, s:s}", "name", name, "why", why);
    if (one)
        json_array_append_new(c->left_out, one);
}

/* Inserts before the first worse candidate. */
static void add(struct choice *c, const struct candidate *new)
{
    int at = c->count++;
    for (; at > 0; at--) {
        const struct candidate *other = &c->list[at - 1];
        const bool worse = (other->why[0] && !new->why[0]) ||
                           (!other->why[0] == !new->why[0] && other->failures > new->failures);
        if (!worse)
            break;
        c->list[at] = *other;
    }
    c->list[at] = *new;
    c->good += !new->why[0];
}

/* ---- candidates ---- */

static void add_hosts(struct choice *c)
{
    const struct job *job = c->job;
    size_t i;
    json_t *host;
    json_array_foreach (job->need.hosts, i, host) {
        struct candidate one = { .failures = 0 };
        struct hosts_health health;
        char why[240];
        snprintf(one.name, sizeof(one.name), "%s", json_string_value(host));
        hosts_look(&health, job, one.name);
        if (health.drained) {
            snprintf(why, sizeof(why), "drained%s%s", health.drained[0] ? ": " : "", health.drained);
            leave_out(c, one.name, why);
            continue;
        }
        if (field_true(loss_of(job, one.name), "unusable")) {
            leave_out(c, one.name, field_text(loss_of(job, one.name), "text"));
            continue;
        }
        if (health.holder) {
            c->holder = c->holder ? c->holder : health.holder;
            continue;
        }
        one.failures = health.failures;
        if (!lost(job, one.name, one.why, sizeof(one.why)) && health.bad)
            snprintf(one.why, sizeof(one.why), "failed %lld time%s recently: %.140s",
                     (long long)health.failures, health.failures == 1 ? "" : "s", health.error);
        add(c, &one);
    }
}

static void add_played(struct choice *c)
{
    for (int k = 0; k < c->job->need.nodes; k++) {
        struct candidate one = { .failures = 0 };
        snprintf(one.name, sizeof(one.name), "node%d", k);
        lost(c->job, one.name, one.why, sizeof(one.why));
        add(c, &one);
    }
}

/* ---- how many to use ---- */

/* 0: the job has to wait. */
static int how_many(const struct choice *c)
{
    const int most = c->job->need.nodes, least = any_lost(c->job) ? c->job->need.min_nodes : most;
    if (c->good >= most)
        return most;
    if (c->good >= least)
        return c->good;
    if (c->count >= most)
        return most;
    return c->count >= least ? c->count : 0;
}

/* Does the reason begin with the node's name? */
static bool name_in(const json_t *out)
{
    const char *name = field_text(out, "name");
    return strncmp(field_text(out, "why"), name, strlen(name)) == 0;
}

static void tell_waiting(const struct choice *c)
{
    struct job *job = c->job;
    const json_t *out = json_array_get(c->left_out, 0);
    char who[140] = "", many[80] = "waiting for a host";
    if (job->need.nodes > 1)
        snprintf(many, sizeof(many), "waiting for %d hosts", job->need.nodes);
    else if (job->need.node_gpus > 0)
        snprintf(many, sizeof(many), "waiting for a host with %lld free GPU%s", (long long)job->need.node_gpus,
                 job->need.node_gpus == 1 ? "" : "s");
    if (out)
        snprintf(who, sizeof(who), "%.60s%s%.75s", name_in(out) ? "" : field_text(out, "name"),
                 name_in(out) ? "" : " is ", field_text(out, "why"));
    if (c->holder && job->need.nodes == 1)
        snprintf(job_texts(job)->unplaced, sizeof(job->texts->unplaced), "%s: job %lld is using one, none is "
                 "free%s%s",
                 many, (long long)c->holder, who[0] ? "; " : "", who);
    else if (c->holder)
        snprintf(job_texts(job)->unplaced, sizeof(job->texts->unplaced), "%s: job %lld is using one, %d %s free"
                 "%s%s", many, (long long)c->holder, c->count, c->count == 1 ? "is" : "are",
                 who[0] ? "; " : "", who);
    else
        snprintf(job_texts(job)->unplaced, sizeof(job->texts->unplaced), "%s: %s; to use it again: jobctl nodes "
                                                       "resume",
                 many, who);
}

static json_t *taken(struct choice *c, int n)
{
    const struct job *job = c->job;
    const bool played = job->need.remote == &remote_local;
    json_t *names = json_array(), *body = NULL;
    for (int i = 0; i < n; i++)
        json_array_append_new(names, json_text(c->list[i].name));
    for (int i = n; i < c->count; i++)
        if (c->list[i].why[0])
            leave_out(c, c->list[i].name, c->list[i].why);
    body = json_make("{s:s}", "node", played ? job->daemon->fleet->node : c->list[0].name);
    if (body && n > 1)
        json_object_set(body, "nodes", names);
    if (body && json_array_size(c->left_out) > 0)
        json_object_set(body, "left_out", c->left_out);
    json_decref(names);
    return body;
}

static json_t *choose(struct job *job)
{
    const size_t room = job->need.remote == &remote_ssh ? json_array_size(job->need.hosts)
                                                   : (size_t)job->need.nodes;
    struct choice c = { .job = job, .list = calloc(room + 1, sizeof(*c.list)),
                        .left_out = json_array() };
    json_t *body = NULL;
    job->texts->unplaced[0] = 0;
    if (c.list && c.left_out) {
        if (job->need.remote == &remote_ssh)
            add_hosts(&c);
        else
            add_played(&c);
        const int n = how_many(&c);
        if (n > 0)
            body = taken(&c, n);
        else
            tell_waiting(&c);
    }
    json_decref(c.left_out);
    free(c.list);
    return body;
}

/* Slurm chooses the nodes; we only pass the nodes that this job lost. */
static json_t *ask_slurm(const struct job *job)
{
    json_t *left_out = json_array(), *body = json_make("{s:s}", "node", job->need.remote->name), *one;
    size_t i;
    char why[200];
    json_array_foreach (job->nodes.lost, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (lost(job, name, why, sizeof(why)))
            json_array_append_new(left_out, json_make("{s:s, s:s}", "name", name, "why", why));
    }
    if (body && json_array_size(left_out) > 0) {
        json_object_set(body, "left_out", left_out);
        json_object_set_new(body, "least", json_integer(job->need.min_nodes));
    }
    json_decref(left_out);
    return body;
}

json_t *placement_make(struct job *job)
{
    struct hosts_health here;
    if (job->need.remote == &remote_slurm)
        return ask_slurm(job);
    if (job->need.remote == &remote_ssh)
        return choose(job);
    hosts_look(&here, job, job->daemon->fleet->node);
    if (here.drained) {
        snprintf(job_texts(job)->unplaced, sizeof(job->texts->unplaced), "waiting: this machine is drained%s"
                 "%.80s; to accept jobs again: jobctl nodes resume %s",
                 here.drained[0] ? ": " : "", here.drained, job->daemon->fleet->node);
        return NULL;
    }
    return job->need.nodes > 1 ? choose(job) : json_make("{s:s}", "node", job->daemon->fleet->node);
}

/* ---- the nodes that Slurm allocated ---- */

int placement_learn(struct job *job, struct err *err)
{
    char path[PATH_MAX], line[256];
    if (job->need.remote != &remote_slurm || job->need.nodes == 1 || job->nodes.names)
        return 0;
    snprintf(path, sizeof(path), "%.4000s/nodes", job->attempt->run_dir);
    FILE *f = safe_open_stream(path, NULL);
    json_t *names = json_array();
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0])
            json_array_append_new(names, json_text(line));
    }
    if (f)
        fclose(f);
    if (json_array_size(names) == 0) {
        json_decref(names);
        return err_set(err, ERR_SYSTEM, "cannot read %s, where the batch script lists its nodes", path);
    }
    job->nodes.names = names;
    return 0;
}
