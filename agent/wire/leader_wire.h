/* SPDX-License-Identifier: Apache-2.0 */
/* leader_wire.h - what the head of an attempt and its members say to each other, as a table
 *
 * Frames, versions and checks are those of agent/wire/wire.h; the directions are TO_LEADER and
 * TO_FOLLOWER. Whoever gets here has shown that it knows the key of the attempt
 * (agent/wire/tls_psk.h).
 *
 * The link (agent/nodes/node_channel.h)
 *   CALL      {job, attempt, nonce, node, life, received}   a member, first on each connection; life:
 *                       drawn by its process, so that another one cannot take its place unseen
 *   TAKEN     {received, lost_ms}                           the head's answer; or
 *   REFUSED   {text}                                        this member is not, or no longer, wanted
 *   PULSE     {ack, at_ns, echo_ns, held_ns}                both, at least once a second: what was
 *                       received; this clock; the last at_ns that was heard, and how long ago
 * A message with a `seq` is kept until it is acknowledged and repeated after a reconnect: it is
 * delivered once and in order. The others may be missing.
 *
 * To the head
 *   JOIN      {seq, name, version, facts, wall_ms, address, door}   door: for other members, on trial
 *   PREPARED  {seq, text, preflight}                        text null: it can
 *   SPAWNED   {seq, generation, pids, text}                 text null: they run
 *   EXITED    {seq,
                ...}                                    struct agent_exit (agent/core/agent_core.h)
 *   LINE      {seq, generation, rank, line,
                spent}          of a rank (engine/contract/progress.h); spent:
 *                       {init_ms, data_ms, checkpoint_ms} of one that has parted
 *   RELAY     {seq, generation, line}                       said by a rank to all others
 *   SWEPT     {seq, generation, clean, left}
 *   INSPECTED {seq, generation, text}
 *   NCCL      {seq, generation,
                body}                       how it connects there (agent/monitor/nccl_log.h)
 *   NOTICE    {seq, reason, grace_ms}                       its machine is taken away so soon
 *   GPU       {seq, rank, gpu, xid, fault, text,
                line}      struct gpu_event (agent/monitor/gpu_watch.h)
 *   KEPT      {seq, generation,
                sets: [[generation, step]...]}   memory here (agent/ranks/snapshot_memfds.h)
 *   OUTPUT    {rank, data}                                  data: as in LOG (agent/wire/log_feed.h)
 *   PAGES     {generation, ranks: [{rank, pid, state, io_mib, lines?, blocks: [[n, base64]...]}]}
 *                       what changed since the last ones of this connection (agent/monitor/page_feed.h)
 *
 * To a member
 *   PREPARE   {seq, spec, plan, launch}                     see leader_prepare()
 *   SPAWN     {seq, generation, first_rank, ranks, world_size, node_ranks, node_addr, master_addr,
 *              master_port, restarts, deadline_s, resume_step, skip_step, from, snapshot_step,
 *              rebuild, keep, remedies}                     see struct launch_env
 *   CONTROL   {seq, command}        SIGNAL {seq, signo}     SWEEP {seq, generation}
 *   RELAYED   {seq, generation, line}                       said by a rank of another node
 *   REQUEST_SNAPSHOTS  {seq, generation}                             before that generation starts
 *   INSPECT   {seq, generation}     BYE {seq}               leave
 */
#ifndef AGENT_WIRE_LEADER_WIRE_H
#define AGENT_WIRE_LEADER_WIRE_H

#include "agent/wire/wire.h"

/* The row of a number that may travel in this direction, or NULL; for wire_find(). */
const struct wire_row *leader_wire_find(unsigned number, enum wire_direction direction);

#endif
