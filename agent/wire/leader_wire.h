/* SPDX-License-Identifier: Apache-2.0 */
/* leader_wire.h - messages between the leader of an attempt and its followers, as a table
 *
 * Frames, versions and checks are those of agent/wire/wire.h; the directions are TO_LEADER and
 * TO_FOLLOWER. Peers have proven that they know the key of the attempt (agent/wire/tls_psk.h). All
 * agents of an attempt use one wire version.
 *
 * The channel (agent/nodes/node_channel.h)
 *   CONNECT   {job, attempt, nonce, node, process_id, received}   sent first by a follower on each connection;
 *                       process_id: random per process, so a replacement process is detected
 *   ACCEPTED  {received, lost_ms}                           the leader's answer; or
 *   REFUSED   {text}                                        this follower is not accepted (any more)
 *   KEEPALIVE {ack, at_ns, echo_ns, echo_age_ns}            both, at least once a second: last seq
 *                       received; own clock; the last at_ns received, and its age
 * A message with a `seq` is kept until acknowledged and repeated after a reconnect: it is delivered
 * exactly once and in order. The others may be lost.
 *
 * To the leader
 *   JOIN      {seq, name, version, facts, wall_ms, address, endpoint}
 *                       endpoint: where other followers test whether they reach this node (agent/doctor/reachability.h)
 *   PREPARED  {seq, text, preflight}                        text null: ready
 *   SPAWNED   {seq, generation, pids, text}                 text null: running
 *   EXITED    {seq, ...}                                    struct agent_exit (agent/core/agent_core.h)
 *   LINE      {seq, generation, rank, line, spent}          of a rank (engine/contract/progress.h); spent:
 *                       {init_ms, data_ms, checkpoint_ms} of one that has detached
 *   BROADCAST {seq, generation, line}                       from a rank to all others
 *   CLEANED   {seq, generation, clean, left}
 *   INSPECTED {seq, generation, text}
 *   NCCL      {seq, generation, body}                       transports there (agent/monitor/nccl_log.h)
 *   NOTICE    {seq, reason, grace_ms}                       its machine ends after grace_ms
 *   GPU       {seq, rank, gpu, xid, fault, text, line}      struct gpu_event (agent/monitor/gpu_watch.h)
 *   SNAPSHOTS {seq, generation, sets: [[generation, step]...]}   in memory there (agent/ranks/snapshot_memfds.h)
 *   LEASED    {seq, round, holds, text, gpus?}             the answer to LEASE; text: why it waits, gpus: of its facts
 *   OUTPUT    {rank, data}                                  data: as in LOG (agent/wire/log_feed.h)
 *   PAGES     {generation, ranks: [{rank, pid, state, use, lines?, blocks: [[n, base64]...]}]}
 *                       differences since the last PAGES of this connection (agent/monitor/page_feed.h);
 *                       use: struct activity_sample (agent/monitor/activity.h) as an array
 *
 * To a follower
 *   PREPARE   {seq, spec, plan, launch}                     see leader_prepare()
 *   SPAWN     {seq, generation, first_rank, ranks, world_size, node_ranks, node_addr, master_addr,
 *              master_port, restarts, deadline_s, resume_step, skip_step, from, snapshot_step,
 *              rejoin, keep, fallbacks, [pull, fetch]}      see struct launch_env
 *   CONTROL   {seq, command}        SIGNAL {seq, signo}     CLEANUP {seq, generation}
 *   DELIVER   {seq, generation, line}                       from a rank of another node
 *   ASK_SNAPSHOTS {seq, generation}                         before that generation starts
 *   LEASE     {seq, round, nodes}                           take the lease of its machine for so many nodes that are on
 *                       it; 0: let go (agent/machine/machine_order.h)
 *   INSPECT   {seq, generation}     SHUTDOWN {seq}          leave
 *
 * The follower of the leader's own node gets and sends the same bodies without seq, by function calls; its INSPECT
 * also has {rank, path}: the rank to begin with, and the report to append to.
 */
#ifndef AGENT_WIRE_LEADER_WIRE_H
#define AGENT_WIRE_LEADER_WIRE_H

#include "agent/wire/wire.h"

/* The row of a message number valid in this direction, or NULL; for wire_find(). */
const struct wire_row *leader_wire_find(unsigned number, enum wire_direction direction);

#endif
