/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_job.c - checks of a spec on this machine: plan, data, memory, disk, time, routes (doctor.h) */
#include <stdio.h>
#include <string.h>

#include "agent/doctor/doctor_internal.h"
#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "agent/probe/route.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/size_text.h"

static void check_plan(struct checkup *c)
{
    size_t i;
    const json_t *note;
    if (!c->plan) {
        row(c, "plan", ROW_FAIL, "change the spec accordingly", "%s", c->refusal.text);
        return;
    }
    row(c, "plan", ROW_OK, "", "%lld rank%s: %s", (long long)field_int(c->plan, "np", -1),
        field_int(c->plan, "np", -1) == 1 ? "" : "s", field_text(c->plan, "why"));
    json_array_foreach(json_object_get(c->plan, "harmful"), i, note)
        row(c, "environment", ROW_WARN, "remove the variable, or compare with and without it", "%s",
            json_string_value(note));
}

/* Whether the engine refused the weights that a run begins with. */
static bool is_of_weights(const char *wrong)
{
    return strncmp(wrong, "train.model.weights", strlen("train.model.weights")) == 0;
}

static void check_weights(struct checkup *c, const json_t *train, const char *wrong)
{
    const json_t *weights = json_object_get(train, "weights");
    if (weights)
        row(c, "weights", field_text(weights, "left_out")[0] ? ROW_WARN : ROW_OK, "", "%s%s%s",
            field_text(weights, "is"), field_text(weights, "left_out")[0] ? "; " : "", field_text(weights, "left_out"));
    else if (is_of_weights(wrong))
        row(c, "weights", ROW_FAIL, "name weights of this model, or change train.model; `jobctl-train inspect PATH` "
            "describes them", "%s", wrong);
}

/* "", or ", at least 3.2 h (counted)". */
static void encode_time(char *out, size_t size, const json_t *encode)
{
    const double s = field_number(encode, "seconds");
    const bool counted = strcmp(field_text(encode, "rate"), "counted") == 0;
    out[0] = '\0';
    if (field_int(encode, "missing_pictures", 0) + field_int(encode, "missing_captions", 0) > 0)
        snprintf(out, size, ", %s%.3g %s (%s)", counted ? "at least " : "", s < 120 ? s : s < 7200 ? s / 60 : s / 3600,
                 s < 120 ? "s" : s < 7200 ? "min" : "h", field_text(encode, "rate"));
}

/* Data that a run encodes before its first step. */
static void check_encode(struct checkup *c, const json_t *encode)
{
    char time[80], size[SIZE_TEXT];
    if (!encode)
        return;
    if (field_text(encode, "absent")[0]) {
        row(c, "encode", ROW_UNKNOWN, "run `jobctl fetch FILE`, or start the job, which fetches them",
            "%lld pictures and %lld captions; time and memory are unknown: %s",
            (long long)field_int(encode, "pictures", 0), (long long)field_int(encode, "captions", 0),
            field_text(encode, "absent"));
        return;
    }
    encode_time(time, sizeof(time), encode);
    row(c, "encode", field_true(encode, "fits") ? ROW_OK : ROW_WARN,
        field_true(encode, "fits") ? "" : "encode with fewer ranks, or on a machine with more memory",
        "%lld of %lld pictures and %lld of %lld captions%s; cache of %s in %.200s%s",
        (long long)field_int(encode, "missing_pictures", 0), (long long)field_int(encode, "pictures", 0),
        (long long)field_int(encode, "missing_captions", 0), (long long)field_int(encode, "captions", 0),
        time, size_text(field_int(encode, "latent_bytes", 0) + field_int(encode, "text_bytes", 0), size),
        field_text(encode, "cache"),
        field_true(encode, "fits") ? "" : "; the encoders do not fit in free memory");
}

static void check_model(struct checkup *c, const json_t *model)
{
    const char *state = field_text(model, "state"), *text = field_text(model, "text");
    if (strcmp(state, "there") == 0 || strcmp(state, "missing") == 0)
        row(c, "models", ROW_OK, "", "%s", text);
    else if (strcmp(state, "absent") == 0)
        row(c, "models", ROW_FAIL, "run `jobctl fetch FILE` on a machine that has network and sees this cache", "%s",
            text);
    else
        row(c, "models", ROW_FAIL, "correct the name, or set HF_TOKEN to a token with access", "%s", text);
}

/* What the job names on a hub. */
static void check_models(struct checkup *c)
{
    size_t i;
    const json_t *model, *models = json_object_get(c->looked, "models");
    json_array_foreach (json_object_get(models, "names"), i, model)
        check_model(c, model);
    if (field_text(models, "error")[0])
        row(c, "models", ROW_UNKNOWN, "install jobctl-fetch beside jobctl-agent, and libcurl", "%s",
            field_text(models, "error"));
}

static void check_data(struct checkup *c)
{
    const json_t *train = json_object_get(c->looked, "train");
    const char *wrong = field_text(c->looked, "train_error");
    if (!json_is_object(json_object_get(c->spec, "train")))
        return;
    check_models(c);
    check_weights(c, train, wrong);
    if (is_of_weights(wrong))
        wrong = "";
    if (!train)
        row(c, "data", wrong[0] ? ROW_FAIL : ROW_UNKNOWN, "fix the data; `jobctl verify-data FILE` lists all errors",
            "%s", wrong[0] ? wrong : "not checked: the engine did not run");
    else
        row(c, "data", ROW_OK, "", "%lld samples, %lld steps%s%.40s", (long long)field_int(train, "samples", -1),
            (long long)field_int(train, "steps", -1), field_text(train, "data_digest")[0] ? ", " : "",
            field_text(train, "data_digest"));
    check_encode(c, json_object_get(train, "encode"));
}

/* "42.7 MiB", "1.5 GiB" */
static const char *size_of(char *out, size_t size, json_int_t bytes)
{
    const bool small = bytes < (json_int_t)1 << 30;
    snprintf(out, size, "%.1f %s", small ? doctor_gib(bytes) * 1024 : doctor_gib(bytes), small ? "MiB" : "GiB");
    return out;
}

static void check_fits(struct checkup *c)
{
    size_t i;
    const json_t *device, *best = NULL;
    json_array_foreach(json_object_get(json_object_get(c->looked, "train"), "memory"), i, device)
    {
        best = json_is_false(json_object_get(device, "fits")) || !best ? device : best;
    }
    if (!best || field_int(best, "planned_bytes", -1) < 0)
        return;
    char needs[32], may[32];
    row(c, "fits", json_is_false(json_object_get(best, "fits")) ? ROW_FAIL : ROW_OK,
        "reduce train.batch.micro, or set grad_checkpointing: true", "needs %s of memory on %s, %s available",
        size_of(needs, sizeof(needs), field_int(best, "planned_bytes", -1)), field_text(best, "device"),
        size_of(may, sizeof(may), field_int(best, "budget_bytes", -1)));
}

/* `keep` checkpoints, plus the one being written before the oldest is removed. */
static void check_checkpoints(struct checkup *c)
{
    json_int_t told = field_int(json_object_get(c->looked, "train"), "checkpoint_bytes", -1);
    json_int_t each = told < 0 ? field_int(c->looked, "checkpoint_bytes", -1) : told;
    json_int_t left = field_int(c->looked, "checkpoint_free_bytes", -1);
    json_int_t keep = field_int(json_object_get(c->spec, "checkpoint"), "keep", -1);
    if (each < 0 || left < 0)
        return;
    char one[32], room[32];
    keep = keep > 0 ? keep : 1;
    row(c, "checkpoints",
        left < each                ? ROW_FAIL
        : left < each * (keep + 1) ? ROW_WARN
                                   : ROW_OK,
        "free disk space, or reduce checkpoint.keep",
        "%lld checkpoints of %s each and one being written; %s free in %s", (long long)keep,
        size_of(one, sizeof(one), each), size_of(room, sizeof(room), left),
        field_text(c->looked, "checkpoint_dir"));
}

/* Seconds until the machine is reclaimed; -1: unknown. */
static double seconds_left(const struct checkup *c)
{
    const json_t *session = json_object_get(c->facts, "session");
    json_int_t limit = field_int(session, "limit_s", -1), age = field_int(session, "age_s", -1);
    json_int_t ends = field_int(session, "ends_at_s", -1), now = field_int(c->looked, "now_s", -1);
    if (ends > 0 && now > 0)
        return ends > now ? (double)(ends - now) : 0;
    return limit < 0 ? -1 : (double)(limit - (age > 0 ? age : 0));
}

/* Compares the remaining work, by the speed of the last attempt or else max_duration, with the
 * time left. */
static void check_time(struct checkup *c)
{
    const json_t *wanted = json_object_get(c->spec, "max_duration");
    const json_int_t steps = field_int(json_object_get(c->spec, "train"), "steps", -1);
    const json_int_t done = field_int(c->looked, "last_step", -1);
    const double left = seconds_left(c);
    const double ms = json_number_value(json_object_get(c->looked, "step_ms"));
    const bool known = ms > 0 && steps > 0 && done >= 0;
    const double needs = known ? (double)(steps > done ? steps - done : 0) * ms / 1000
                               : json_number_value(wanted);
    if (left < 0 || (!known && !json_is_number(wanted)))
        return;
    if (known)
        row(c, "time", needs > left ? ROW_WARN : ROW_OK,
            "the run is checkpointed before the end; continue it elsewhere with jobctl adopt",
            "%lld steps of %.4g ms take %.1f h, but the machine has %.1f h left",
            (long long)(steps > done ? steps - done : 0), ms, needs / 3600, left / 3600);
    else
        row(c, "time", needs > left ? ROW_WARN : ROW_OK, "continue the rest elsewhere with jobctl adopt",
            "max_duration is %.1f h, the machine has %.1f h left", needs / 3600, left / 3600);
}

/* Routes to the other nodes of the job: all must use the one interface that NCCL is given. */
static void check_ways(struct checkup *c)
{
    size_t i;
    const json_t *peer;
    const char *planned = c->plan ? plan_env(c->plan, "NCCL_SOCKET_IFNAME") : NULL;
    json_array_foreach(json_object_get(c->looked, "peers"), i, peer)
    {
        char name[64];
        const char *address = field_text(peer, "address");
        const char *over = route_interface(c->facts, address);
        snprintf(name, sizeof(name), "route to %.50s", field_text(peer, "host"));
        if (!address[0])
            row(c, name, ROW_UNKNOWN, "",
                "its name does not resolve on this machine; is the name an ssh alias?");
        else if (!over)
            row(c, name, ROW_FAIL, "add a route on this machine", "no interface reaches %s", address);
        else if (planned && planned[0] == '=' && strcmp(planned + 1, over) != 0)
            row(c, name, ROW_WARN, "set env.NCCL_SOCKET_IFNAME to the interface that reaches all nodes",
                "%s is reached over %s, but NCCL uses %s", address, over, planned + 1);
        else
            row(c, name, ROW_OK, "", "%s over %s", address, over);
    }
}

void doctor_check_job(struct checkup *c)
{
    if (plan_make(&c->plan, c->facts, c->spec, &c->refusal) < 0)
        c->plan = NULL;
    check_plan(c);
    check_data(c);
    check_fits(c);
    check_checkpoints(c);
    check_time(c);
    check_ways(c);
    json_decref(c->plan);
}
