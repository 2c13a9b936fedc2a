/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph.c - a part of a step runs, is recorded, is replayed; fallbacks without graphs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/model/graph.h"
#include "kernels/cuda.h"

/* A device that appends a letter per call: a string shows what has run. */
static struct {
    char     ran[1024];
    int      recording, live;
    char     written[16];
    char     kept[128][16];
    int      made;
    int      refuse_begin, refuse_end;
    unsigned moves;
} device;

static int begin(void)
{
    if (device.refuse_begin)
        return -1;
    assert_false(device.recording);
    device.recording = 1;
    device.written[0] = '\0';
    return 0;
}

static void *end(void)
{
    assert_true(device.recording);
    device.recording = 0;
    if (device.refuse_end)
        return NULL;
    device.live++;
    memcpy(device.kept[device.made], device.written, sizeof(device.written));
    return device.kept[device.made++];
}

static void run(void *graph)
{
    assert_false(device.recording);
    strcat(device.ran, "(");
    strcat(device.ran, graph);
    strcat(device.ran, ")");
}

static void drop(void *graph)
{
    assert_non_null(graph);
    device.live--;
}

static unsigned moves(void)
{
    return device.moves;
}

static const struct kern_graphs table = {begin, end, run, drop, moves};

static int ask(void *arg, struct err *err)
{
    const char *letter = *(const char **)arg;
    if (*letter == '!')
        return err_set(err, ERR_DATA, "no");
    strcat(device.recording ? device.written : device.ran, letter);
    return 0;
}

static int setup(void **state)
{
    memset(&device, 0, sizeof(device));
    *state = graphs_create(&table);
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    graphs_destroy(*state);
    assert_int_equal(device.live, 0);
    return 0;
}

static int once(struct graphs *g, int batch, const char *letter)
{
    struct err err = {0};
    const struct graph_key key = {.batch = batch, .weight = 0.5};
    return graphs_run(g, &key, ask, &letter, &err);
}

static void ran(const char *want)
{
    assert_string_equal(device.ran, want);
}

static void the_second_run_is_recorded(void **state)
{
    for (int i = 0; i < 4; i++)
        assert_int_equal(once(*state, 1, "a"), 0);
    ran("a(a)(a)(a)");
    assert_int_equal(device.made, 1);
}

static void each_key_has_its_own(void **state)
{
    struct err err = {0};
    struct graph_key key = {.part = 1, .batch = 1, .height = 2, .width = 3, .text = 4,
                            .weight = 0.5, .rows = 9};
    const char *k = "k", *o = "o";
    struct graph_key other[8];
    for (int i = 0; i < 8; i++)
        other[i] = key;
    other[0].part = 0;
    other[1].batch = 2;
    other[2].height = 1;
    other[3].width = 1;
    other[4].text = 1;
    other[5].weight = 0.25;
    other[6].rows = 8;
    other[7].weight = 0.75;
    for (int i = 0; i < 2; i++)
        assert_int_equal(graphs_run(*state, &key, ask, &k, &err), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(graphs_run(*state, &other[i], ask, &o, &err), 0);
    assert_int_equal(graphs_run(*state, &key, ask, &k, &err), 0);
    ran("k(k)oooooooo(k)");
}

static void reallocated_memory_voids_a_recording(void **state)
{
    once(*state, 1, "a");
    once(*state, 1, "a");
    device.moves++;
    once(*state, 1, "b");
    once(*state, 1, "c");
    ran("a(a)(b)(b)");
    assert_int_equal(device.live, 1);
}

static void the_least_recently_used_makes_room(void **state)
{
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 64; i++)
            once(*state, i, "x");
    assert_int_equal(device.live, 64);
    once(*state, 64, "x"); /* in place of 0 */
    assert_int_equal(device.live, 63);
    device.ran[0] = '\0';
    once(*state, 1, "x");
    once(*state, 0, "x");
    ran("(x)x");
    device.ran[0] = '\0';
    once(*state, 1, "x"); /* seen before 2, but used after it: 2 has made room for 0 */
    once(*state, 2, "x");
    ran("(x)x");
}

static void without_recording_all_calls_run(void **state)
{
    device.refuse_end = 1;
    once(*state, 1, "a");
    once(*state, 1, "a");
    once(*state, 2, "b");
    device.refuse_end = 0;
    once(*state, 2, "b");
    ran("aabb");
    assert_int_equal(device.made, 0);
}

static void without_begin_all_calls_run(void **state)
{
    device.refuse_begin = 1;
    once(*state, 1, "a");
    once(*state, 1, "a");
    ran("aa");
}

static void a_failure_is_returned(void **state)
{
    once(*state, 1, "a");
    assert_int_equal(once(*state, 1, "!"), -1);
    assert_int_equal(device.live, 0);
    once(*state, 1, "a");
    ran("a(a)");
}

static void without_a_device_everything_runs(void **state)
{
    (void)state;
    struct graphs *g = graphs_create(NULL);
    assert_null(g);
    once(g, 1, "a");
    once(g, 1, "a");
    ran("aa");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_second_run_is_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(each_key_has_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(reallocated_memory_voids_a_recording, setup, teardown),
        cmocka_unit_test_setup_teardown(the_least_recently_used_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(without_recording_all_calls_run, setup, teardown),
        cmocka_unit_test_setup_teardown(without_begin_all_calls_run, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_is_returned, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_device_everything_runs, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
