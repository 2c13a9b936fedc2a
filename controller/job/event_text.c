/* SPDX-License-Identifier: Apache-2.0 */
/* event_text.c - a function per kind that has numbers or texts; see event_text.h
 *
 * Event bodies are defined in agent/wire/wire.h and controller/job/job_core.h.
 */
#include "controller/job/event_text.h"

#include <stdio.h>
#include <string.h>

#include "controller/job/event_kind.h"
#include "controller/job/job_view.h"
#include "engine/base/field.h"
#include "engine/base/text_append.h"

enum { SKEW_MS = 5000 }; /* longer than any message takes to arrive */
static const double MIB = 1 << 20;

typedef void (*text_fn)(char *out, size_t size, const json_t *body);

static long long int_of(const json_t *body, const char *key)
{
    return (long long)json_number_value(json_object_get(body, key));
}

/* Formats a field in milliseconds: "0.4s". */
static void time_of(char *out, size_t size, const json_t *body, const char *key)
{
    job_view_duration(out, size, (double)int_of(body, key) / 1000);
}

static void submitted(char *out, size_t size, const json_t *b)
{
    bool held = json_is_true(json_object_get(b, "held"));
    const json_t *adopted = json_object_get(b, "adopted");
    if (adopted)
        snprintf(out, size, "adopted%s from %s: continues job %lld of %s", held ? " and held" : "",
                 field_text(adopted, "dir"), int_of(adopted, "job"), field_text(adopted, "host"));
    else if (json_is_integer(json_object_get(b, "retry_of")))
        snprintf(out, size, "submitted%s, continues from the checkpoints of job %lld",
                 held ? " and held" : "", int_of(b, "retry_of"));
    else
        snprintf(out, size, "submitted%s", held ? " and held" : "");
}

/* Appends "one, two and 3 more". */
static void add_names(char *out, size_t size, const json_t *list)
{
    const size_t n = json_array_size(list), shown = n > 8 ? 7 : n;
    for (size_t i = 0; i < shown; i++)
        text_append(out, size, "%s%.64s", i == 0 ? "" : i + 1 == n ? " and " : ", ",
                    json_string_value(json_array_get(list, i)));
    if (shown < n)
        text_append(out, size, " and %zu more", n - shown);
}

static void edited(char *out, size_t size, const json_t *b)
{
    const json_t *keys = json_object_get(b, "keys");
    snprintf(out, size, "its spec was edited: ");
    if (json_array_size(keys) > 0)
        add_names(out, size, keys);
    else
        text_append(out, size, "no value changed");
}

static void placed(char *out, size_t size, const json_t *b)
{
    const long long cpus = int_of(b, "cpus"), gpus = int_of(b, "gpus");
    const json_t *nodes = json_object_get(b, "nodes"), *one;
    snprintf(out, size, "placed on %s", field_text(b, "node"));
    if (json_array_size(nodes) > 1) {
        snprintf(out, size, "placed on %zu nodes, ", json_array_size(nodes));
        add_names(out, size, nodes);
    }
    if (cpus > 0 || gpus > 0)    /* 0, 0: Slurm allocates them */
        text_append(out, size, " with %lld CPU slot%s and %lld GPU%s", cpus, cpus == 1 ? "" : "s", gpus,
                    gpus == 1 ? "" : "s");
    for (size_t i = 0; (one = json_array_get(json_object_get(b, "left_out"), i)); i++) {
        const char *name = field_text(one, "name"), *why = field_text(one, "why");
        const bool named = strncmp(name, why, strlen(name)) == 0;
        text_append(out, size, named ? "%s%.0s%.150s" : "%s%.64s (%.150s)", i ? ", " : "; excluded: ", name, why);
    }
}

static void nodes(char *out, size_t size, const json_t *b)
{
    const json_t *one;
    snprintf(out, size, "%zu nodes have joined: ", json_array_size(json_object_get(b, "nodes")));
    for (size_t i = 0; (one = json_array_get(json_object_get(b, "nodes"), i)); i++) {
        const long long ranks = int_of(one, "ranks"), first = int_of(one, "first_rank");
        text_append(out, size, "%s%.64s with rank%s %lld", i ? ", " : "", field_text(one, "name"),
                    ranks == 1 ? "" : "s", first);
        if (ranks > 1)
            text_append(out, size, " to %lld", first + ranks - 1);
    }
}

static void plan(char *out, size_t size, const json_t *b)
{
    const long long np = int_of(b, "np"), cpus = int_of(b, "cpus");
    const char *gpus = field_text(b, "gpus");
    snprintf(out, size, "planned: %lld rank%s", np, np == 1 ? "" : "s");
    if (gpus[0])
        text_append(out, size, " on GPU%s %.90s (%.60s), %lld CPU slot%s", strchr(gpus, ',') ? "s" : "", gpus,
                    field_text(json_array_get(json_object_get(b, "ranks"), 0), "device"), cpus, cpus == 1 ? "" : "s");
    text_append(out, size, ", %s (plan %s)", field_text(b, "why"), field_text(b, "hash"));
}

static void generation_started(char *out, size_t size, const json_t *b)
{
    long long generation = int_of(b, "generation"), np = int_of(b, "np");
    long long step = int_of(b, "resume_step");
    const long long kept = int_of(b, "ranks_kept");
    char ranks[80];
    int n = snprintf(ranks, sizeof(ranks), "%lld rank%s", np, np == 1 ? "" : "s");
    if (kept > 0)
        snprintf(ranks + n, sizeof(ranks) - (size_t)n, ", %lld kept in their processes", kept);
    if (step > 0)
        snprintf(out, size, "generation %lld resumes at step %lld with %s", generation, step, ranks);
    else
        snprintf(out, size, "generation %lld starts with %s", generation, ranks);
}

static void rank_exited(char *out, size_t size, const json_t *b)
{
    const json_t *signal = json_object_get(b, "signal");
    const bool cascade = json_is_true(json_object_get(b, "cascade"));
    const char *after = cascade ? ", after another rank failed" : "";
    if (json_is_integer(signal))
        snprintf(out, size, "rank %lld was killed by signal %lld%s", int_of(b, "rank"), int_of(b, "signal"), after);
    else
        snprintf(out, size, "rank %lld exited with code %lld%s", int_of(b, "rank"), int_of(b, "exit_code"), after);
}

static void generation_ended(char *out, size_t size, const json_t *b)
{
    const char *text = field_text(b, "text"), *cause = field_text(b, "cause");
    bool failed = cause[0] && strcmp(cause, "none") != 0;
    if (text[0])
        snprintf(out, size, "%s%s%s%s", text, failed ? " (" : "", failed ? cause : "", failed ? ")" : "");
    else
        snprintf(out, size, "generation %lld ended", int_of(b, "generation"));
}

static void restart_scheduled(char *out, size_t size, const json_t *b)
{
    char pause[32];
    time_of(pause, sizeof(pause), b, "delay_ms");
    /* The cause is already in the generation_ended line; "changes" is what the restart does about it. */
    const bool waits = int_of(b, "delay_ms") > 0;
    const char *changes = field_text(b, "changes");
    snprintf(out, size, "restarting %s%s as generation %lld%s%s", waits ? "in " : "now",
             waits ? pause : "", int_of(b, "generation"), *changes ? ": " : "", changes);
}

static void checkpoint(char *out, size_t size, const json_t *b)
{
    double bytes = json_number_value(json_object_get(b, "bytes"));
    const json_t *stall = json_object_get(b, "stall_ms");
    char stalled[64] = "";
    if (json_is_number(stall))
        snprintf(stalled, sizeof(stalled), ", training paused for %.3g ms", json_number_value(stall));
    snprintf(out, size, "checkpoint of step %lld written (%.1f MiB, %lld ms%s)", int_of(b, "step"),
             bytes / MIB, int_of(b, "ms"), stalled);
}

static void quarantined(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "checkpoint %s quarantined: %s", field_text(b, "path"), field_text(b, "reason"));
}

static void sample(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "sample of step %lld: %s", int_of(b, "step"), field_text(b, "path"));
}

static void warning(char *out, size_t size, const json_t *b)
{
    if (json_is_number(json_object_get(b, "rank")))
        snprintf(out, size, "warning from rank %lld: %s", int_of(b, "rank"), field_text(b, "text"));
    else
        snprintf(out, size, "warning: %s", field_text(b, "text"));
}

static void end_of(char *out, size_t size, const char *what, const json_t *b)
{
    char took[32];
    time_of(took, sizeof(took), b, "ms");
    if (json_is_integer(json_object_get(b, "signal")))
        snprintf(out, size, "%s was killed by signal %lld after %s", what, int_of(b, "signal"), took);
    else
        snprintf(out, size, "%s exited with code %lld after %s", what, int_of(b, "exit_code"), took);
}

static void setup_done(char *out, size_t size, const json_t *b)
{
    end_of(out, size, "setup", b);
}

static void pull_started(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "image %s with %s: %s", field_text(b, "image"), field_text(b, "runtime"), field_text(b, "why"));
}

/* "image is on every node, after 3 s", or how `what` failed. */
static void brought(char *out, size_t size, const json_t *b, const char *thing, const char *what)
{
    char took[32];
    time_of(took, sizeof(took), b, "ms");
    if (json_is_integer(json_object_get(b, "exit_code")) && int_of(b, "exit_code") == 0)
        snprintf(out, size, "%s on every node, after %s", thing, took);
    else
        end_of(out, size, what, b);
}

static void pull_done(char *out, size_t size, const json_t *b)
{
    brought(out, size, b, "image is", "the image pull");
}

static void fetch_done(char *out, size_t size, const json_t *b)
{
    brought(out, size, b, "its models are", "jobctl-fetch");
}

static void stop_requested(char *out, size_t size, const json_t *b)
{
    const char *reason = field_text(b, "reason");
    snprintf(out, size, "stop requested%s%s", reason[0] ? ": " : "", reason);
}

static void retry(char *out, size_t size, const json_t *b)
{
    char pause[32];
    time_of(pause, sizeof(pause), b, "delay_ms");
    snprintf(out, size, "next attempt %s%s: %s", int_of(b, "delay_ms") > 0 ? "in " : "now",
             int_of(b, "delay_ms") > 0 ? pause : "", field_text(b, "text"));
}

static void done(char *out, size_t size, const json_t *b)
{
    const char *reason = field_text(b, "reason");
    snprintf(out, size, "%s%s%s", field_text(b, "result"), reason[0] ? ": " : "", reason);
}

static void attempt_ended(char *out, size_t size, const json_t *b)
{
    const char *text = field_text(b, "text");
    snprintf(out, size, "attempt %s%s%s", field_text(b, "result"), text[0] ? ": " : "", text);
}

static void rank_started(char *out, size_t size, const json_t *b)
{
    char of[40] = "";
    if (int_of(b, "steps") > 0)
        snprintf(of, sizeof(of), " of %lld", int_of(b, "steps"));
    snprintf(out, size, "rank %lld started, pid %lld, at step %lld%s", int_of(b, "rank"),
             int_of(b, "pid"), int_of(b, "resume_step"), of);
}

static void step(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "step %lld of %lld, loss %.4g", int_of(b, "step"), int_of(b, "steps"),
             json_number_value(json_object_get(b, "loss")));
}

static void copied(char *out, size_t size, const json_t *b, const char *how)
{
    char took[32];
    time_of(took, sizeof(took), b, "ms");
    snprintf(out, size, "checkpoint of step %lld %s (%.1f MiB, %s)", int_of(b, "step"), how,
             (double)int_of(b, "bytes") / MIB, took);
}

static void mirrored(char *out, size_t size, const json_t *b)
{
    copied(out, size, b, "copied to the mirror");
}

static void restored(char *out, size_t size, const json_t *b)
{
    copied(out, size, b, "restored from the mirror");
}

static void hang(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "hang: %s", field_text(b, "text"));
}

/* The fault itself is in the gpu_event line. */
static void gpu_fault(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "stopping generation %lld: rank %lld's GPU failed",
             int_of(b, "generation"), int_of(b, "rank"));
}

static void straggler(char *out, size_t size, const json_t *b)
{
    const char *text = field_text(b, "text");
    snprintf(out, size, "%s", text[0] ? text : "no rank slows down the others any longer");
}

static void excluded(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "%s, rank %lld's GPU, is no longer used by this job: %s", field_text(b, "gpu"),
             int_of(b, "rank"), field_text(b, "text"));
}

static void incident(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "incident report: %s", field_text(b, "path"));
}

static void agent_up(char *out, size_t size, const json_t *b)
{
    const char *version = field_text(b, "version");
    bool other = version[0] && strcmp(version, JOBCTL_VERSION) != 0;
    const long long skew = int_of(b, "skew_ms"), off = skew < 0 ? -skew : skew;
    char clock[80] = "";
    if (off >= SKEW_MS)
        snprintf(clock, sizeof(clock), "; its clock is %lld s %s the controller's, run NTP on both",
                 off / 1000, skew < 0 ? "behind" : "ahead of");
    snprintf(out, size, "agent on %s connected, pid %lld%s%s%s%s", field_text(b, "node"),
             int_of(b, "pid"), other ? "; its version is " : "", other ? version : "",
             other ? ", replaced by " JOBCTL_VERSION " at the next attempt" : "", clock);
}

static void text_only(char *out, size_t size, const json_t *b)
{
    snprintf(out, size, "%s", field_text(b, "text"));
}

#define ROW(id, name, arrow, apply, text, flags) [EVENT_##id] = text,
static const text_fn texts[EVENT_KINDS] = { EVENTS(ROW) };

/* Sentences without numbers; a kind with neither is its own sentence. */
static const char *const fixed[EVENT_KINDS] = {
    [EVENT_FACTS] = "node probed", [EVENT_SETUP_STARTED] = "setup started", [EVENT_FETCH_STARTED] = "download of its models started",
    [EVENT_LEARNED] = "typical phase durations recorded", [EVENT_STOP_ASKED] = "stop sent to the agent",
};

void event_text(char *out, size_t size, const char *name, const json_t *body)
{
    const enum event_kind kind = event_kind_of(name);
    out[0] = '\0';
    if (texts[kind])
        texts[kind](out, size, body);
    if (!out[0])
        snprintf(out, size, "%s", fixed[kind] ? fixed[kind] : name);
}

bool event_is_news(const char *name, const json_t *body)
{
    const enum event_kind kind = event_kind_of(name);
    /* A generation that ended without a failure is reported by `done`. */
    const char *cause = field_text(body, "cause");
    const bool cpu = kind == EVENT_PLAN && !json_object_get(body, "gpus"); /* nothing was chosen */
    return event_kind_is(kind, EVENT_IS_NEWS) && !cpu &&
           (kind != EVENT_GENERATION_ENDED || (cause[0] && strcmp(cause, "none") != 0));
}
