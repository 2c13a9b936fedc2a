/* SPDX-License-Identifier: Apache-2.0 */
/* background.h - runs one call at a time on a separate thread
 *
 * The owner starts a call, and waits for its end before it touches what the call uses.  If the system has no thread
 * left, the call runs at once in its caller.
 */
#ifndef ENGINE_DATA_BACKGROUND_H
#define ENGINE_DATA_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>

struct background {
    pthread_t thread;
    bool      busy; /* started, and not waited for */
    void (*call)(void *arg);
    void *arg;
};

/* Starts a call, on a zeroed struct or after background_wait(). Signals go to other threads. */
void background_start(struct background *b, void (*call)(void *arg), void *arg);
/* Waits until the last call has returned; returns at once if there is none. */
void background_wait(struct background *b);

#endif
