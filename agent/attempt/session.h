/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - the agent's connection to its controller: at most one at a time
 *
 * The agent listens at RUN_DIR/agent.sock (mode 0600, same user only), or connects itself (agent/wire/call_home.h). A
 * newer connection replaces the older one. The agent sends HELLO; after the controller's LAUNCH it sends every spooled
 * event after LAUNCH.acked in order, again after each reconnect. A message of another job, attempt or nonce closes the
 * connection. The agent never waits for the controller: without one, events accumulate in the spool and the ranks keep
 * running.
 *
 * How a controller starts an agent:
 *
 *   JOBCTL_AGENT_NONCE=<32 hex> [JOBCTL_AGENT_ORIGIN=<32 hex>] [JOBCTL_AGENT_NO_NVML=1]
 *     jobctl-agent run --dir RUN_DIR --job N --attempt N
 *
 * It detaches (own session, output to RUN_DIR/agent.log), and the command exits 0 as soon as the socket is listening,
 * or prints the error and exits with its code from err.h. --foreground keeps it attached; --ready-fd N receives the
 * line "ready" once the socket is listening. RUN_DIR must exist. The agent keeps in it
 *
 *   agent.lock   held while the agent is alive (agent/os/run_dir.h)
 *   agent.json   {"pid","boot_id","start_time","nonce","job","attempt","incarnation","version"}
 *   agent.sock   agent.log   spool   spec.json   setup.log   rank<N>.log   rank<N>.flight
 *
 * start_time is field 22 of /proc/PID/stat: with pid and boot id it identifies the process. An
 * agent without a LAUNCH for 60 s exits; after attempt_ended it waits until everything is
 * acknowledged, at most 10 minutes; both remove the socket, and the spool stays.
 */
#ifndef AGENT_ATTEMPT_SESSION_H
#define AGENT_ATTEMPT_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/wire/wire.h"

struct byte_stream;
struct err;
struct session;
struct spool;

/* Identity of this agent; every message carries job, attempt and nonce. */
struct session_id {
    int64_t     job;
    int64_t     attempt;
    int64_t     incarnation;
    const char *nonce;
    const char *node;
    const char *boot_id;
    int64_t     pid, start_time;
    const char *version;
    const char *origin; /* the job's identity, "" = not known yet; may change */
};

/* Called for LAUNCH, STOP, CHECKPOINT, NODE_GONE and WATCH_GPUS of this attempt; the body is borrowed. */
typedef void (*session_message_fn)(void *arg, enum wire_message number, const json_t *body);
/* Called after an ACK. */
typedef void (*session_acked_fn)(void *arg, int64_t seq);

/* Why the agent could not connect to the controller (agent/wire/call_home.h), for HELLO; NULL: it could, or did not
 * have to. */
typedef const char *(*session_trouble_fn)(void *arg);

struct session_hooks {
    session_message_fn message;
    session_acked_fn   acked;
    session_trouble_fn trouble;
    void             (*hung_up)(void *arg); /* a connection of session_take() has ended */
    void             (*sync)(void *arg);    /* events will be sent: they must be on disk */
    void             (*room)(void *arg);    /* more can be sent: session_pump() is called later */
    void              *arg;
};

/* Listens at once. id's strings, spool and facts must outlive it. */
int session_open(struct session **out, uv_loop_t *loop, const char *path, const struct session_id *id,
                 const json_t *facts, struct spool *spool, const struct session_hooks *hooks, struct err *err);

/* Takes ownership of a connection that is ready. */
void session_take(struct session *s, struct byte_stream *stream);

/* Closes the connection and removes the socket; run the loop until it is empty, then call
 * session_destroy(). */
void session_close(struct session *s);
void session_destroy(struct session *s);

/* HELLO reports "launched" from now on. */
void session_set_launched(struct session *s);

/* New events are in the spool: sends as many as the connection accepts. */
void session_pump(struct session *s);

/* Sends a HEARTBEAT, which may be dropped: its fields without job, attempt, nonce. Takes the
 * body. */
void session_heartbeat(struct session *s, json_t *body);

/* Sends a GPU_LOAD, which may be dropped. Takes the lines. */
void session_gpu_load(struct session *s, json_t *gpus);

/* Sends KEEPALIVE if nothing was sent since the last call, because a dead connection may look alive. */
void session_alive(struct session *s);

/* Sends LISTENING if a controller has launched the attempt; each later LAUNCH needs it again. Takes the endpoint. */
void session_show_listener(struct session *s, json_t *endpoint);

bool session_connected(const struct session *s);

#endif
