/* SPDX-License-Identifier: Apache-2.0 */
/* test_nccl_watch.c - NCCL's log, from its files or the ranks' output: when it is judged, once, and up to which size */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/monitor/nccl_watch.h"
#include "tests/unit/engine/contract/scratch_dir.h"

#define AT   "node1:4242:4300 [0] NCCL INFO "
#define PAIR AT "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
#define NET  AT "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n"

static char dir[80];
static json_t *plan, *facts;
static struct nccl_watch *w;

/* A plan of ranks `first` and `first` + 1; `env`: its environment as JSON. */
static void begin(int first, const char *env)
{
    char text[600];
    snprintf(text, sizeof(text), "{\"nodes\":1,\"env\":%s,\"ranks\":[{\"rank\":%d,\"gpu\":\"GPU-0\"},"
             "{\"rank\":%d,\"gpu\":\"GPU-1\"}]}", env, first, first + 1);
    plan = json_loads(text, 0, NULL);
    facts = json_pack("{s:o}", "nccl_log", nccl_watch_place(dir));
    assert_true(plan && facts);
    w = nccl_watch_create(plan, facts);
    assert_non_null(w);
    nccl_watch_begin(w);
}

static char in_files[200];

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "nccl");
    snprintf(in_files, sizeof(in_files), "[{\"name\":\"NCCL_DEBUG_FILE\",\"value\":\"%s/nccl.%%h.%%p\"}]", dir);
    return 0;
}

static int down(void **state)
{
    (void)state;
    nccl_watch_destroy(w);
    json_decref(plan);
    json_decref(facts);
    w = NULL;
    plan = facts = NULL;
    return scratch_dir_remove(dir);
}

static void put(const char *name, const char *text)
{
    char path[120];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Looks at a time; is there an event? */
static bool look(int64_t now)
{
    json_t *body = nccl_watch_look(w, now);
    json_decref(body);
    return body != NULL;
}

/* Three seconds after the log last grew, and again only if it says something else. */
static void files_are_judged_once(void **state)
{
    (void)state;
    begin(0, in_files);
    assert_false(look(0));
    put("other", PAIR); /* not NCCL's */
    assert_false(look(1000) || look(9000));
    put("nccl.node1.1", AT "Using network Socket\n");
    assert_false(look(10000) || look(20000)); /* no connections yet */
    put("nccl.node1.2", NET);
    assert_false(look(21000) || look(23999));
    put("nccl.node1.1", AT "more\n");
    assert_false(look(24000) || look(26999));
    assert_true(look(27000));
    put("nccl.node1.2", PAIR);
    assert_false(look(28000) || look(40000)); /* known for this generation */
    nccl_watch_begin(w);
    char path[120];
    snprintf(path, sizeof(path), "%s/nccl.node1.1", dir);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/other", dir);
    assert_int_equal(access(path, F_OK), 0);
    put("nccl.node1.3", AT "Using network Socket\n" NET);
    assert_false(look(50000) || look(53000)); /* the same again */
    nccl_watch_begin(w);
    put("nccl.node1.4", AT "Using network Socket\n" PAIR);
    assert_false(look(60000));
    assert_true(look(63000));
}

/* Output comes in pieces; of a line that is too long the beginning counts; ranks of other nodes are none of ours. */
static void output_is_put_together(void **state)
{
    (void)state;
    static const char pair[] = AT "Channel 00/0 : 4[0] -> 5[1] via P2P/IPC\n";
    char longer[3000];
    begin(4, "[]");
    nccl_watch_output(w, 3, pair, strlen(pair));
    nccl_watch_output(w, 6, pair, strlen(pair));
    assert_false(look(0) || look(9000));
    memset(longer, 'x', sizeof(longer));
    nccl_watch_output(w, 5, longer, sizeof(longer));
    nccl_watch_output(w, 5, "\n", 1);
    nccl_watch_output(w, 4, pair, 20);
    nccl_watch_output(w, 5, "x\n", 2); /* the pieces of one rank belong together */
    assert_false(look(10000) || look(20000));
    nccl_watch_output(w, 4, pair + 20, strlen(pair) - 20);
    assert_false(look(21000));
    assert_true(look(24000));
    nccl_watch_begin(w);
    memcpy(longer, pair, strlen(pair) - 1);
    longer[strlen(pair) - 1] = ' ';
    nccl_watch_output(w, 5, longer, sizeof(longer)); /* ends with the generation */
    nccl_watch_begin(w);
    nccl_watch_output(w, 5, "\n", 1);
    assert_false(look(30000) || look(40000));
    nccl_watch_output(w, 5, longer, sizeof(longer));
    nccl_watch_output(w, 5, "\n", 1);
    assert_false(look(41000));
    json_t *body = nccl_watch_look(w, 44000); /* NULL: the same as in the first generation */
    assert_null(body);
    nccl_watch_output(NULL, 5, "\n", 1);
}

/* Warnings come before the rank's own lines: those at the end of long files, up to 4 KiB of them. */
static void warnings_are_evidence(void **state)
{
    (void)state;
    char text[9000];
    begin(0, in_files);
    assert_string_equal(nccl_watch_evidence(w, "lines"), "lines");
    put("nccl.a.1", AT "quiet\nnode1:1:1 [0] NCCL WARN first\n");
    assert_string_equal(nccl_watch_evidence(w, "lines"), "node1:1:1 [0] NCCL WARN first\nlines");
    assert_string_equal(nccl_watch_evidence(w, NULL), "node1:1:1 [0] NCCL WARN first\n");
    assert_string_equal(nccl_watch_evidence(NULL, "lines"), "lines");
    memset(text, '.', sizeof(text));
    for (size_t i = 99; i < sizeof(text); i += 100)
        text[i] = '\n';
    text[sizeof(text) - 1] = '\0';
    put("nccl.a.1", text); /* the first one is more than 8 KiB before the end now */
    put("nccl.a.1", "\nnode1:1:1 [0] NCCL WARN last\n");
    assert_string_equal(nccl_watch_evidence(w, "lines"), "node1:1:1 [0] NCCL WARN last\nlines");
    for (int i = 0; i < 200; i++)
        put("nccl.b.1", "NCCL WARN 0123456789012345678901234567890\n");
    const char *all = nccl_watch_evidence(w, "lines");
    assert_in_range(strlen(all), 4000, 4096 + 5);
    assert_string_equal(all + strlen(all) - 6, "\nlines");
}

static void where_nothing_is_watched(void **state)
{
    (void)state;
    json_t *one = json_loads("{\"nodes\":1,\"ranks\":[{\"rank\":0,\"gpu\":\"GPU-0\"}]}", 0, NULL);
    json_t *cpu = json_loads("{\"nodes\":2,\"ranks\":[{\"rank\":0,\"gpu\":null}]}", 0, NULL);
    json_t *two = json_loads("{\"nodes\":2,\"ranks\":[{\"rank\":0,\"gpu\":\"GPU-0\"}]}", 0, NULL);
    assert_null(nccl_watch_create(one, NULL));
    assert_null(nccl_watch_create(cpu, NULL));
    struct nccl_watch *alone = nccl_watch_create(two, NULL); /* one rank on each of two nodes */
    assert_non_null(alone);
    nccl_watch_destroy(alone);
    assert_null(nccl_watch_look(NULL, 0));
    nccl_watch_begin(NULL);
    assert_null(nccl_watch_place("/a%b"));
    json_decref(one);
    json_decref(cpu);
    json_decref(two);
    begin(0, "[{\"name\":\"NCCL_DEBUG\",\"value\":\"WARN\"}]"); /* the job wants warnings only: its output tells nothing */
    nccl_watch_output(w, 0, PAIR, strlen(PAIR));
    assert_false(look(0) || look(9000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_judged_once, up, down),
        cmocka_unit_test_setup_teardown(output_is_put_together, up, down),
        cmocka_unit_test_setup_teardown(warnings_are_evidence, up, down),
        cmocka_unit_test_setup_teardown(where_nothing_is_watched, up, down),
    };
    return cmocka_run_group_tests_name("nccl_watch", tests, NULL, NULL);
}
