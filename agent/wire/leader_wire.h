/* SPDX-License-Identifier: Apache-2.0 */
/* leader_wire.h - what the leader of an attempt and its followers say to each other, as a table
 *
 * Frames, versions and checks are those of agent/wire/wire.h; the directions are TO_LEADER and
 * TO_FOLLOWER. Whoever gets here has shown that it knows the key of the attempt
 * (agent/wire/tls_psk.h). All agents of an attempt have one wire version.
 *
 * The channel (agent/nodes/node_channel.h)
 *   CONNECT   {job, attempt, nonce, node, process_id, received}   a follower, first on each connection;
 *                       process_id: drawn by its process, so that another one cannot take its place unseen
 *   ACCEPTED  {received, lost_ms}                           the leader's answer; or
 *   REFUSED   {text}                                        this follower is not, or no longer, wanted
 *   KEEPALIVE {ack, at_ns, echo_ns, echo_age_ns}            both, at least once a second: what was
 *                       received; this clock; the last at_ns that was heard, and how long ago
 * A message with a `seq` is kept until it is acknowledged and repeated after a reconnect: it is
 * delivered once and in order. The others may be missing.
 *
 * To the leader
 *   JOIN      {seq, name, version, facts, wall_ms, address, endpoint}
 *                       endpoint: where other followers try to reach this node (agent/doctor/reachability.h)
 *   PREPARED  {seq, text, preflight}                        text null: it can
 *   SPAWNED   {seq, generation, pids, text}                 text null: they run
 *   EXITED    {seq, ...}                                    struct agent_exit (agent/core/agent_core.h)
 *   LINE      {seq, generation, rank, line, spent}          of a rank (engine/contract/progress.h); spent:
 *                       {init_ms, data_ms, checkpoint_ms} of one that has detached
 *   BROADCAST {seq, generation, line}                       said by a rank to all others
 *   CLEANED   {seq, generation, clean, left}
 *   INSPECTED {seq, generation, text}
 *   NCCL      {seq, generation, body}                       how it connects there (agent/monitor/nccl_log.h)
 *   NOTICE    {seq, reason, grace_ms}                       its machine is taken away so soon
 *   GPU       {seq, rank, gpu, xid, fault, text, line}      struct gpu_event (agent/monitor/gpu_watch.h)
 *   SNAPSHOTS {seq, generation, sets: [[generation, step]...]}   memory here (agent/ranks/snapshot_memfds.h)
 *   OUTPUT    {rank, data}                                  data: as in LOG (agent/wire/log_feed.h)
 *   PAGES     {generation, ranks: [{rank, pid, state, io_mib, lines?, blocks: [[n, base64]...]}]}
 *                       what changed since the last ones of this connection (agent/monitor/page_feed.h)
 *
 * To a follower
 *   PREPARE   {seq, spec, plan, launch}                     see leader_prepare()
 *   SPAWN     {seq, generation, first_rank, ranks, world_size, node_ranks, node_addr, master_addr,
 *              master_port, restarts, deadline_s, resume_step, skip_step, from, snapshot_step,
 *              rejoin, keep, fallbacks}                     see struct launch_env
 *   CONTROL   {seq, command}        SIGNAL {seq, signo}     CLEANUP {seq, generation}
 *   DELIVER   {seq, generation, line}                       said by a rank of another node
 *   ASK_SNAPSHOTS {seq, generation}                         before that generation starts
 *   INSPECT   {seq, generation}     SHUTDOWN {seq}          leave
 */
#ifndef AGENT_WIRE_LEADER_WIRE_H
#define AGENT_WIRE_LEADER_WIRE_H

#include "agent/wire/wire.h"

/* The row of a number that may travel in this direction, or NULL; for wire_find(). */
const struct wire_row *leader_wire_find(unsigned number, enum wire_direction direction);

#endif
