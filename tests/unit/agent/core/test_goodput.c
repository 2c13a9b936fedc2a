/* SPDX-License-Identifier: Apache-2.0 */
/* test_goodput.c - every millisecond of a rank is in one bucket, whatever is known about it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "agent/core/goodput.h"

static const struct {
    const char       *what;
    struct spell      spell;
    struct spell_rank rank;
    int64_t           productive, replayed, init, data, checkpoint, hang, restart, disk;
} cases[] = {
    /*                 wall started fresh last failed hung     exit init data checkpoint */
    { "ended well", { 1000, 100, 100, 990, -1, false, 0, -1 }, { 1000, 0, 50, 150 },
      700, 0, 100, 50, 150, 0, 0, 0 },
    { "a neighbour died: waiting for it is restart", { 1000, 100, 100, 600, 700, false, 0, -1 },
      { 950, 0, 0, 0 }, 500, 100, 100, 0, 0, 0, 300, 0 },
    { "steps made again before new ones", { 1000, 100, 400, 900, -1, false, 0, -1 }, { 1000, 0, 0, 0 },
      600, 300, 100, 0, 0, 0, 0, 0 },
    { "nothing new came", { 1000, 100, -1, 800, 900, false, 0, -1 }, { 900, 0, 0, 0 },
      0, 800, 100, 0, 0, 0, 100, 0 },
    { "it stood still", { 9000, 100, 100, 2000, 8000, true, 0, -1 }, { 8900, 0, 0, 0 },
      1900, 0, 100, 0, 0, 6000, 1000, 0 },
    { "it never came to a step", { 3000, -1, -1, -1, 2500, false, 0, -1 }, { 2500, 2400, 0, 0 },
      0, 100, 2400, 0, 0, 0, 500, 0 },
    { "a command that says nothing", { 1000, -1, -1, -1, -1, false, 0, -1 }, { 990, 0, 0, 0 },
      990, 0, 0, 0, 0, 0, 10, 0 },
    { "a script that makes steps again, and no new ones", { 1000, -1, -1, 990, -1, false, 0, -1 },
      { 1000, 0, 0, 0 }, 0, 1000, 0, 0, 0, 0, 0, 0 },
    { "a script that makes steps again, then new ones", { 1000, -1, 600, 990, -1, false, 0, -1 },
      { 1000, 0, 0, 0 }, 400, 600, 0, 0, 0, 0, 0, 0 },
    { "a script whose steps are new from its begin", { 1000, -1, 0, 900, 950, false, 0, -1 },
      { 950, 0, 0, 0 }, 900, 50, 0, 0, 0, 0, 50, 0 },
    { "a command that fails", { 1000, -1, -1, -1, 990, false, 0, -1 }, { 990, 0, 0, 0 },
      0, 990, 0, 0, 0, 0, 10, 0 },
    { "phases longer than the life", { 100, 10, 10, 100, -1, false, 0, -1 }, { 100, 500, 900, 900 },
      0, 0, 100, 0, 0, 0, 0, 0 },
    { "a full disk, then room", { 1000, 100, 100, 990, -1, false, 300, -1 }, { 1000, 0, 0, 340 },
      560, 0, 100, 0, 40, 0, 0, 300 },
    { "a full disk until it gave up", { 1000, 100, 100, 400, 900, false, 0, 450 }, { 900, 0, 0, 450 },
      300, 50, 100, 0, 0, 0, 100, 450 },
    { "stopped while it waited", { 1000, 100, 100, 400, -1, false, 50, 450 }, { 1000, 0, 0, 600 },
      300, 0, 100, 0, 0, 0, 0, 600 },
    { "killed while it waited, after steps made again", { 1000, 100, -1, 400, 950, false, 200, 450 },
      { 950, 0, 0, 0 }, 0, 150, 100, 0, 0, 0, 50, 700 },
    { "data was encoded first", { 1000, 700, 700, 990, -1, false, 0, -1 }, { 1000, 100, 650, 0 },
      250, 0, 100, 650, 0, 0, 0, 0 },
    { "killed while it encoded data", { 1000, -1, -1, -1, 900, false, 0, -1 }, { 900, 100, 780, 0 },
      0, 20, 100, 780, 0, 0, 100, 0 },
    { "nothing makes sense", { -5, -9, 70, -3, -1, true, 0, -1 }, { 99, -1, -1, -1 },
      0, 0, 0, 0, 0, 0, 0, 0 },
};

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct goodput s = { 0 };
        goodput_rank(&s, &cases[i].spell, &cases[i].rank);
        const int64_t want[BUCKETS] = { cases[i].productive, cases[i].replayed, cases[i].init,
                                        cases[i].data, cases[i].checkpoint, cases[i].disk,
                                        cases[i].hang, cases[i].restart, 0, 0 };
        for (int b = 0; b < BUCKETS; b++)
            if (s.ms[b] != want[b])
                fail_msg("%s: %lld ms %s, expected %lld", cases[i].what, (long long)s.ms[b],
                         bucket_name((enum bucket)b), (long long)want[b]);
        assert_true(goodput_adds_up(&s));
    }
}

static void anything(void **state)
{
    (void)state;
    srand(7);
    for (int i = 0; i < 20000; i++) {
        struct goodput s = { 0 };
        int64_t v[12];
        for (int j = 0; j < 12; j++)
            v[j] = rand() % 1200 - 100;
        const struct spell spell = { v[0], v[1], v[2], v[3], v[4] < 300 ? -1 : v[4], v[5] > 500,
                                     v[10], v[11] };
        const struct spell_rank rank = { v[6], v[7], v[8], v[9] };
        goodput_rank(&s, &spell, &rank);
        goodput_rank(&s, &spell, &rank);
        assert_true(goodput_adds_up(&s));
        assert_int_equal(s.rank_ms, v[0] > 0 ? 2 * v[0] : 0);
        struct goodput back;
        json_t *body = goodput_print(&s);
        assert_int_equal(goodput_parse(&back, body), 0);
        assert_memory_equal(&back, &s, sizeof(s));
        json_object_set_new(body, "hang", json_integer(s.ms[BUCKET_HANG] + 1));
        assert_int_equal(goodput_parse(&back, body), -1);
        json_decref(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(table), cmocka_unit_test(anything) };
    return cmocka_run_group_tests_name("spending", tests, NULL, NULL);
}
