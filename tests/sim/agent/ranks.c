/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - what the simulated processes do; see host.h
 *
 * Ranks train in step: each loads data, works, and waits for all others in a collective. Rank 0 reports steps and
 * saves. A rank whose peer died notices that after some time and detaches, as the engine does (engine/train/rejoin.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/flight.h"
#include "tests/sim/agent/host.h"
#include "tests/sim/agent/stand_ins.h"

enum { SAVE_MOST_MS = 900, LOSS_SEEN_MS = 3000, DYING_MS = 3000, LINGERS_MS = 2000 };

static int64_t asked_to_save;

int64_t ranks_asked_to_save(void)
{
    return asked_to_save;
}

static struct team *team_of(const struct process *p)
{
    return &host.teams[p->generation];
}

struct process *process_of(int pid)
{
    for (int i = 0; i < PROCESSES; i++)
        if (host.processes[i].kind != PROCESS_NONE && host.processes[i].pid == pid)
            return &host.processes[i];
    return NULL;
}

int processes_alive(int generation)
{
    int n = 0;
    for (int i = 0; i < PROCESSES; i++) {
        const struct process *p = &host.processes[i];
        n += p->alive && p->kind != PROCESS_TOOL && (generation == 0 || p->generation <= generation);
    }
    return n;
}

/* --- fates ---------------------------------------------------------------------------------------- */

void team_draw(int generation, int np)
{
    static const int codes[] = {EXIT_BUG, EXIT_CHECKPOINT, EXIT_GPU_MEMORY, EXIT_HOST_MEMORY, EXIT_NAN, EXIT_DESYNC,
                                EXIT_IO, EXIT_LIMIT, EXIT_COLLECTIVE, 1};
    static const int signals[] = {SIGSEGV, SIGKILL, SIGBUS, SIGABRT};
    if (generation >= TEAMS)
        broke("%d generations", generation);
    struct team *t = &host.teams[generation];
    const bool none = sim_chance() % (uint64_t)host.plan.fault_odds == 0;
    const enum fate fate = none ? FATE_NONE : (enum fate)sim_between(1, FATES - 1);
    *t = (struct team){.np = np, .fate = fate, .rank = (int)sim_between(0, np - 1), .from = host.saved_step,
                       .step = host.saved_step};
    t->at_step = sim_between(host.saved_step, host.plan.steps - 1);
    t->code = fate == FATE_SIGNAL ? signals[sim_chance() % 4]
                                  : codes[sim_chance() % (sizeof(codes) / sizeof(codes[0]))];
    if (generation > 0)
        host.generations = generation;
    host.counts[fate]++;
    say("generation %d: fate %d of rank %d, code %d, at step %lld", generation, (int)fate, t->rank, t->code,
        (long long)t->at_step);
}

static bool is_struck(const struct process *p, enum fate fate)
{
    const struct team *t = team_of(p);
    return t->fate == fate && !t->struck && t->rank == p->rank && t->at_step == p->step;
}

/* --- what it says ------------------------------------------------------------------------------------- */

static void line(struct process *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(struct process *p, const char *fmt, ...)
{
    char text[1000];
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(text, sizeof(text) - 1, fmt, list);
    va_end(list);
    text[n++] = '\n';
    if (p->events >= 0 && write(p->events, text, (size_t)n) != n)
        say("a line of rank %d is lost", p->rank);
}

void process_print(struct process *p, const char *text)
{
    const size_t n = strlen(text);
    if (p->out >= 0 && write(p->out, text, n) == (ssize_t)n)
        p->output_bytes += n;
}

/* --- how a process ends ------------------------------------------------------------------------------ */

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void lose_peers(const struct process *dead)
{
    for (int i = 0; i < PROCESSES; i++) {
        struct process *p = &host.processes[i];
        if (p->alive && p->kind == PROCESS_RANK && p->generation == dead->generation && p->place == AT_REDUCE &&
            p->due == NEVER)
            p->due = now() + ms(sim_between(300, LOSS_SEEN_MS));
    }
}

static void end(struct process *p, int status)
{
    say("process %d (rank %d of generation %d) ends, status 0x%x", p->pid, p->rank, p->generation, (unsigned)status);
    close_one(&p->out);
    close_one(&p->events);
    close_one(&p->control);
    flight_close(p->flight);
    p->flight = NULL;
    p->alive = false;
    p->zombie = true;
    p->status = status;
    p->due = NEVER;
    if (p->pid - FIRST_PID < EXITS)
        host.exits[p->pid - FIRST_PID] = (struct exit){status, now(), p->lingers};
    if (p->kind == PROCESS_RANK)
        lose_peers(p);
    child_died(p);
}

void processes_lose(const struct sim_process *agent)
{
    for (int i = 0; i < PROCESSES; i++) {
        struct process *p = &host.processes[i];
        if (p->kind == PROCESS_NONE || p->agent != agent)
            continue;
        if (p->alive)
            end(p, SIGKILL);
        *p = (struct process){.kind = PROCESS_NONE};
    }
}

static void ends_with(struct process *p, int code)
{
    end(p, code << 8);
}

int process_signal(struct process *p, int signo)
{
    if (signo == 0)
        return 0;
    if (signo == SIGCONT) { /* the agent sends it with each signal; a rank stopped from outside continues */
        if (p->stopped) {
            p->stopped = false;
            p->due = p->asked_to_stop ? now() + ms(1) : NEVER;
        }
        return 0;
    }
    say("signal %d to process %d", signo, p->pid);
    if (p->dying)
        return 0;
    if (signo == SIGKILL && p->kind == PROCESS_RANK) {
        if (p->place != AT_HUNG)
            rules_killed();
        p->dying = sim_chance() % 8 == 0;
        p->due = now() + ms(sim_between(1, DYING_MS));
        if (p->dying)
            return 0;
    }
    if (signo == SIGKILL || p->kind == PROCESS_TOOL || p->kind == PROCESS_SETUP || p->place == AT_START) {
        if (signo == SIGTERM && p->kind == PROCESS_RANK && !p->command) {
            p->asked_to_stop = true;
            return 0;
        }
        end(p, signo);
        return 0;
    }
    if (p->command && signo == SIGABRT && !p->stopped) { /* Python's faulthandler */
        process_print(p, "Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n"
                 "  File \"train.py\", line 7 in f\n");
        end(p, SIGABRT);
    } else if (p->command && signo == SIGTERM && p->place != AT_HUNG) {
        p->place = AT_END;
        p->asked_to_stop = true;
        p->due = now() + ms(sim_between(1, 3000));
        p->lingers = sim_chance() % 3 ? 0 : p->due + ms(sim_between(1, LINGERS_MS));
    } else if (signo == SIGTERM && p->kind == PROCESS_RANK) {
        p->asked_to_stop = true;
        if (p->place == AT_DETACHED)
            p->due = now() + ms(sim_between(1, 50));
    }
    return 0;
}

/* --- its flight page ----------------------------------------------------------------------------------- */

static void attach(struct process *p)
{
    flight_close(p->flight);
    p->flight = NULL;
    if (flight_attach(&p->flight, p->flight_path, NULL) < 0) {
        broke("rank %d finds no flight page '%s'", p->rank, p->flight_path);
        return;
    }
    /* The mapping is all that a flight holds; its writer is this process. */
    struct flight_page *page = *(struct flight_page **)(void *)p->flight;
    page->pid = (uint64_t)p->pid;
    flight_set_total(p->flight, (uint64_t)host.plan.steps);
}

static void say_step(struct process *p)
{
    struct team *t = team_of(p);
    char text[100];
    rules_step();
    t->told_step = p->step;
    t->told = now();
    if (p->command) {
        snprintf(text, sizeof(text), "step %lld/%lld loss: 0.5\n", (long long)p->step, (long long)host.plan.steps);
        process_print(p, text);
        return;
    }
    line(p, "{\"ev\":\"step\",\"step\":%lld,\"steps\":%lld,\"loss\":0.5,\"lr\":0.002,\"samples_per_s\":10,"
            "\"step_ms\":%lld}",
         (long long)p->step, (long long)host.plan.steps, (long long)host.plan.step_ms);
}

/* A command has no flight page. */
static void enter(const struct process *p, enum flight_phase phase)
{
    if (p->flight)
        flight_enter(p->flight, (uint64_t)p->step, phase);
}

/* --- what it does --------------------------------------------------------------------------------------- */

static void go_on(struct process *p)
{
    p->place = AT_DATA;
    enter(p, PHASE_DATA);
    p->due = now() + host.plan.data_us * 1000;
}

static void begin(struct process *p)
{
    p->step = host.saved_step;
    if (p->command) {
        process_print(p, "loading data\n");
        go_on(p);
        return;
    }
    attach(p);
    p->step = host.saved_step;
    line(p, "{\"ev\":\"started\",\"rank\":%d,\"world_size\":%d,\"resume_step\":%lld,\"steps\":%lld,\"params\":10,"
            "\"backend\":\"cpu\"}",
         p->rank, team_of(p)->np, (long long)p->step, (long long)host.plan.steps);
    if (p->asked_to_stop) {
        ends_with(p, EXIT_ABORTED);
        return;
    }
    go_on(p);
}

static void strike(struct process *p)
{
    team_of(p)->struck = now();
    say("fate strikes rank %d at step %lld", p->rank, (long long)p->step);
}

static const char *cause_of(int code)
{
    return code == EXIT_BUG            ? "unknown"
           : code == EXIT_CHECKPOINT   ? "checkpoint_error"
           : code == EXIT_GPU_MEMORY   ? "gpu_oom"
           : code == EXIT_HOST_MEMORY  ? "host_oom"
           : code == EXIT_NAN          ? "nan_loss"
           : code == EXIT_DESYNC       ? "desync"
           : code == EXIT_IO           ? "io_error"
           : code == EXIT_LIMIT        ? "resource_limit"
           : code == EXIT_COLLECTIVE   ? "nccl_error" : code == 1 ? "data_error" : "unknown";
}

static void leave_child(const struct process *p)
{
    struct process *child = process_of(0);
    for (int i = 0; i < PROCESSES && !child; i++)
        if (host.processes[i].kind == PROCESS_NONE)
            child = &host.processes[i];
    *child = (struct process){.kind = PROCESS_CHILD, .pid = host.next_pid++, .agent = p->agent,
                              .generation = p->generation,
                              .rank = p->rank, .alive = true, .out = host_keep(dup(p->out)), .events = -1,
                              .control = -1,
                              .place = AT_HUNG, .due = NEVER};
}

/* True: its fate has struck. */
static bool meets_fate(struct process *p)
{
    const struct team *t = team_of(p);
    if (is_struck(p, FATE_EXIT) || is_struck(p, FATE_ORPHAN)) {
        strike(p);
        if (t->fate == FATE_ORPHAN)
            leave_child(p);
        if (!p->command) /* more than its exit code says */
            line(p, "{\"ev\":\"failed\",\"cause\":\"%s\",\"exit_code\":%d,\"text\":\"it says so\",\"step\":%lld}",
                 cause_of(t->code), t->code, (long long)p->step);
        ends_with(p, t->code);
    } else if (is_struck(p, FATE_SIGNAL)) {
        strike(p);
        end(p, t->code);
    } else if (is_struck(p, FATE_HANG) || is_struck(p, FATE_STOPPED)) {
        strike(p);
        p->stopped = t->fate == FATE_STOPPED;
        p->place = AT_HUNG;
        p->due = NEVER;
    } else {
        return false;
    }
    return true;
}

static void to_reduce(struct process *p);

static void work(struct process *p)
{
    int64_t long_ms = host.plan.step_ms;
    if (meets_fate(p))
        return;
    if (is_struck(p, FATE_SLOW)) {
        strike(p);
        long_ms = 4000;
    }
    enter(p, PHASE_FORWARD);
    p->place = AT_WORK;
    p->due = now() + ms(long_ms);
}

static bool team_waits(const struct process *p)
{
    int n = 0;
    for (int i = 0; i < PROCESSES; i++) {
        const struct process *o = &host.processes[i];
        n += o->alive && o->kind == PROCESS_RANK && o->generation == p->generation && o->place == AT_REDUCE &&
             o->step == p->step;
    }
    return n == team_of(p)->np;
}

static bool team_stops(const struct process *p)
{
    for (int i = 0; i < PROCESSES; i++)
        if (host.processes[i].kind == PROCESS_RANK && host.processes[i].generation == p->generation &&
            host.processes[i].asked_to_stop)
            return true;
    return false;
}

/* All have met: the step is done. */
static void complete(const struct process *last)
{
    struct team *t = team_of(last);
    const bool stops = team_stops(last);
    const int64_t step = ++t->step;
    for (int r = 0; r < PROCESSES; r++) { /* rank 0 was started first */
        struct process *p = &host.processes[r];
        if (!p->alive || p->kind != PROCESS_RANK || p->generation != last->generation)
            continue;
        flight_coll_done(p->flight, (uint64_t)step);
        if (p->flight)
            flight_step_done(p->flight, (uint64_t)step, (uint64_t)ms(host.plan.step_ms));
        p->step = step;
        if (p->rank == 0)
            say_step(p);
        const bool all = step >= host.plan.steps, saves = stops || all || step % host.plan.save_every == 0 ||
                                                          (p->rank == 0 && p->asked_to_save);
        if (p->rank == 0 && saves) {
            enter(p, PHASE_CHECKPOINT);
            p->asked_to_save = false;
            p->leaves = stops;
            p->place = AT_SAVE;
            p->due = now() + ms(sim_between(50, SAVE_MOST_MS));
        } else if (stops || all) {
            enter(p, PHASE_IDLE);
            p->place = AT_END;
            p->due = now() + ms(SAVE_MOST_MS + sim_between(1, 20));
        } else {
            go_on(p);
        }
    }
}

static void to_reduce(struct process *p)
{
    struct team *t = team_of(p);
    enter(p, PHASE_REDUCE);
    flight_coll_begin(p->flight, (uint64_t)p->step + 1, COLL_ALL_REDUCE, 1 << 20);
    p->place = AT_REDUCE;
    p->due = NEVER;
    if (team_waits(p)) {
        complete(p);
        return;
    }
    int alive = 0;
    for (int i = 0; i < PROCESSES; i++)
        alive += host.processes[i].alive && host.processes[i].kind == PROCESS_RANK &&
                 host.processes[i].generation == p->generation && host.processes[i].place != AT_DETACHED;
    if (alive < t->np)
        p->due = now() + ms(sim_between(300, LOSS_SEEN_MS));
}

static void saved(struct process *p)
{
    struct team *t = team_of(p);
    host.saved_step = p->step;
    if (!p->command)
        line(p, "{\"ev\":\"checkpoint\",\"step\":%lld,\"path\":\"/c/%lld\",\"bytes\":1000,\"ms\":100,\"digest\":\"x\"}",
         (long long)p->step, (long long)p->step);
    if (p->step >= host.plan.steps) {
        t->done = true;
        if (!p->command)
            line(p, "{\"ev\":\"done\",\"step\":%lld,\"loss\":0.1}", (long long)p->step);
        ends_with(p, EXIT_DONE);
    } else if (p->leaves) {
        ends_with(p, EXIT_ABORTED);
    } else {
        go_on(p);
    }
}

/* Its peer is gone. */
static void loses(struct process *p)
{
    if (p->rejoins) {
        p->place = AT_DETACHED;
        p->due = p->asked_to_stop ? now() + ms(10) : NEVER;
        line(p, "{\"ev\":\"detached\",\"cause\":\"nccl_error\",\"text\":\"nobody answers\",\"step\":%lld}",
             (long long)p->step);
        return;
    }
    if (p->command)
        process_print(p, "RuntimeError: Connection closed by peer\n");
    else
        line(p, "{\"ev\":\"failed\",\"cause\":\"nccl_error\",\"exit_code\":74,\"text\":\"nobody answers\"}");
    ends_with(p, EXIT_COLLECTIVE);
}

static void act(struct process *p)
{
    p->due = NEVER;
    if (p->dying) {
        end(p, SIGKILL);
        return;
    }
    if (p->kind == PROCESS_TOOL || p->kind == PROCESS_SETUP) {
        ends_with(p, 0);
        return;
    }
    switch (p->place) {
    case AT_START:
        begin(p);
        break;
    case AT_DATA:
        work(p);
        break;
    case AT_WORK:
        to_reduce(p);
        break;
    case AT_REDUCE:
        loses(p);
        break;
    case AT_SAVE:
        saved(p);
        break;
    case AT_END:
        if (p->command && p->asked_to_stop)
            end(p, SIGTERM);
        else
            ends_with(p, p->step >= host.plan.steps ? EXIT_DONE : EXIT_ABORTED);
        break;
    case AT_DETACHED:
        ends_with(p, EXIT_ABORTED);
        break;
    case AT_HUNG:
        break;
    }
}

static bool may_act(const struct process *p)
{
    return p->alive && (!p->stopped || p->dying);
}

int64_t ranks_due(void)
{
    int64_t due = NEVER;
    for (int i = 0; i < PROCESSES; i++)
        if (may_act(&host.processes[i]) && host.processes[i].due < due)
            due = host.processes[i].due;
    return due;
}

void ranks_run(void)
{
    for (int i = 0; i < PROCESSES; i++)
        if (may_act(&host.processes[i]) && host.processes[i].due <= now())
            act(&host.processes[i]);
}

/* --- what it hears ---------------------------------------------------------------------------------------- */

static void rejoin(struct process *p, const json_t *word)
{
    const char *g = json_string_value(json_object_get(json_object_get(word, "env"), "JOBCTL_GENERATION"));
    if (p->place != AT_DETACHED || !g)
        return;
    p->generation = atoi(g);
    if (host.generations < p->generation)
        team_draw(p->generation, host.teams[p->generation - 1].np);
    p->place = AT_START;
    p->due = now() + ms(sim_between(10, 300));
}

static void hear(struct process *p, const char *text, size_t size)
{
    json_t *word = json_loadb(text, size, 0, NULL);
    const char *cmd = json_string_value(json_object_get(word, "cmd"));
    say("rank %d receives %s", p->rank, cmd ? cmd : "?");
    if (cmd && strcmp(cmd, "stop") == 0) {
        p->asked_to_stop = true;
        if (p->place == AT_DETACHED)
            p->due = now() + ms(sim_between(1, 50));
    } else if (cmd && strcmp(cmd, "checkpoint") == 0) {
        p->asked_to_save = true;
        asked_to_save = now();
    } else if (cmd && strcmp(cmd, "rejoin") == 0) {
        rejoin(p, word);
    }
    json_decref(word);
}

static bool listen_to(struct process *p)
{
    const ssize_t n = p->control >= 0 && !p->stopped && p->place != AT_HUNG
                          ? read(p->control, p->line + p->line_size, sizeof(p->line) - p->line_size) : -1;
    if (n < 0)
        return false;
    if (n == 0) { /* the agent is gone: counts as stop */
        close_one(&p->control);
        p->asked_to_stop = true;
        if (p->place == AT_DETACHED)
            p->due = now() + ms(sim_between(1, 50));
        return false;
    }
    p->line_size += (size_t)n;
    for (char *at; (at = memchr(p->line, '\n', p->line_size));) {
        const size_t used = (size_t)(at - p->line) + 1;
        hear(p, p->line, used - 1);
        p->line_size -= used;
        memmove(p->line, p->line + used, p->line_size);
    }
    return true;
}

bool ranks_listen(void)
{
    bool any = false;
    for (int i = 0; i < PROCESSES; i++)
        if (host.processes[i].alive && host.processes[i].kind == PROCESS_RANK)
            any |= listen_to(&host.processes[i]);
    return any;
}
