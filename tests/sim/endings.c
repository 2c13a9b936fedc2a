/* SPDX-License-Identifier: Apache-2.0 */
/* endings.c - see world.h: how a rank can end, in every way that agent/core/cause.h knows */
#include "agent/core/agent_core.h"
#include "engine/contract/exit_code.h"
#include "tests/sim/world.h"

/* `reported` is the cause in its own last line. */
static const struct ending {
    int         code, signo;
    bool        oom;
    const char *reported, *lines;
    bool        final;          /* the same again would end the same */
} endings[] = {
    { .signo = 9 },
    { .signo = 11 },
    { .signo = 9, .oom = true },
    { .code = EXIT_CHECKPOINT },
    { .code = EXIT_BUG },
    { .code = EXIT_HOST_MEMORY },
    { .code = EXIT_GPU_MEMORY },
    { .code = EXIT_GPU_FAULT },
    { .code = EXIT_COLLECTIVE },
    { .code = EXIT_NAN },
    { .code = EXIT_DESYNC },
    { .code = EXIT_DISK_FULL },
    { .code = EXIT_ABORTED },
    { .code = EXIT_COLLECTIVE, .reported = "node_lost" },
    { .code = EXIT_ABORTED, .reported = "time_limit" },
    { .code = 1 },
    { .code = 1, .lines = "RuntimeError: CUDA out of memory" },
    { .code = 137 },
    { .code = EXIT_DATA, .final = true },
    { .code = EXIT_CONFIG, .final = true },
    { .code = 1, .lines = "ncclInvalidUsage: Duplicate GPU detected", .final = true },
    { .code = 64, .reported = "duplicate_gpu", .final = true },
    { .signo = 4, .final = true },
    /* Drawn in the place of a full disk, now and then: a seed means the same as before they came. */
    { .code = EXIT_IO },
    { .code = EXIT_LIMIT },
    { .code = EXIT_DIR_IN_USE },
    { .code = EXIT_NETWORK },
    { .code = EXIT_CUDA },
};
enum { ENDINGS = sizeof(endings) / sizeof(endings[0]), LATE = 5, DRAWN = ENDINGS - LATE };

_Static_assert(ENDINGS > ENDS_ALONE - ROWS_FROM, "a row that has a name is missing");

int ending_draw(struct world *w)
{
    int row = (int)between(w, 0, DRAWN - 1);
    const int late = (int)(w->order % (LATE + 1));
    if (endings[row].code == EXIT_DISK_FULL && late < LATE)
        row = DRAWN + late;
    return ROWS_FROM + (endings[row].final && chance(w) % 4 != 0 ? 0 : row);
}

struct agent_exit ending_exit(int how, const char **reported)
{
    static const struct agent_exit plain[ROWS_FROM] = {
        /* A mistake of the script, before its first step: a command's job is soon given up. */
        [CRASHES] = { .exit_code = 3,
                      .last_lines = "Traceback (most recent call last):\n  File \"train.py\", line 41, in <module>\n"
                                    "KeyError: 'lr'\n" },
        [HEEDS] = { .exit_code = EXIT_ABORTED },
        [DIES_OF_TERM] = { .signalled = true, .signo = 15 },
        [IS_KILLED] = { .signalled = true, .signo = 9 },
        [GIVES_UP] = { .exit_code = EXIT_COLLECTIVE },
        [FULL_DISK] = { .exit_code = EXIT_DISK_FULL },
    };
    *reported = NULL;
    if (how < ROWS_FROM)
        return plain[how];
    const struct ending *e = &endings[how - ROWS_FROM];
    *reported = e->reported;
    return (struct agent_exit){ .signalled = e->signo != 0, .signo = e->signo,
                                .exit_code = e->code, .oom_killed = e->oom,
                                .last_lines = e->lines };
}
