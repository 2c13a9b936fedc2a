/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c - see interrupt.h */
#include "controller/cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile int asked, again;

static void note(int signo)
{
    if (asked)
        again = signo;
    else
        asked = signo;
}

void interrupt_clear(void)
{
    asked = again = 0;
}

static void set(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}; /* a write is not cut */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

const volatile int *interrupt_catch(void)
{
    set(note);
    return &asked;
}

const volatile int *interrupt_catch_second(void)
{
    set(note);
    return &again;
}

int interrupt_end(void)
{
    set(SIG_DFL);
    return asked;
}
