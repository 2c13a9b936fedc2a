/* SPDX-License-Identifier: Apache-2.0 */
/* test_goodput.c - every millisecond of a rank is in one bucket, whatever is known of it */
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
    int64_t           productive, replayed, init, data, checkpoint, hang, restart;
} cases[] = {
    /*                 wall started fresh last failed hung     exit init data checkpoint */
    { "ended well", { 1000, 100, 100, 990, -1, false }, { 1000, 0, 50, 150 },
      700, 0, 100, 50, 150, 0, 0 },
    { "a neighbour died: waiting for it is restart", { 1000, 100, 100, 600, 700, false },
      { 950, 0, 0, 0 }, 500, 100, 100, 0, 0, 0, 300 },
    { "steps made again before new ones", { 1000, 100, 400, 900, -1, false }, { 1000, 0, 0, 0 },
      600, 300, 100, 0, 0, 0, 0 },
    { "nothing new came", { 1000, 100, -1, 800, 900, false }, { 900, 0, 0, 0 },
      0, 800, 100, 0, 0, 0, 100 },
    { "it stood still", { 9000, 100, 100, 2000, 8000, true }, { 8900, 0, 0, 0 },
      1900, 0, 100, 0, 0, 6000, 1000 },
    { "it never came to a step", { 3000, -1, -1, -1, 2500, false }, { 2500, 2400, 0, 0 },
      0, 100, 2400, 0, 0, 0, 500 },
    { "a command that says nothing", { 1000, -1, -1, -1, -1, false }, { 990, 0, 0, 0 },
      990, 0, 0, 0, 0, 0, 10 },
    { "a command that fails", { 1000, -1, -1, -1, 990, false }, { 990, 0, 0, 0 },
      0, 990, 0, 0, 0, 0, 10 },
    { "phases longer than the life", { 100, 10, 10, 100, -1, false }, { 100, 500, 900, 900 },
      0, 0, 100, 0, 0, 0, 0 },
    { "nothing makes sense", { -5, -9, 70, -3, -1, true }, { 99, -1, -1, -1 },
      0, 0, 0, 0, 0, 0, 0 },
};

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct goodput s = { 0 };
        goodput_rank(&s, &cases[i].spell, &cases[i].rank);
        const int64_t want[BUCKETS] = { cases[i].productive, cases[i].replayed, cases[i].init,
                                        cases[i].data, cases[i].checkpoint, cases[i].hang,
                                        cases[i].restart, 0, 0 };
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
        int64_t v[10];
        for (int j = 0; j < 10; j++)
            v[j] = rand() % 1200 - 100;
        const struct spell spell = { v[0], v[1], v[2], v[3], v[4] < 300 ? -1 : v[4], v[5] > 500 };
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
