/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <glob.h>

#include "agent/core/agent_event.h"
#include "controller/job/event_kind.h"

/* The agent's list and the controller's rows for agents are the same set. */
static void same_kinds(void **state)
{
    (void)state;
    int listed = 0, rows = 0;
    for (; agent_event_kinds[listed]; listed++)
        if (!event_kind_is(event_kind_of(agent_event_kinds[listed]), EVENT_IS_AGENTS))
            fail_msg("an agent sends '%s', which has no row", agent_event_kinds[listed]);
    for (int i = 1; i < EVENT_KINDS; i++) {
        assert_int_equal(event_kind_of(event_kind_name((enum event_kind)i)), i);
        rows += event_kind_is((enum event_kind)i, EVENT_IS_AGENTS);
    }
    assert_int_equal(listed, rows);
    assert_int_equal(event_kind_of("of a newer agent"), EVENT_UNKNOWN);
    assert_int_equal(event_kind_of(NULL), EVENT_UNKNOWN);
}

/* Marks the kinds that a source of the agent names. */
static void mark(bool *found, const char *path)
{
    static char text[200000];
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = 0;
    fclose(f);
    for (int i = 0; agent_event_kinds[i]; i++) {
        char literal[40];
        snprintf(literal, sizeof(literal), "\"%s\"", agent_event_kinds[i]);
        found[i] |= strstr(text, literal) != NULL;
    }
    for (int k = 0; k < 2; k++) {       /* what is sent by a name is in the list */
        const char *call = k ? "attempt_store(a, \"" : "agent_effects_event(out, \"";
        for (const char *at = text; (at = strstr(at, call)); at++) {
            char name[40] = "";
            sscanf(at + strlen(call), "%39[^\"]", name);
            if (!event_kind_is(event_kind_of(name), EVENT_IS_AGENTS))
                fail_msg("%s sends '%s', which is in no list", path, name);
        }
    }
}

/* No kind is left over: the sources of the agent name each one. */
static void none_unused(void **state)
{
    (void)state;
    bool found[EVENT_KINDS] = { false };
    glob_t files;
    assert_int_equal(glob("agent/*/*.c", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++)
        if (!strstr(files.gl_pathv[i], "agent_event.c"))
            mark(found, files.gl_pathv[i]);
    globfree(&files);
    for (int i = 0; agent_event_kinds[i]; i++)
        if (!found[i])
            fail_msg("no agent sends '%s'", agent_event_kinds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_kinds), cmocka_unit_test(none_unused) };
    return cmocka_run_group_tests_name("event_kind", tests, NULL, NULL);
}
