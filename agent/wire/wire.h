/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - the messages between controller and agent, as a table
 *
 * A message is a frame (agent/wire/frame.h): 8 bytes, then a JSON object.
 *
 *   offset 0  u32 LE  length of the body in bytes
 *   offset 4  u16 LE  protocol version, WIRE_VERSION
 *   offset 6  u16 LE  message number
 *
 * A reader checks in this order: the version; the number, against the table of this direction; the
 * length, against that row's cap; only then it allocates and parses; then the fields: a missing
 * field, one of the wrong type or an unknown one is an error that ends the connection. Numbers are
 * never reused. An agent of another version is neither stopped nor replaced: it runs its attempt to the
 * end, controlled by a daemon of its own version, or by none.
 *
 * The stream: the agent listens and the controller connects (local, SSH), or the agent connects
 * (Slurm). Whichever side connected, the agent sends first:
 *
 *   agent       HELLO      its identity and what it has spooled
 *   controller  LAUNCH     what to run; repeated after each reconnect, and ignored by an agent
 *                          that has already launched the attempt with this nonce
 *   agent       EVENT...   everything spooled after LAUNCH.acked, then as it happens
 *   controller  ACK        highest contiguous seq that is committed; the agent then forgets it
 *   agent       HEARTBEAT  once a second while ranks live; may be dropped
 *   agent       KEEPALIVE  after a second without another message: detects a dead connection
 *   controller  STOP, CHECKPOINT, NODE_GONE
 *   controller  WATCH_GPUS somebody watches the GPUs of its machine; repeated while that is so
 *   agent       GPU_LOAD   their load, every two seconds for as long as WATCH_GPUS requests; may be dropped
 *
 * On another machine, `jobctl-agent attach` (agent/attempt/attach.h) is between the two. The
 * controller's first message, ATTACH, is for it; then it relays both directions and adds to the
 * agent's messages
 *
 *   LOG         bytes of a log of this attempt, always sent before any newer event
 *   KEEPALIVE   as from the agent: a hung machine may stay connected
 *   AGENT_GONE  the agent and all processes of the attempt are gone; its spooled events came before
 *
 * Every body carries job, attempt and nonce; a message of another attempt is refused, and its
 * sender is sent STOP.
 *
 * Bodies
 *   HELLO      {job, attempt, nonce, node, boot_id, pid, start_time, incarnation, version,
 *               launched: bool, first_seq, last_seq, facts: {}, wall_ms: when it was sent,
 *               call_error: why it could not connect to its controller (agent/wire/call_home.h)}
 *   EVENT      {job, attempt, nonce, incarnation, seq, mono_ns, wall_ms, kind, body: {}}
 *   HEARTBEAT  {job, attempt, nonce, generation, state, step, steps, phase, loss, lr,
 *               samples_per_s, ranks_alive, step_ms, call_error: as in HELLO}
 *                                                             numbers may be null: not known
 *   LAUNCH     {job, attempt, nonce, name, spec: {}, spec_digest, run_dir, job_dir, ckpt_dir,
 *               acked, env_place, secrets: {NAME: value}, budget: {restarts, backoff_min_ms,
 *               backoff_max_ms, no_progress, same_line, same_line_ms, early_ms},
 *               history: {failures_without_progress, same_fingerprint, last_step, fingerprint,
 *                         step_ms: of the newest step, 0 = not known},
 *               learned: the body of the job's newest `learned` event, if there is one,
 *               excluded: {UUID: why} the GPUs that failed in this job before, if any,
 *               code: {dir, must, workdir} the copy of the job's code, for a job with a snapshot; without `must` the
 *                         workdir takes its place where there is none (agent/code/code_place.h)
 *               group: {node, nodes, names, endpoint, lost_ms} if the attempt has several nodes; names:
 *               of all nodes. Node 0 is the leader (agent/nodes/leader.h) and gets no endpoint, but
 *               lost_ms if the user has set the limit for silent nodes; followers get its endpoint}
 *               env_place: where ranks get their environment from (agent/core/submit_env.h); here and granted: from
 *                         job_dir, with the secrets. Missing: from the agent's environment
 *               secrets: for a host, which has no job_dir; they go into the ranks' environment and into no file
 *   ACK        {job, attempt, nonce, seq}
 *   STOP       {job, attempt, nonce, reason, grace_ms, checkpoint: bool}
 *   CHECKPOINT {job, attempt, nonce}
 * ATTACH {job, attempt, nonce, key, may_start, dismiss, acked, logs: {FILE: bytes that the controller has}, forget}
 *               dismiss: end the attempt, its agent first, and answer AGENT_GONE
 * forget, together with dismiss: the job was removed; remove its copy of its code, and send no logs or events
 *               key names the job on a machine that serves several controllers
 *   LOG        {job, attempt, nonce, file, offset, data}     data: a character per byte, see attach.h
 *   AGENT_GONE {job, attempt, nonce, text, full}   full: none was started, the disk there has no room for one
 *   KEEPALIVE  {job, attempt, nonce}
 *   NODE_GONE  {job, attempt, nonce, node, text}   to the leader: a node's agent and its ranks are gone,
 *               or will never start; text: follows the node's name. Repeated after each LISTENING
 *   WATCH_GPUS {job, attempt, nonce, for_ms}
 *   GPU_LOAD   {job, attempt, nonce, node: as in HELLO, gpus: []}     lines of agent/probe/gpu_load.h
 *   LISTENING  {job, attempt, nonce, endpoint: {addresses: [], port, key}}   by the leader, after each
 *               LAUNCH, for the followers' LAUNCH (leader_endpoint()); key: a secret, kept in memory only
 *
 * Kinds of EVENT and their bodies (stored without secrets, see agent/core/redact.h; the controller's job_core
 * acts on those marked *)
 *   facts              output of `jobctl-agent probe`
 *   lease              {over, waited_ms, text}: the attempt waits for GPUs or CPU slots of a machine that several users share
 *                      (agent/machine/machine_lease.h), or (over) has them now
 *   preflight          {text,
 *                      rows}: problems found (agent/doctor/doctor.h); absent if there are none
 *   plan               output of `jobctl-agent plan`: np, devices, environment, reasons; with
 *                      several nodes np and ranks cover all of them, with "nodes", and "node" and
 *                      "name" in each row
 *   nodes              {nodes: [{node, name, hostname, ranks, first_rank, address}]} all have joined
 *   node_lost          {node, name, text}: attempt_ended follows; text: a sentence with the node's name
 *   deadline           {text, ends_at_s}: the machine is about to end; a checkpoint was requested
 *   pull_started       {image, runtime, why}: the container image of the job, and what pulls it if it is missing
 *   pull_done          {exit_code | signal, ms}
 *   fetch_started      {}: each node downloads missing files of the hub models that the job names
 *   fetch_progress    {text}: progress of one download, "1.2 GB of 3.3 GB, 50 s left"
 *   fetch_done         {exit_code | signal, ms}
 *   setup_started      {}
 *   setup_done         {exit_code, ms}
 * * generation_started {generation, np, pids: [], resume_step, fresh: bool, ranks_kept}
 *                      ranks_kept: number of ranks that kept their processes, if any;
 *                      resume_step null, fresh true: no checkpoint of this attempt is known yet
 *   rank_started       {generation, rank, pid, resume_step, steps}   from the rank's own line
 *   rank_exited        {generation, rank, pid, exit_code | signal, after_ms, cascade: true}
 *                      cascade only for exits after the root cause
 *   learned            {phase: ms, ..., "HEIGHTxWIDTH": {phase: ms}}    the 99.9th percentiles by
 *                      which hangs are detected (agent/monitor/hang_detector.h)
 *   straggler          {rank, phase, percent, text, step_ms, own_ms: [], wait_ms: []} when a rank
 *                      becomes a straggler; rank null when it no longer is
 *   hang               {generation, rank, cause, text}          rank null: all ranks
 *   incident           {generation, path, text}                state of all ranks before any was
 *                      stopped; path: the whole report, in the run directory
 * * generation_ended   {generation, cause, text, rank, step, gained, exit_code | signal,
 *                       fingerprint, evidence: [lines], advice, goodput: {rank_ms, productive, ...},
 *                       forced: true}
 *                      cause "none": all ranks exited 0; advice: what the user should do, optional;
 *                      goodput: agent/core/goodput.h, since generation_started, missing if no ranks
 *                      started; forced: only if a stop on request ended with SIGKILL
 * * restart_scheduled  {generation, delay_ms, text, changes}
 *                      generation: the next one; changes: the end of text, what the restart does about the cause
 * * step               {generation, step, steps, loss, grad_norm, lr, samples_per_s, step_ms,
 *                         data_ms, forward_ms, backward_ms, reduce_ms, optimizer_ms: of the engine}
 *                      at most one a second; dropped first when the spool fills
 * * checkpoint         {generation, step, path, bytes, ms, digest}
 *   no_room           {generation, over, step, bytes, free, wait_s, path, text}  training pauses because the disk is
 *   full
 *   encoding          {generation, over, done, total, saved, per_s, left_s, text}  data is encoded before step 1;
 *                     or waits for another job that does so
 *   snapshots          {generation, every, bytes, copy_s, step_s, text}  steps between snapshots in memory, and why
 *   mirrored, restored {step, bytes, ms, path}     to and from the mirror (agent/mirror/mirror.h)
 *   quarantined        {path, reason}
 *   sample             {step, path}
 *   warning            {rank, text, lasts: true, ending: true}
 *                      lasts: only if it holds as long as the ranks run (no GPU); ending: only if the end of the
 *                      attempt waits for it
 *   stop_asked         {reason, checkpoint}
 *   excluded           {generation, gpu, rank, cause, text}    a GPU, by UUID, that later attempts
 *                      of this job must not use (agent/core/gpu_blame.h)
 * * attempt_ended      {result: "succeeded"|"failed"|"stopped", cause, text, step, exit_code,
 *                       generations, clean: bool, productive_ms, wall_ms, fingerprint,
 *                       same_fingerprint, failures_without_progress, retry_helps: bool,
 *                       gave_up: bool, early: bool; of cause too_few_gpus also few: "1 of 2 GPUs: ...",
 *                       usable, and node if there are several, or from Slurm}
 *                      always the last; no process of the attempt is left on the node when it is sent
 *                      (clean false: a process survived; an earlier warning names it).
 *                      gave_up: the restart limit or no_progress ended it, not the cause itself; the
 *                      counters go unchanged into the history of the next LAUNCH
 */
#ifndef AGENT_WIRE_WIRE_H
#define AGENT_WIRE_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum { WIRE_VERSION = 4 };

enum wire_message {
    WIRE_HELLO = 1,
    WIRE_EVENT = 2,
    WIRE_HEARTBEAT = 3,
    WIRE_LOG = 4,
    WIRE_AGENT_GONE = 5,
    WIRE_KEEPALIVE = 6,
    WIRE_LISTENING = 8,
    WIRE_GPU_LOAD = 9,
    WIRE_LAUNCH = 33,
    WIRE_ACK = 34,
    WIRE_STOP = 35,
    WIRE_CHECKPOINT = 36,
    WIRE_ATTACH = 37,
    WIRE_NODE_GONE = 38,
    WIRE_WATCH_GPUS = 39,

    /* Between agents of an attempt on several nodes: agent/wire/leader_wire.h. */
    NODE_CONNECT = 64,
    NODE_KEEPALIVE = 65,
    NODE_JOIN = 66,
    NODE_PREPARED = 67,
    NODE_SPAWNED = 68,
    NODE_EXITED = 69,
    NODE_LINE = 70,
    NODE_BROADCAST = 71,
    NODE_CLEANED = 72,
    NODE_INSPECTED = 73,
    NODE_OUTPUT = 74,
    NODE_PAGES = 75,
    NODE_NCCL = 76,
    NODE_NOTICE = 77,
    NODE_GPU = 78,
    NODE_SNAPSHOTS = 79,
    NODE_LEASED = 80,
    NODE_ACCEPTED = 96,
    NODE_REFUSED = 97,
    NODE_LEADER_KEEPALIVE = 98,
    NODE_PREPARE = 99,
    NODE_SPAWN = 100,
    NODE_CONTROL = 101,
    NODE_SIGNAL = 102,
    NODE_CLEANUP = 103,
    NODE_DELIVER = 104,
    NODE_INSPECT = 105,
    NODE_SHUTDOWN = 106,
    NODE_ASK_SNAPSHOTS = 107,
    NODE_LEASE = 108
};

enum wire_direction { TO_CONTROLLER, TO_AGENT, TO_LEADER, TO_FOLLOWER, WIRE_DIRECTIONS };

/* The fence: the attempt that a message belongs to. Numbers alone can repeat, for example in a
 * copied state directory; the nonce cannot. */
struct wire_id {
    int64_t     job, attempt;
    const char *nonce;
};

bool wire_id_same(const struct wire_id *a, const struct wire_id *b);
struct wire_id wire_id_of(const json_t *body); /* borrows; the body must have been checked */

struct wire_row {
    enum wire_message   number;
    const char         *name;
    enum wire_direction direction;
    size_t              cap;      /* largest body in bytes */
    const char *fields;           /* "job:i nonce:s budget:o budget.restarts:i ..."
                                     types: i s b n(umber or null) t(ext or null) a(rray) o(bject);
                                     ? = optional; dotted: inside an object */
};

/* The row of a message number valid in this direction, or NULL. */
const struct wire_row *wire_find(unsigned number, enum wire_direction direction);

/* Checks a body against its row. */
int wire_check(const struct wire_row *row, const json_t *body, struct err *err);

#endif
