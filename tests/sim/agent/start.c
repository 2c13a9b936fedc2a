/* SPDX-License-Identifier: Apache-2.0 */
/* start.c - the agent starts a process: which one, with which pipes; see host.h */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "tests/sim/agent/host.h"
#include "tests/sim/agent/stand_ins.h"

static const char *variable(const struct subprocess_spec *spec, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; spec->env && spec->env[i]; i++)
        if (strncmp(spec->env[i], name, n) == 0 && spec->env[i][n] == '=')
            return spec->env[i] + n + 1;
    return NULL;
}

static int take(int fd, bool blocks)
{
    const int kept = fd > 0 ? host_keep(dup(fd)) : -1;
    if (kept >= 0 && !blocks)
        fcntl(kept, F_SETFL, O_NONBLOCK);
    return kept;
}

pid_t stand_in_start(const struct subprocess_spec *spec, struct err *err)
{
    const char *generation = variable(spec, "JOBCTL_GENERATION"), *rank = variable(spec, "RANK"),
               *size = variable(spec, "WORLD_SIZE"), *path = variable(spec, "JOBCTL_FLIGHT");
    struct process *p = NULL;
    for (int i = 0; i < PROCESSES && !p; i++)
        if (host.processes[i].kind == PROCESS_NONE)
            p = &host.processes[i];
    if (!p) {
        broke("%d processes", PROCESSES);
        return -1;
    }
    const struct team *t = &host.teams[host.generations];
    if (spec->argv[1] && strcmp(spec->argv[1], "inspect") == 0 && t->fate != FATE_HANG && t->fate != FATE_STOPPED &&
        !host.lost)
        broke("a debugger starts, and no rank stands still");
    const bool is_rank = generation && atoi(generation) > 0, is_setup = generation && atoi(generation) == 0;
    const int number = generation ? atoi(generation) : 0;
    if (is_rank && host.generations < number)
        team_draw(number, atoi(size));
    if (is_rank && host.teams[number].fate == FATE_REFUSED && atoi(rank) == host.teams[number].rank) {
        host.teams[number].struck = now();
        return stand_in_refuse(err);
    }
    *p = (struct process){.kind = is_rank ? PROCESS_RANK : is_setup ? PROCESS_SETUP : PROCESS_TOOL,
                          .pid = host.next_pid++, .agent = sim_current(), .generation = number,
                          .rank = rank ? atoi(rank) : -1, .alive = true,
                          .out = take(spec->out, true), .events = -1, .control = -1, .place = AT_START};
    if (is_rank || is_setup) {
        p->events = take(spec->extra[0], true);
        p->control = take(spec->extra[1], false);
    }
    p->command = host.plan.command;
    p->rejoins = variable(spec, "JOBCTL_REJOIN") != NULL;
    p->due = now() + ms(is_rank ? sim_between(50, 3000) : is_setup ? sim_between(10, 5000) : 100);
    snprintf(p->flight_path, sizeof(p->flight_path), "%s", path ? path : "");
    say("process %d starts: %s, generation %d rank %d", p->pid, is_rank ? "rank" : is_setup ? "setup" : spec->argv[1],
        number, p->rank);
    if (is_rank)
        process_print(p, "hello from a rank\n");
    return p->pid;
}
