/* SPDX-License-Identifier: Apache-2.0 */
/* hang_rules.c - see hang_rules.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/core/hang_rules.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/field.h"
#include "engine/base/json_text.h"

enum { DOUBLINGS = 10, WORDS = 32, WINDOW_LEAST_MS = 1000, WINDOW_MOST_MS = 10 * 1000 };

/* Floors in s; 0: no deadline. Pages of commands show less, and work between two steps
 * (validation, saving) may look like part of a step. */
static const struct {
    int  engine_s, command_s;
    bool of_step;     /* hang.step applies */
    bool files;       /* MiB of file I/O count as progress */
    bool engine_life; /* signs of life count as progress of the engine too */
} phases[FLIGHT_PHASES] = {
    [PHASE_INIT] = {300, 300, false, true, false},
    [PHASE_DATA] = {20, 300, true, true, true},
    [PHASE_FORWARD] = {5, 300, true, false, false},
    [PHASE_BACKWARD] = {5, 300, true, false, false},
    [PHASE_REDUCE] = {5, 300, true, false, false},
    [PHASE_OPTIMIZER] = {5, 300, true, false, false},
    [PHASE_CHECKPOINT] = {600, 1800, false, true, true},
    [PHASE_VALIDATE] = {600, 1800, false, true, true},
    [PHASE_IDLE] = {0, 0, false, false, false},
};

void hang_rules_read(struct hang_rules *r, const json_t *spec, bool engine)
{
    const json_t *hang = json_object_get(spec, "hang");
    *r = (struct hang_rules){.engine = engine,
                             .step_ms = field_seconds_ms(hang, "step"),
                             .first_step_ms = field_seconds_ms(hang, "first_step"),
                             .silent_ms = field_seconds_ms(hang, "silent")};
}

int64_t hang_rules_first_step_ms(const struct hang_rules *r)
{
    return r->first_step_ms > 0 ? r->first_step_ms : HANG_FIRST_STEP_MS;
}

int64_t hang_rules_floor_ms(const struct hang_rules *r, enum flight_phase phase)
{
    const int floor_s = r->engine ? phases[phase].engine_s : phases[phase].command_s;
    return floor_s ? 1000 * (int64_t)floor_s : -1;
}

/* The canonical spec of a file without first_step has the default: that is not the user's choice. */
bool hang_rules_is_set(const struct hang_rules *r, enum flight_phase phase, bool stepped)
{
    if (!stepped)
        return (phases[phase].of_step || phase == PHASE_INIT) && r->first_step_ms > 0 &&
               r->first_step_ms != HANG_FIRST_STEP_MS;
    return r->step_ms > 0 && phases[phase].of_step;
}

bool hang_rules_life_counts(const struct hang_rules *r, enum flight_phase phase)
{
    return !r->engine || phases[phase].engine_life;
}

bool hang_rules_files_count(enum flight_phase phase)
{
    return phases[phase].files;
}

int64_t hang_rules_doubled_ms(int64_t deadline_ms, int false_alarms)
{
    const int n = false_alarms < DOUBLINGS ? false_alarms : DOUBLINGS;
    return deadline_ms > 0 ? deadline_ms << n : deadline_ms;
}

/* For a command, hang.step is also hang.silent: its steps may not be visible. */
int64_t hang_rules_silent_ms(const struct hang_rules *r, int64_t watched_ms, int64_t longest_ms, int64_t rhythm_ms,
                             int false_alarms)
{
    if (r->silent_ms > 0)
        return r->silent_ms;
    if (r->engine)
        return -1;
    if (r->step_ms > 0)
        return r->step_ms;
    int64_t least = watched_ms < HANG_NEW_MS ? HANG_SILENT_NEW_MS : HANG_SILENT_MS;
    if (rhythm_ms > 0 && least > HANG_RHYTHM_MS)
        least = HANG_RHYTHMS * rhythm_ms > HANG_RHYTHM_MS ? HANG_RHYTHMS * rhythm_ms : HANG_RHYTHM_MS;
    if (least > HANG_SILENT_NEW_MS)
        least = HANG_SILENT_NEW_MS;
    const int64_t usual = HANG_TIMES * longest_ms;
    return hang_rules_doubled_ms(usual > least ? usual : least, false_alarms);
}

int64_t hang_rules_background_ms(const struct hang_rules *r, int64_t rhythm_ms, int false_alarms)
{
    if (r->engine || r->silent_ms > 0 || r->step_ms > 0 || rhythm_ms <= 0)
        return -1;
    const int64_t least = HANG_RHYTHMS * rhythm_ms;
    return hang_rules_doubled_ms(least > HANG_SILENT_NEW_MS ? least : HANG_SILENT_NEW_MS, false_alarms);
}

/* A step of the engine may be judged after 5 s. */
int64_t hang_rules_window_ms(const struct hang_rules *r)
{
    int64_t limit = r->engine ? hang_rules_floor_ms(r, PHASE_FORWARD) : HANG_SILENT_MS;
    if (r->silent_ms > 0 && r->silent_ms < limit)
        limit = r->silent_ms;
    if (r->step_ms > 0 && r->step_ms < limit)
        limit = r->step_ms;
    const int64_t window = limit / 4;
    return window < WINDOW_LEAST_MS ? WINDOW_LEAST_MS : window > WINDOW_MOST_MS ? WINDOW_MOST_MS : window;
}

/* --- in words ------------------------------------------------------------------------------- */

/* "5 s", "10 min", "1.5 h" */
static const char *duration(char out[WORDS], int64_t ms)
{
    const double s = (double)ms / 1000;
    if (s < 120)
        snprintf(out, WORDS, "%g s", s);
    else if (s < 7200)
        snprintf(out, WORDS, "%g min", s / 60);
    else
        snprintf(out, WORDS, "%g h", s / 3600);
    return out;
}

static void say_engine(json_t *out, const struct hang_rules *r)
{
    char a[WORDS], b[WORDS];
    if (r->step_ms > 0)
        json_array_append_new(out, json_text_f("no progress in a phase of a step: %s (hang.step)",
                                               duration(a, r->step_ms)));
    else
        json_array_append_new(
            out, json_text_f("no progress in a phase of a step: %d times its usual maximum, at "
                             "least %s, for data %s (hang.step)", HANG_TIMES,
                             duration(a, hang_rules_floor_ms(r, PHASE_FORWARD)),
                             duration(b, hang_rules_floor_ms(r, PHASE_DATA))));
    json_array_append_new(out, json_text_f("no first step, and no sign of work: %s (hang.first_step)",
                                           duration(a, hang_rules_first_step_ms(r))));
    if (r->silent_ms > 0)
        json_array_append_new(out, json_text_f("no sign of life from any rank: %s (hang.silent)",
                                               duration(a, r->silent_ms)));
}

static void say_silence(json_t *out, const struct hang_rules *r)
{
    static const char what[] = "no sign of life from any rank (output, CPU work, bytes read or "
                               "written, network traffic, work on a GPU)";
    char a[WORDS], b[WORDS], c[WORDS];
    if (r->silent_ms > 0 || r->step_ms > 0)
        json_array_append_new(out, json_text_f("%s: %s (hang.%s)", what,
                                               duration(a, hang_rules_silent_ms(r, 0, 0, 0, 0)),
                                               r->silent_ms > 0 ? "silent" : "step"));
    else
        json_array_append_new(out, json_text_f("%s: %s in the first hour, then %d times the longest quiet time, "
                                               "at least %s; in the first hour of a job that reports steps regularly, "
                                               "%d times the time between two reports, at least %s (hang.silent)",
                                               what, duration(a, HANG_SILENT_NEW_MS), HANG_TIMES,
                                               duration(b, HANG_SILENT_MS), HANG_RHYTHMS, duration(c, HANG_RHYTHM_MS)));
}

static void say_command(json_t *out, const struct hang_rules *r)
{
    char a[WORDS];
    say_silence(out, r);
    if (r->step_ms > 0)
        json_array_append_new(out, json_text_f("no step, regardless of other activity: %s (hang.step); "
                                               "without a flight page, no output",
                                               duration(a, r->step_ms)));
    else
        json_array_append_new(out, json_text_f("a rank with a flight page (NCCL 2.26, jobctl_progress.py) stays in a "
                                               "phase of a step without a sign of life, or in a collective: %s "
                                               "(hang.step)",
                                               duration(a, hang_rules_floor_ms(r, PHASE_FORWARD))));
}

json_t *hang_rules_say(const struct hang_rules *r)
{
    char a[WORDS];
    json_t *out = json_array();
    json_array_append_new(out, json_text_f("a stopped process (SIGSTOP): %s", duration(a, HANG_STOPPED_MS)));
    if (r->engine)
        say_engine(out, r);
    else
        say_command(out, r);
    return out;
}
