/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c - see interrupt.h */
#include "controller/cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile int asked;

static void note(int signo)
{
    asked = signo;
}

void interrupt_clear(void)
{
    asked = 0;
}

const volatile int *interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART}; /* a write is not cut */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &asked;
}
