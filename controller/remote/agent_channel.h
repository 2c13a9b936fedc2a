/* SPDX-License-Identifier: Apache-2.0 */
/* agent_channel.h - the channel to an agent that the controller cannot connect to
 *
 *   TLS     preferred: the agent connects to us (controller/remote/agent_listener.h,
 *           agent/wire/call_home.h) and sends a message each second; after
 *           AGENT_CHANNEL_SILENT_MS without one the connection is closed
 *   files   on a shared file system (agent/wire/file_channel.h): used if the agent has not
 *           connected for AGENT_CHANNEL_WAIT_MS, or JOBCTL_CALL_WAIT_S seconds
 *
 * An agent that connects uses TLS from then on. If the connection ends, it has the same time to
 * reconnect; once files are in use the agent closes its connection, too. link->stream is the
 * session in both cases.
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
    struct expected_agent *expected; /* NULL: agents cannot connect */
    void         (*message)(struct remote_link *link, enum wire_message number, const json_t *body);
    void         (*ended)(struct remote_link *link);
    bool           calls;           /* link->stream is a TLS connection */
    bool           was_files;       /* the last session used files: do not wait for TLS again */
    uint64_t       since;           /* disconnected since; 0: there is a session */
    uint64_t       heard_at;
    char           why_not[301];    /* why it has not connected; "" = unknown */
};

/* Calls the link's `hooks.heard` with the channel whenever it changes. */
void agent_channel_open(struct agent_channel *h, struct remote_link *link, int node);
void agent_channel_close(struct agent_channel *h);

/* Call regularly once the agent has started, connected or not. May call `ended`. */
void agent_channel_look(struct agent_channel *h);

#endif
