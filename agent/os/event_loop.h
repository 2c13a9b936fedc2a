/* SPDX-License-Identifier: Apache-2.0 */
/* event_loop.h - opens an event loop, or reports why it cannot
 *
 * libuv aborts when a process's first loop finds no free descriptor; here that becomes a message on stderr (the log of
 * daemon and agents) and exit code 4.
 */
#ifndef AGENT_OS_EVENT_LOOP_H
#define AGENT_OS_EVENT_LOOP_H

#include <uv.h>

struct err;

int event_loop_open(uv_loop_t *loop, struct err *err);

#endif
