/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease_rule.c - a table of checks of a lease, on a virtual clock: taken, left alone, watched */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/os/lease_rule.h"

enum { WAIT = 3000, LOOKS = 8 };

static const char *const words[] = {
    [LEASE_FREE] = "free", [LEASE_DEAD] = "dead", [LEASE_SILENT] = "silent",
    [LEASE_HELD] = "held", [LEASE_FOREIGN] = "foreign", [LEASE_WATCH] = "watch",
};

struct seen {
    int64_t at_ms, token, beat;
    const char *holder; /* "elsewhere", or on this machine "alive", "stopped", "gone"; or "released" */
};

static const struct {
    const char *what, *origin;
    struct seen looks[LOOKS]; /* as far as there is a holder word */
    const char *expect;
} cases[] = {
    {"nobody has it", NULL, {{5, 0, 0, "nobody"}}, "free"},
    {"its holder released it", NULL, {{5, 1, 7, "released"}}, "free"},
    {"its holder is proven dead", NULL, {{5, 1, 7, "gone"}}, "dead"},
    {"its holder lives here", NULL, {{5, 1, 7, "alive"}}, "held"},
    {"another job's mirror", "mine", {{5, 1, 7, "gone"}}, "foreign"},
    {"another job's mirror, released", "mine", {{5, 1, 7, "released"}}, "foreign"},
    {"this job's mirror", "theirs", {{5, 1, 7, "gone"}}, "dead"},
    {"a holder elsewhere shows its beat", NULL,
     {{5, 1, 7, "elsewhere"}, {900, 1, 7, "elsewhere"}, {1800, 1, 8, "elsewhere"}}, "watch watch held"},
    {"a holder elsewhere is silent", NULL,
     {{5, 1, 7, "elsewhere"}, {1000, 1, 7, "elsewhere"}, {1990, 1, 7, "elsewhere"}, {2900, 1, 7, "elsewhere"},
      {3005, 1, 7, "elsewhere"}}, "watch watch watch watch silent"},
    {"a holder elsewhere releases it meanwhile", NULL, {{5, 1, 7, "elsewhere"}, {900, 1, 7, "released"}},
     "watch free"},
    {"another taker was faster", NULL, {{5, 1, 7, "elsewhere"}, {900, 2, 0, "elsewhere"}}, "watch held"},
    {"the taker slept: it has not watched", NULL,
     {{5, 1, 7, "elsewhere"}, {90000, 1, 7, "elsewhere"}, {180000, 1, 7, "elsewhere"}, {270000, 1, 7, "elsewhere"}},
     "watch watch watch silent"},
    {"a holder here is stopped by a signal, and goes on", NULL,
     {{5, 1, 7, "stopped"}, {900, 1, 7, "stopped"}, {1800, 1, 7, "alive"}}, "watch watch held"},
    {"a holder here is stopped by a signal for long", NULL,
     {{5, 1, 7, "stopped"}, {1005, 1, 7, "stopped"}, {2005, 1, 7, "stopped"}, {3005, 1, 7, "stopped"}},
     "watch watch watch silent"},
    {"a holder here is stopped, and dies", NULL, {{5, 1, 7, "stopped"}, {900, 1, 7, "gone"}}, "watch dead"},
};

static struct lease_look look_of(const struct lease_record *h, const struct seen *s)
{
    const bool alive = strcmp(s->holder, "alive") == 0, stopped = strcmp(s->holder, "stopped") == 0;
    return (struct lease_look){.holder = h,
                               .here = alive || stopped || strcmp(s->holder, "gone") == 0,
                               .alive = alive || stopped,
                               .stopped = stopped,
                               .now_ms = s->at_ms};
}

static void looks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lease_watch w = {.token = 0};
        char got[128] = "";
        for (size_t k = 0; k < LOOKS && cases[i].looks[k].holder; k++) {
            const struct seen *s = &cases[i].looks[k];
            const struct lease_record h = {.origin = "theirs", .token = s->token, .beat = s->beat,
                                           .released = strcmp(s->holder, "released") == 0};
            const struct lease_look look = look_of(&h, s);
            const size_t n = strlen(got);
            snprintf(got + n, sizeof(got) - n, "%s%s", n ? " " : "",
                     words[lease_rule(&w, &look, cases[i].origin, WAIT)]);
        }
        if (strcmp(got, cases[i].expect) != 0)
            fail_msg("%s:\n  got      %s\n  expected %s", cases[i].what, got, cases[i].expect);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(looks)};
    return cmocka_run_group_tests_name("lease_rule", tests, NULL, NULL);
}
