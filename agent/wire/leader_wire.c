/* SPDX-License-Identifier: Apache-2.0 */
/* leader_wire.c - see leader_wire.h */
#include "agent/wire/leader_wire.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define KIB          1024

static const struct wire_row rows[] = {
    {NODE_CONNECT, "connect", TO_LEADER, 1 * KIB,
     "job:i attempt:i nonce:s node:i process_id:s received:i"},
    {NODE_KEEPALIVE, "keepalive", TO_LEADER, 1 * KIB, "ack:i at_ns:i echo_ns:i echo_age_ns:i"},
    {NODE_JOIN, "join", TO_LEADER, 256 * KIB,
     "seq:i name:s version:s facts:o wall_ms:i address:s endpoint:o?"},
    {NODE_PREPARED, "prepared", TO_LEADER, 128 * KIB, "seq:i text:t preflight:o?"},
    {NODE_SPAWNED, "spawned", TO_LEADER, 64 * KIB, "seq:i generation:i pids:a text:t"},
    {NODE_EXITED, "exited", TO_LEADER, 256 * KIB,
     "seq:i generation:i rank:i pid:i signalled:b signo:i exit_code:i oom_killed:b after_ms:i "
     "init_ms:i data_ms:i checkpoint_ms:i gpu_held:b? last_lines:t kernel:t"},
    {NODE_LINE, "line", TO_LEADER, 32 * KIB, "seq:i generation:i rank:i line:o spent:o?"},
    {NODE_BROADCAST, "broadcast", TO_LEADER, 32 * KIB, "seq:i generation:i line:o"},
    {NODE_CLEANED, "cleaned", TO_LEADER, 4 * KIB, "seq:i generation:i clean:b left:s"},
    {NODE_INSPECTED, "inspected", TO_LEADER, 512 * KIB, "seq:i generation:i text:s"},
    {NODE_NCCL, "nccl", TO_LEADER, 32 * KIB, "seq:i generation:i body:o"},
    {NODE_NOTICE, "notice", TO_LEADER, 4 * KIB, "seq:i reason:s grace_ms:i"},
    {NODE_GPU, "gpu", TO_LEADER, 4 * KIB, "seq:i rank:i gpu:s xid:i fault:b text:s line:s"},
    {NODE_SNAPSHOTS, "snapshots", TO_LEADER, 1 * KIB, "seq:i generation:i sets:a"},
    {NODE_LEASED, "leased", TO_LEADER, 256 * KIB, "seq:i round:i holds:b text:t gpus:a?"},
    {NODE_OUTPUT, "output", TO_LEADER, 256 * KIB, "rank:i data:s"},
    {NODE_PAGES, "pages", TO_LEADER, 1024 * KIB, "generation:i ranks:a"},
    {NODE_ACCEPTED, "accepted", TO_FOLLOWER, 1 * KIB, "received:i lost_ms:i"},
    {NODE_REFUSED, "refused", TO_FOLLOWER, 4 * KIB, "text:s"},
    {NODE_LEADER_KEEPALIVE, "keepalive", TO_FOLLOWER, 1 * KIB, "ack:i at_ns:i echo_ns:i echo_age_ns:i"},
    {NODE_PREPARE, "prepare", TO_FOLLOWER, 2048 * KIB, "seq:i spec:o plan:o launch:o"},
    {NODE_SPAWN, "spawn", TO_FOLLOWER, 32 * KIB,
     "seq:i generation:i first_rank:i ranks:i world_size:i node_ranks:t node_addr:t master_addr:t "
     "master_port:i restarts:i deadline_s:i resume_step:i skip_step:i from:i snapshot_step:i "
     "rejoin:b keep:b fallbacks:i pull:b? fetch:b?"},
    {NODE_CONTROL, "control", TO_FOLLOWER, 1 * KIB, "seq:i command:s"},
    {NODE_SIGNAL, "signal", TO_FOLLOWER, 1 * KIB, "seq:i signo:i"},
    {NODE_CLEANUP, "cleanup", TO_FOLLOWER, 1 * KIB, "seq:i generation:i"},
    {NODE_DELIVER, "deliver", TO_FOLLOWER, 32 * KIB, "seq:i generation:i line:o"},
    {NODE_INSPECT, "inspect", TO_FOLLOWER, 1 * KIB, "seq:i generation:i"},
    {NODE_ASK_SNAPSHOTS, "ask snapshots", TO_FOLLOWER, 1 * KIB, "seq:i generation:i"},
    {NODE_LEASE, "lease", TO_FOLLOWER, 1 * KIB, "seq:i round:i nodes:i"},
    {NODE_SHUTDOWN, "shutdown", TO_FOLLOWER, 1 * KIB, "seq:i"},
};

const struct wire_row *leader_wire_find(unsigned number, enum wire_direction direction)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].number == number && rows[i].direction == direction)
            return &rows[i];
    return NULL;
}
