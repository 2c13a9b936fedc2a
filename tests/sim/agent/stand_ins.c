/* SPDX-License-Identifier: Apache-2.0 */
/* stand_ins.c - what the agent would learn from the kernel and from programs, from the simulated machine; see host.h
 *
 * The linker puts these in the place of the functions without "__wrap_" (tests/tests.mk).
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/monitor/activity.h"
#include "agent/os/subprocess.h"
#include "agent/ranks/cleanup_pass.h"
#include "agent/ranks/graceful_stop.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "tests/sim/agent/host.h"
#include "tests/sim/agent/stand_ins.h"

struct usage;

pid_t __wrap_subprocess_start(const struct subprocess_spec *spec, struct err *err);
int __wrap_cleanup_pass_run(const struct cleanup_pass *s, char *left, size_t size);
char __wrap_process_state(int64_t pid);
void __wrap_usage_get(struct usage *u, int rank, struct activity_sample *out);
json_t *__wrap_probe_facts(const char *disk, struct err *err);
json_t *__wrap_doctor_preflight(int *rc, const char *train, const json_t *facts, const json_t *spec, const char *dir,
                                const json_t *history, struct err *err);
void __wrap_graceful_stop_begin(struct graceful_stop *s, pid_t root, int signo, bool everybody);
bool __wrap_graceful_stop_look(struct graceful_stop *s, int64_t now_ms);
void __wrap_graceful_stop_end(struct graceful_stop *s);
int __wrap_graceful_stop_signal_programs(pid_t root, int signo);
void __wrap_stack_dump_end(int64_t root, bool last);
int __wrap_launch_env_free_port(struct err *err);
json_t *__wrap_reachability_listen(struct err *err);
json_t *__wrap_reachability_at(const json_t *endpoints);
int64_t __wrap_oom_kills(void);
const char *__wrap_kernel_log_recent(bool killed);
int __wrap_control_group_open(const char *run_dir);

pid_t stand_in_refuse(struct err *err)
{
    return err_set(err, ERR_SYSTEM, "cannot start a process: Resource temporarily unavailable");
}

pid_t __wrap_subprocess_start(const struct subprocess_spec *spec, struct err *err)
{
    return stand_in_start(spec, err);
}

int __wrap_cleanup_pass_run(const struct cleanup_pass *s, char *left, size_t size)
{
    int n = 0;
    size_t at = 0;
    if (left && size)
        left[0] = '\0';
    for (int i = 0; i < PROCESSES; i++) {
        struct process *p = &host.processes[i];
        if (!p->alive || p->agent != sim_current())
            continue;
        if (s->generation > 0 && (p->generation > s->generation || p->kind == PROCESS_TOOL)) {
            if (s->spared)
                *s->spared = true;
            continue;
        }
        n++;
        if (left && at < size)
            at += (size_t)snprintf(left + at, size - at, "%s%d (rank)", at ? ", " : "", p->pid);
        if (s->signo)
            process_signal(p, s->signo);
    }
    return n;
}

char __wrap_process_state(int64_t pid)
{
    const struct process *p = process_of((int)pid);
    return !p ? (char)0 : p->zombie ? 'Z' : p->stopped ? 'T' : p->place == AT_WORK ? 'R' : 'S';
}

void __wrap_usage_get(struct usage *u, int rank, struct activity_sample *out)
{
    (void)u;
    *out = (struct activity_sample){.at_ms = now() / NS_PER_MS, .counted_ms = now() / NS_PER_MS};
    for (int i = 0; i < PROCESSES; i++)
        if (host.processes[i].kind == PROCESS_RANK && host.processes[i].rank == rank)
            out->output_bytes = host.processes[i].output_bytes;
}

json_t *__wrap_probe_facts(const char *disk, struct err *err)
{
    (void)disk;
    json_t *facts = json_make("{s:i, s:s, s:s, s:i, s:s, s:[], s:{}, s:[], s:[], s:[], s:[]}", "schema", 2, "hostname",
                              sim_current() == host.agent ? "node1" : "node2", "boot_id", "b", "cpus", 8, "cpu_list",
                              "0-7", "numa", "environment", "net",
                              "routes", "gpus", "pairs");
    if (facts && host.plan.ends_s)
        json_object_set_new(facts, "session", json_make("{s:I}", "ends_at_s", (json_int_t)host.plan.ends_s));
    if (!facts)
        err_set(err, ERR_MEMORY, "no memory for facts");
    return facts;
}

json_t *__wrap_doctor_preflight(int *rc, const char *train, const json_t *facts, const json_t *spec, const char *dir,
                                const json_t *history, struct err *err)
{
    (void)train, (void)facts, (void)spec, (void)dir, (void)history, (void)err;
    *rc = 0;
    return NULL;
}

/* A command is one process here, and no shell is above it. */
void __wrap_graceful_stop_begin(struct graceful_stop *s, pid_t root, int signo, bool everybody)
{
    struct process *p = process_of(root);
    (void)everybody;
    *s = (struct graceful_stop){.root = root, .signo = signo};
    if (p && p->alive)
        process_signal(p, signo);
}

bool __wrap_graceful_stop_look(struct graceful_stop *s, int64_t now_ms)
{
    const struct process *p = process_of(s->root);
    const int64_t lingers = s->root - FIRST_PID < EXITS ? host.exits[s->root - FIRST_PID].lingers : 0;
    (void)now_ms;
    return (p && p->alive) || now() < lingers;
}

void __wrap_graceful_stop_end(struct graceful_stop *s)
{
    s->root = 0;
}

int __wrap_graceful_stop_signal_programs(pid_t root, int signo)
{
    struct process *p = process_of(root);
    return p && p->alive ? process_signal(p, signo) + 1 : 0;
}

void __wrap_stack_dump_end(int64_t root, bool last)
{
    struct process *p = process_of((int)root);
    (void)last;
    if (p && p->alive)
        process_signal(p, SIGABRT);
}

int __wrap_launch_env_free_port(struct err *err)
{
    (void)err;
    return 29500;
}

json_t *__wrap_reachability_listen(struct err *err)
{
    (void)err;
    return NULL;
}

json_t *__wrap_reachability_at(const json_t *endpoints)
{
    (void)endpoints;
    return json_array();
}

int64_t __wrap_oom_kills(void)
{
    return 0;
}

const char *__wrap_kernel_log_recent(bool killed)
{
    (void)killed;
    return "";
}

int __wrap_control_group_open(const char *run_dir)
{
    (void)run_dir;
    return -1;
}
