/* SPDX-License-Identifier: Apache-2.0 */
/* background.c - see background.h */
#include "engine/data/background.h"

#include <signal.h>
#include <stddef.h>

static void *run(void *arg)
{
    struct background *b = arg;
    b->call(b->arg);
    return NULL;
}

void background_start(struct background *b, void (*call)(void *arg), void *arg)
{
    sigset_t all, before;
    b->call = call;
    b->arg = arg;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    b->busy = pthread_create(&b->thread, NULL, run, b) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!b->busy)
        call(arg);
}

void background_wait(struct background *b)
{
    if (b->busy)
        pthread_join(b->thread, NULL);
    b->busy = false;
}
