/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - every message between controller and agent, as a row
 *
 * A message is a frame (agent/wire/frame.h): 8 bytes, then a JSON object.
 *
 *   offset 0  u32 LE  length of the body in bytes
 *   offset 4  u16 LE  protocol version, WIRE_VERSION; of an older agent also an earlier one
 *                     (agent/wire/wire_version.h)
 *   offset 6  u16 LE  message number
 *
 * A reader checks, in this order: version; number, in the table for this
 * direction; length against that row's cap; only then it allocates and parses;
 * then the fields: a missing one, one of the wrong type or an unknown one is an
 * error of the connection.  Numbers are never reused.
 *
 * The stream: the agent listens, the controller connects (local, SSH), or the
 * agent dials (Slurm).  Whoever connected, the agent speaks first:
 *
 *   agent       HELLO      who it is and what it has spooled
 *   controller  LAUNCH     what to run; repeated after each reconnect, and ignored by an agent
 *                          that has already launched this nonce
 *   agent       EVENT...   everything spooled after LAUNCH.acked, then as it happens
 *   controller  ACK        highest contiguous seq that is committed; the agent then forgets it
 *   agent       HEARTBEAT  once a second while ranks live; may be dropped
 *   agent       KEEPALIVE  where nothing else was said for a second: a wire can be cut in silence
 *   controller  STOP, CHECKPOINT, NODE_GONE
 *
 * On another machine `jobctl-agent attach` (agent/attempt/attach.h) stands between the two. The
 * controller's first word, ATTACH, is for it; then it hands on what both say, and adds to the
 * agent's words
 *
 *   LOG         bytes of a log of this attempt, before any event that is younger than they are
 *   KEEPALIVE   as the agent does: a machine can stand still and stay connected
 *   AGENT_GONE  the agent is gone and nothing of the attempt lives; what it had spooled came before
 *
 * Every body carries job, attempt and nonce; a message of another attempt is
 * refused and its sender told STOP.
 *
 * Bodies
 *   HELLO      {job, attempt, nonce, node, boot_id, pid, start_time, incarnation, version,
 *               launched: bool, first_seq, last_seq, facts: {}, wall_ms: when it was sent,
 *               call_error: why it could not call its controller, if it was to (agent/wire/call_home.h)}
 *   EVENT      {job, attempt, nonce, incarnation, seq, mono_ns, wall_ms, kind, body: {}}
 *   HEARTBEAT  {job, attempt, nonce, generation, state, step, steps, phase, loss, lr,
 *               samples_per_s, ranks_alive, step_ms, call_error: as in HELLO}
 *                                                             numbers may be null: not known
 *   LAUNCH     {job, attempt, nonce, name, spec: {}, spec_digest, run_dir, job_dir, ckpt_dir,
 *               acked, secrets: {NAME: value}, budget: {restarts, backoff_min_ms,
 *               backoff_max_ms, no_progress},
 *               history: {failures_without_progress, same_fingerprint, last_step, fingerprint,
 *                         step_ms: of the newest step, 0 = not known},
 *               learned: the body of the job's newest `learned` event, if there is one,
 *               excluded: {UUID: why} the GPUs that failed in this job before, if any did,
 *               group: {node, nodes, names, endpoint, lost_ms} where the attempt has several nodes; names: of
 *               all. node 0 is the leader (agent/nodes/leader.h), gets no endpoint, and lost_ms where the user
 *               has set after how long a silent node is lost; the others get its endpoint}
 *               secrets go into the ranks' environment and to no file; {} on a repeated LAUNCH
 *   ACK        {job, attempt, nonce, seq}
 *   STOP       {job, attempt, nonce, reason, grace_ms, checkpoint: bool}
 *   CHECKPOINT {job, attempt, nonce}
 *   ATTACH     {job, attempt, nonce, key, may_start, dismiss, acked, logs: {FILE: bytes that are here}}
 *               dismiss: end the attempt, its agent first, and say AGENT_GONE
 *               key names the job on a machine that serves several controllers
 *   LOG        {job, attempt, nonce, file, offset, data}     data: a character per byte, see attach.h
 *   AGENT_GONE {job, attempt, nonce, text}
 *   KEEPALIVE  {job, attempt, nonce}
 *   NODE_GONE  {job, attempt, nonce, node, text}   to the leader: nothing of another node's agent lives,
 *               or none will start there; text: what follows its name. Again after each LISTENING
 *   LISTENING  {job, attempt, nonce, endpoint: {addresses: [], port, key}}   by the leader, after each
 *               LAUNCH, for the followers' LAUNCH (leader_endpoint()); key: a secret, kept in memory only
 *
 * Kinds of EVENT and their body (the store keeps them as they are; the
 * controller's job_core acts on those marked *)
 *   facts              what `jobctl-agent probe` prints
 *   preflight          {text,
                         rows}: what is not as it should be (agent/doctor/doctor.h); absent if all is well
 *   plan               what `jobctl-agent plan` prints: np, devices, environment, reasons; on
 *                      several nodes np and ranks are those of all, with "nodes", and "node" and
 *                      "name" in each row
 *   nodes              {nodes: [{node, name, hostname, ranks, first_rank, address}]} all have joined
 *   node_lost          {node, name, text}: attempt_ended follows
 *   deadline           {text, ends_at_s}: the machine will be taken away; a checkpoint was asked for
 *   setup_started      {}
 *   setup_done         {exit_code, ms}
 * * generation_started {generation, np, pids: [], resume_step, fresh: bool, ranks_kept}
 *                      ranks_kept: so many ranks went on in their processes, if any did;
 *                      resume_step null, fresh true: no checkpoint of this attempt is known yet
 *   rank_started       {generation, rank, pid, resume_step, steps}   from the rank's own line
 *   rank_exited        {generation, rank, pid, exit_code | signal, after_ms, cascade: true}
 *                      cascade only after the failure that decides
 *   learned            {phase: ms, ..., "HEIGHTxWIDTH": {phase: ms}}    the 99.9th percentiles by
 *                      which a hang is told (agent/monitor/hang_detector.h)
 *   straggler          {rank, phase, percent, text, step_ms, own_ms: [], wait_ms: []} when a rank
 *                      begins to slow all down; rank null when it has ceased
 *   hang               {generation, rank, cause, text}          rank null: all of them together
 *   incident           {generation, path, text}                what was seen before anything was
 *                      stopped; path: the whole report, in the run directory
 * * generation_ended   {generation, cause, text, rank, step, gained, exit_code | signal,
 *                       fingerprint, evidence: [lines], advice, goodput: {rank_ms, productive, ...}}
 *                      cause "none": all ranks exited 0; advice, if any: what to do about it;
 *                      goodput: agent/core/goodput.h, since generation_started, missing where no ranks
 *                      were
 * * restart_scheduled  {generation, delay_ms, text}          generation = the next one
 * * step               {generation, step, steps, loss, grad_norm, lr, samples_per_s, step_ms}
 *                      thinned to at most one a second; first to be dropped when the spool fills
 * * checkpoint         {generation, step, path, bytes, ms, digest}
 *   mirrored, restored {step, bytes, ms, path}     to and from the mirror (agent/mirror/mirror.h)
 *   quarantined        {path, reason}
 *   sample             {step, path}
 *   warning            {rank, text}
 *   stop_asked         {reason, checkpoint}
 *   excluded           {generation, gpu, rank, cause, text}    a GPU by its UUID: no attempt of
 *                      this job after this one is to use it (agent/core/gpu_blame.h)
 * * attempt_ended      {result: "succeeded"|"failed"|"stopped", cause, text, step, exit_code,
 *                       generations, clean: bool, productive_ms, wall_ms, fingerprint,
 *                       same_fingerprint, failures_without_progress, retry_helps: bool,
 *                       gave_up: bool}
 *                      always the last; nothing of ours is left on the node when it is sent
 *                      (clean false: a process would not die; it is named in a warning before).
 *                      gave_up: the budget or no_progress ended it, not the cause itself; the
 *                      counters go into the history of the next LAUNCH as they are
 */
#ifndef AGENT_WIRE_WIRE_H
#define AGENT_WIRE_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum { WIRE_VERSION = 2 };

enum wire_message {
    WIRE_HELLO      = 1,
    WIRE_EVENT      = 2,
    WIRE_HEARTBEAT  = 3,
    WIRE_LOG        = 4,
    WIRE_AGENT_GONE = 5,
    WIRE_KEEPALIVE  = 6,
    WIRE_LISTENING  = 8,
    WIRE_LAUNCH     = 33,
    WIRE_ACK        = 34,
    WIRE_STOP       = 35,
    WIRE_CHECKPOINT = 36,
    WIRE_ATTACH     = 37,
    WIRE_NODE_GONE  = 38,

    /* Between the agents of an attempt on several nodes: agent/wire/leader_wire.h. */
    NODE_CONNECT    = 64,
    NODE_KEEPALIVE  = 65,
    NODE_JOIN       = 66,
    NODE_PREPARED   = 67,
    NODE_SPAWNED    = 68,
    NODE_EXITED     = 69,
    NODE_LINE       = 70,
    NODE_BROADCAST  = 71,
    NODE_CLEANED    = 72,
    NODE_INSPECTED  = 73,
    NODE_OUTPUT     = 74,
    NODE_PAGES      = 75,
    NODE_NCCL       = 76,
    NODE_NOTICE     = 77,
    NODE_GPU        = 78,
    NODE_SNAPSHOTS  = 79,
    NODE_ACCEPTED   = 96,
    NODE_REFUSED    = 97,
    NODE_LEADER_KEEPALIVE = 98,
    NODE_PREPARE    = 99,
    NODE_SPAWN      = 100,
    NODE_CONTROL    = 101,
    NODE_SIGNAL     = 102,
    NODE_CLEANUP    = 103,
    NODE_DELIVER    = 104,
    NODE_INSPECT    = 105,
    NODE_SHUTDOWN   = 106,
    NODE_ASK_SNAPSHOTS = 107
};

enum wire_direction { TO_CONTROLLER, TO_AGENT, TO_LEADER, TO_FOLLOWER, WIRE_DIRECTIONS };

/* The fence: of which attempt a message is. Numbers alone can be met twice, by a copied
 * state directory for one; the nonce cannot. */
struct wire_id {
    int64_t     job, attempt;
    const char *nonce;
};

bool wire_id_same(const struct wire_id *a, const struct wire_id *b);
struct wire_id wire_id_of(const json_t *body);  /* borrows; of a body that was checked */

struct wire_row {
    enum wire_message   number;
    const char         *name;
    enum wire_direction direction;
    size_t              cap;      /* largest body in bytes */
    const char         *fields;   /* "job:i nonce:s budget:o budget.restarts:i ..."
                                     i s b n(umber or null) t(ext or null) a(rray) o(bject),
                                     ? = may be missing;
                                     dotted: inside an object */
};

/* The row of a number that may travel in this direction, or NULL. */
const struct wire_row *wire_find(unsigned number, enum wire_direction direction);

/* Check a body against its row. */
int wire_check(const struct wire_row *row, const json_t *body, struct err *err);

#endif
