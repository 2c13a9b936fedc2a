/* SPDX-License-Identifier: Apache-2.0 */
/* leader_wire.c - see leader_wire.h */
#include "agent/wire/leader_wire.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define KIB          1024

static const struct wire_row rows[] = {
    {CREW_CALL, "call", TO_HEAD, 1 * KIB,
     "job:i attempt:i nonce:s node:i life:s received:i"},
    {CREW_PULSE, "pulse", TO_HEAD, 1 * KIB, "ack:i at_ns:i echo_ns:i held_ns:i"},
    {CREW_JOIN, "join", TO_HEAD, 256 * KIB,
     "seq:i name:s version:s facts:o wall_ms:i address:s door:o?"},
    {CREW_PREPARED, "prepared", TO_HEAD, 128 * KIB, "seq:i text:t preflight:o?"},
    {CREW_SPAWNED, "spawned", TO_HEAD, 64 * KIB, "seq:i generation:i pids:a text:t"},
    {CREW_EXITED, "exited", TO_HEAD, 256 * KIB,
     "seq:i generation:i rank:i pid:i signalled:b signo:i exit_code:i oom_killed:b after_ms:i "
     "init_ms:i data_ms:i checkpoint_ms:i last_lines:t kernel:t"},
    {CREW_LINE, "line", TO_HEAD, 32 * KIB, "seq:i generation:i rank:i line:o spent:o?"},
    {CREW_RELAY, "relay", TO_HEAD, 32 * KIB, "seq:i generation:i line:o"},
    {CREW_SWEPT, "swept", TO_HEAD, 4 * KIB, "seq:i generation:i clean:b left:s"},
    {CREW_INSPECTED, "inspected", TO_HEAD, 512 * KIB, "seq:i generation:i text:s"},
    {CREW_NCCL, "nccl", TO_HEAD, 32 * KIB, "seq:i generation:i body:o"},
    {CREW_NOTICE, "notice", TO_HEAD, 4 * KIB, "seq:i reason:s grace_ms:i"},
    {CREW_GPU, "gpu", TO_HEAD, 4 * KIB, "seq:i rank:i gpu:s xid:i fault:b text:s line:s"},
    {CREW_KEPT, "kept", TO_HEAD, 1 * KIB, "seq:i generation:i sets:a"},
    {CREW_OUTPUT, "output", TO_HEAD, 256 * KIB, "rank:i data:s"},
    {CREW_PAGES, "pages", TO_HEAD, 1024 * KIB, "generation:i ranks:a"},
    {CREW_TAKEN, "taken", TO_MEMBER, 1 * KIB, "received:i lost_ms:i"},
    {CREW_REFUSED, "refused", TO_MEMBER, 4 * KIB, "text:s"},
    {CREW_HEAD_PULSE, "pulse", TO_MEMBER, 1 * KIB, "ack:i at_ns:i echo_ns:i held_ns:i"},
    {CREW_PREPARE, "prepare", TO_MEMBER, 2048 * KIB, "seq:i spec:o plan:o launch:o"},
    {CREW_SPAWN, "spawn", TO_MEMBER, 32 * KIB,
     "seq:i generation:i first_rank:i ranks:i world_size:i node_ranks:t node_addr:t master_addr:t "
     "master_port:i restarts:i deadline_s:i resume_step:i skip_step:i from:i snapshot_step:i "
     "rebuild:b keep:b remedies:i"},
    {CREW_CONTROL, "control", TO_MEMBER, 1 * KIB, "seq:i command:s"},
    {CREW_SIGNAL, "signal", TO_MEMBER, 1 * KIB, "seq:i signo:i"},
    {CREW_SWEEP, "sweep", TO_MEMBER, 1 * KIB, "seq:i generation:i"},
    {CREW_RELAYED, "relayed", TO_MEMBER, 32 * KIB, "seq:i generation:i line:o"},
    {CREW_INSPECT, "inspect", TO_MEMBER, 1 * KIB, "seq:i generation:i"},
    {CREW_ASK_KEPT, "ask kept", TO_MEMBER, 1 * KIB, "seq:i generation:i"},
    {CREW_BYE, "bye", TO_MEMBER, 1 * KIB, "seq:i"},
};

const struct wire_row *crew_wire_find(unsigned number, enum wire_direction direction)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].number == number && rows[i].direction == direction)
            return &rows[i];
    return NULL;
}
