/* SPDX-License-Identifier: Apache-2.0 */
/* event_loop.h - opens an event loop, or says why there is none
 *
 * libuv aborts when its first loop of a process finds no free descriptor; here that is a sentence on stderr, which
 * is the log of daemon and agents, and exit code 4.
 */
#ifndef AGENT_OS_EVENT_LOOP_H
#define AGENT_OS_EVENT_LOOP_H

#include <uv.h>

struct err;

int event_loop_open(uv_loop_t *loop, struct err *err);

#endif
