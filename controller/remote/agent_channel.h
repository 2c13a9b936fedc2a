/* SPDX-License-Identifier: Apache-2.0 */
/* agent_channel.h - how an agent is heard to which the controller cannot connect
 *
 *   it calls     over TLS (controller/remote/agent_listener.h,
                            agent/wire/call_home.h): the way that is wanted. It says something
 *                each second; after AGENT_CHANNEL_SILENT_MS of silence the connection is given up
 *   files        that both see (agent/wire/file_channel.h): when it has not called for AGENT_CHANNEL_WAIT_MS, or
 *                JOBCTL_CALL_WAIT_S seconds
 *
 * One that calls is heard so from then on, whatever was before; one whose connection has ended has that
 * time to call again; where files are used meanwhile the agent gives it up, too. The conversation, link->stream, is the same either way.
 */
#ifndef CONTROLLER_REMOTE_AGENT_CHANNEL_H
#define CONTROLLER_REMOTE_AGENT_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/remote/remote_link.h"

struct expected_agent;

enum { AGENT_CHANNEL_WAIT_MS = 10000, AGENT_CHANNEL_SILENT_MS = 15000 };

struct agent_channel {
    struct remote_link    *link;
    struct expected_agent *expected; /* NULL: it cannot be let in */
    void         (*message)(struct remote_link *link, enum wire_message number, const json_t *body);
    void         (*ended)(struct remote_link *link);
    bool           calls;           /* link->stream is a call */
    bool           was_files;       /* the newest conversation went by files: no patience again */
    uint64_t       since;           /* so long it has not called; 0: there is a conversation */
    uint64_t       heard_at;
    char           why_not[301];    /* it has not called; "" = not known */
};

/* The link's `hooks.heard` is told how, whenever that has changed. */
void agent_channel_open(struct agent_channel *h, struct remote_link *link, int node);
void agent_channel_close(struct agent_channel *h);

/* Its agent has started: now and then, whether it is heard or not. May call `ended`. */
void agent_channel_look(struct agent_channel *h);

/* Another try to be called, after this conversation. */
void agent_channel_retry(struct agent_channel *h);

#endif
