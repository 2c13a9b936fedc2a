/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_fixture.h - one input to the agent's core, and its effects as text; for
 * test_agent_core*.c, each of which is one program */
#ifndef TESTS_AGENT_CORE_FIXTURE_H
#define TESTS_AGENT_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/core/agent_core.h"
#include "agent/core/agent_effects.h"
#include "agent/core/restart_policy.h"
#include "engine/base/buf.h"

static struct agent_core *core;
static int64_t now;
static struct buf said;    /* the effects of the last input */
static json_t *last_event; /* the body of the last event of that input */

static inline int up(void **state)
{
    (void)state;
    now = 1000;
    last_event = NULL;
    return agent_core_create(&core, NULL);
}

static inline int down(void **state)
{
    (void)state;
    agent_core_destroy(core);
    json_decref(last_event);
    buf_fini(&said);
    return 0;
}

static inline void say(const struct agent_effect *e)
{
    if (said.size)
        buf_append(&said, " ", 1);
    switch (e->kind) {
    case DO_EVENT:
        assert_non_null(e->body);
        json_decref(last_event);
        last_event = json_incref(e->body);
        buf_print(&said, "%s%s", e->event, e->droppable ? "~" : "");
        break;
    case DO_SETUP:
        buf_print(&said, "%s", e->pull ? "PULL" : e->fetch ? "FETCH" : "SETUP");
        break;
    case DO_SPAWN:
        buf_print(&said, "SPAWN(%d,%d)", e->generation, (int)e->resume_step);
        if (e->skip_step >= 0)
            buf_print(&said, " without %d%s", (int)e->skip_step, e->forget ? ", from disk" : "");
        if (e->fallbacks)
            buf_print(&said, " fallbacks %d", e->fallbacks);
        if (e->keep)
            buf_print(&said, " kept");
        break;
    case DO_CONTROL:
        buf_print(&said, "CONTROL(%s)", e->command);
        break;
    case DO_SIGNAL:
        buf_print(&said, "SIGNAL(%d)", e->signo);
        break;
    case DO_INCIDENT:
        buf_print(&said, "REPORT(%d)", e->generation);
        break;
    case DO_CLEANUP:
        buf_print(&said, "CLEANUP(%d)", e->generation);
        break;
    case DO_TIMER:
        buf_print(&said, "TIMER(%d)", e->at_ms ? (int)(e->at_ms - now) : -1);
        break;
    case DO_FINISH:
        buf_print(&said, "FINISH");
        break;
    }
}

static inline const char *feed(struct agent_input in)
{
    static struct agent_effects out;
    in.now_ms = now;
    agent_core_step(core, &in, &out);
    buf_clear(&said);
    for (int i = 0; i < out.n; i++)
        say(&out.list[i]);
    agent_effects_fini(&out);
    return said.data ? said.data : "";
}

#define expect(what, text) assert_string_equal(what, text)

static inline const char *launch(int np, bool engine, bool setup)
{
    return feed((struct agent_input){.kind = INPUT_LAUNCH,
                                     .launch = {.np = np,
                                                .engine = engine,
                                                .has_setup = setup,
                                                .budget = {10, 5000, 300000, 3},
                                                .history = {0, 0, 0, ""}}});
}

static inline const char *spawned(int generation)
{
    static const int64_t pids[] = {101, 102, 103, 104};
    return feed((struct agent_input){.kind = INPUT_SPAWNED,
                                     .spawn = {.generation = generation, .pids = pids}});
}

static inline const char *exited(int generation, int rank, int code)
{
    return feed((struct agent_input){
        .kind = INPUT_RANK_EXITED,
        .exited = {
            .generation = generation, .rank = rank, .exit_code = code, .last_lines = "a\nb\n"}});
}

static inline const char *killed(int generation, int rank, int signo)
{
    return feed((struct agent_input){
        .kind = INPUT_RANK_EXITED,
        .exited = {.generation = generation, .rank = rank, .signalled = true, .signo = signo}});
}

static inline const char *cleaned(bool clean)
{
    return feed((struct agent_input){.kind = INPUT_CLEANED,
                                     .jitter = 0,
                                     .cleaned = {.clean = clean, .left = clean ? NULL : "9 (x)"}});
}

static inline const char *line(int generation, int rank, const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    assert_non_null(v);
    const char *out =
        feed((struct agent_input){
            .kind = INPUT_PROGRESS,
            .progress = {.generation = generation, .rank = rank, .line = v}});
    json_decref(v);
    return out;
}

static inline const char *timer(int64_t at)
{
    now = at;
    return feed((struct agent_input){.kind = INPUT_TIMER});
}

static inline const char *stop(int64_t grace_ms, bool checkpoint)
{
    return feed((struct agent_input){.kind = INPUT_STOP,
                                     .stop = {"cancelled by a person", grace_ms, checkpoint, false}});
}

static inline const char *hang(int generation, int rank, bool init)
{
    return feed((struct agent_input){.kind = INPUT_HANG,
                                     .hang = {.generation = generation,
                                              .rank = rank,
                                              .init = init,
                                              .text = "rank 1 stands still"}});
}

/* Node 1 of two, with ranks 2 and 3. */
static inline const char *lost(void)
{
    return feed((struct agent_input){.kind = INPUT_NODE_LOST,
                                     .lost = {.node = 1,
                                              .name = "n1",
                                              .text = "n1 sent no heartbeat for 22 s",
                                              .first_rank = 2,
                                              .ranks = 2}});
}

static inline const char *reported(int generation)
{
    json_t *body = json_pack("{s:s}", "path", "/run/incident-1.txt");
    const char *out =
        feed((struct agent_input){.kind = INPUT_REPORTED, .reported = {generation, body}});
    json_decref(body);
    return out;
}

static inline const char *field(const char *key)
{
    static char text[512];
    char *dump = json_dumps(json_object_get(last_event, key), JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, sizeof(text), "%s", dump ? dump : "-");
    free(dump);
    return text;
}

static inline void one_generation_fails(int generation, int code)
{
    spawned(generation);
    exited(generation, 0, code);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

#endif
