/* SPDX-License-Identifier: Apache-2.0 */
/* sim_control.c - runs seeds through a world of faults, and checks the rules after each step
 *
 *   sim_control SEEDS [FIRST]    the seeds that once failed, then SEEDS of them from FIRST (1), on all
 *                                processors, a line for each that fails;
 *                                with 2000 seeds or more, also when something of the tables of
 *                                states, causes and faults was never seen
 *   sim_control --seed N [-v]    one of them, told step by step; the same every time
 *
 * No job is lost, none runs twice, every event is applied once and in order,
 * every waiting job has a reason and is looked at in time, a finished job is
 * final and nothing of it is left, a restart is a replay, nobody but the agent
 * of the living attempt is believed, back-off is what it says it is, and no
 * more slots are given than there are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/agent_core.h"
#include "tests/sim/world.h"

enum { WORKERS = 64 };

/* 10, 14, 19: the daemon freed a listener before libuv had closed it. */
static const uint64_t once_failed[] = { 10, 14, 19 };

static struct retry_rules some_rules(struct world *w)
{
    return (struct retry_rules){ .max = chance(w) % 16 == 0 ? 0 : between(w, 3, 9),
                                 .no_progress = chance(w) % 8 == 0 ? 100000 : between(w, 2, 4),
                                 .same_line = w->seed % 3 == 0 ? 0 : 1 + (int32_t)(w->seed % 3),
                                 .same_line_ms = 60000,
                                 .backoff_min_ms = between(w, 200, 900),
                                 .backoff_max_ms = between(w, 1000, 6000) };
}

static void submit(struct world *w, int job)
{
    struct truth *t = &w->truth[job];
    const int most = w->cpus < RANKS ? w->cpus : RANKS;
    *t = (struct truth){ .steps = between(w, 20, 120), .np = (int)between(w, 1, most),
                         .every = between(w, 3, 40), .engine = chance(w) % 4 != 0,
                         .has_setup = chance(w) % 3 == 0, .doomed = chance(w) % 10 == 0,
                         .cursed = chance(w) % 10 == 0,
                         .rules = some_rules(w) };
    t->gpus = chance(w) % 2;
    t->rejoin = t->engine && (w->seed + (uint64_t)job) % 3 == 1;
    t->two_nodes = (w->seed + (uint64_t)job) % 3 == 0;
    t->bad_gpu = t->gpus && chance(w) % 3 == 0 ? (int)between(w, 0, t->np - 1) : -1;
    w->after[job] = job > 0 && chance(w) % 4 == 0 ? (int)between(w, 0, job - 1) : -1;
    bool held = chance(w) % 8 == 0;
    t->submit = json_pack("{s:s, s:I, s:b, s:{s:I, s:I, s:I, s:I, s:[I, I]}}", "name", "x", "priority",
                          (json_int_t)between(w, -1, 1), "held", (int)held, "retry", "max",
                          (json_int_t)t->rules.max, "no_progress",
                          (json_int_t)t->rules.no_progress, "same_line",
                          (json_int_t)t->rules.same_line, "same_line_ms",
                          (json_int_t)t->rules.same_line_ms, "backoff_ms",
                          (json_int_t)t->rules.backoff_min_ms, (json_int_t)t->rules.backoff_max_ms);
    plan(w, between(w, 0, 20000), PERSON, job, 0, 0)->a = SAYS_SUBMIT;
    if (chance(w) % 8 == 0)
        plan(w, between(w, 0, 25000), PERSON, job, 0, 0)->a = SAYS_HOLD;
    for (int times = chance(w) % 4 == 0 ? 2 : 0; times > 0; times--)
        plan(w, between(w, 1000, 90000), PERSON, job, 0, 0)->a = SAYS_STOP;
    for (int i = 0; i < 6; i++)
        plan(w, between(w, 0, 120000), PERSON, job, 0, 0)->a = SAYS_WHY;
    t->stop = json_pack("{s:s, s:b, s:b}", "reason", "cancelled", "limit", chance(w) % 4 == 0,
                        "now", 0);
}

static void begin(struct world *w, uint64_t seed, bool verbose)
{
    struct happening *heap = w->heap;
    const size_t room = w->room;
    memset(w, 0, sizeof(*w));
    w->heap = heap;
    w->room = room;
    w->seed = w->chance = seed;
    w->verbose = verbose;
    w->jobs = (int)between(w, 1, JOBS);
    w->cpus = (int)between(w, 1, CPUS);
    w->calm = (int)between(w, 1, 3);
    for (int j = 0; j < w->jobs; j++)
        submit(w, j);
    for (int i = 0; i < 6; i++)
        plan(w, between(w, 1000, FAULTS_UNTIL_MS), HUB_CRASH, 0, 0, 0);
    for (int i = 0; i < 2 * w->jobs; i++)
        plan(w, between(w, 1000, 90000), i % 4 ? AGENT_CRASH : AGENT_PREEMPTED, (int)between(w, 0, w->jobs - 1), 0, 0);
    if (chance(w) % 3 == 0)
        for (int64_t i = between(w, 1, 3); i > 0; i--)
            plan(w, between(w, 1000, FAULTS_UNTIL_MS), CLOCK_JUMPS, 0, 0, 0);
    if (chance(w) % 3 == 0)
        plan(w, between(w, 1000, 90000), DISK_FULL, 0, 0, 0);
    if (seed % 4 == 2)
        for (int64_t i = between(w, 1, 3); i > 0; i--)
            plan(w, between(w, 1000, FAULTS_UNTIL_MS), POWER_CUT, 0, 0, 0);
    if (seed % 4 == 1)
        plan(w, between(w, 1000, FAULTS_UNTIL_MS), MACHINE_SLEEPS, 0, 0, 0);
    plan(w, 0, HUB_START, 0, 0, 0);
}

static bool all_done(const struct world *w)
{
    for (int j = 0; j < w->jobs; j++)
        if (!w->store[j].done || !w->truth[j].shown)
            return false;
    return true;
}

/* Is it nearly what it was before some jump? A job that saw nothing in between then does not see the rest, and would
 * account for it wrongly, by less than CLOCK_JUMP_MS. */
static bool back_again(const struct world *w)
{
    for (int i = 0; i < w->jumps; i++)
        if (llabs(w->skew - w->asleep - w->ahead[i]) < CLOCK_JUMP_MS)
            return true;
    return false;
}

static void jump(struct world *w)
{
    const int64_t by = between(w, -3600000, 3600000);
    w->ahead[w->jumps++] = w->skew - w->asleep;
    w->skew += by < 0 ? by - CLOCK_JUMP_MS : by + CLOCK_JUMP_MS;
    while (back_again(w))
        w->skew += CLOCK_JUMP_MS;
    w->cover.harms[HARM_CLOCK]++;
    say(w, "! the clock jumps to %+lld s", (long long)w->skew / 1000);
}

/* Everything stands still, and only the wall clock and that of the boot go on. */
static void sleeps(struct world *w)
{
    const int64_t by = between(w, CLOCK_JUMP_MS, 36000000);
    w->skew += by;
    w->asleep += by;
    w->cover.harms[HARM_SLEEP]++;
    say(w, "! the machine was suspended for %lld s", (long long)by / 1000);
}

static void end(struct world *w)
{
    for (size_t i = 0; i < w->count; i++)
        message_drop(w->heap[i].message);
    w->count = 0;
    for (int j = 0; j < w->jobs; j++) {
        history_end(&w->store[j]);
        json_decref(w->truth[j].submit);
        json_decref(w->truth[j].stop);
        for (int n = 1; n < ATTEMPTS; n++)
            agent_end(&w->agents[j][n]);
    }
}

/* True when every rule held to the end. */
static bool live(struct world *w, uint64_t seed, bool verbose)
{
    struct happening h;
    begin(w, seed, verbose);
    hub_open(w);
    while (!w->broken[0] && !all_done(w) && hub_next(w, &h)) {
        if (h.what == CLOCK_JUMPS)
            jump(w);
        else if (h.what == MACHINE_SLEEPS)
            sleeps(w);
        else if (h.what <= PERSON || h.what == LINK_CUT || h.what == POWER_CUT || h.what == DISK_FULL ||
                 h.what == DISK_FREE)
            hub_happens(w, &h);
        else
            node_happens(w, &h);
        message_drop(h.message);
        rules_check(w);
        if (w->now > ALL_DONE_BY_MS)
            broke(w, "a job is lost: not all are done after %d minutes", ALL_DONE_BY_MS / 60000);
    }
    hub_close(w);
    for (int j = 0; j < w->jobs && !w->broken[0]; j++)
        if (!w->store[j].done)
            broke(w, "job %d is lost: nothing will ever happen to it again (%s)", j,
                  w->store[j].count ? job_state_name(w->store[j].latest.state) : "not submitted");
    if (w->broken[0])
        printf("sim_control: seed %llu, at %.3f s: %s\n  again: tests/sim/replay %llu\n", (unsigned long long)seed,
               (double)w->now / 1000, w->broken, (unsigned long long)seed);
    return !w->broken[0];
}

struct tally {
    long         failed;
    struct cover cover;
};

/* In a process of its own: what a killed program had is not freed, and a bug may crash it. */
static void run_one(struct tally *t, uint64_t seed, bool verbose)
{
    static struct world w;
    t->failed += !live(&w, seed, verbose);
    cover_add(&t->cover, &w.cover);
    end(&w);
    free(w.heap);
    fflush(stdout);
}

/* Seeds first, first + stride, ... */
static void run(struct tally *t, uint64_t first, uint64_t last, uint64_t stride, bool verbose)
{
    struct tally *one = mmap(NULL, sizeof(*one), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (one == MAP_FAILED)
        abort();
    for (uint64_t seed = first; seed <= last; seed += stride) {
        int status = 0;
        memset(one, 0, sizeof(*one));
        const pid_t pid = fork();
        if (pid == 0) {
            run_one(one, seed, verbose);
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) {
            printf("sim_control: seed %llu: the process of this world died (%d)\n  again: tests/sim/replay %llu\n",
                   (unsigned long long)seed, status, (unsigned long long)seed);
            fflush(stdout);
            t->failed++;
        }
        t->failed += one->failed;
        cover_add(&t->cover, &one->cover);
    }
    munmap(one, sizeof(*one));
}

/* A worker per processor; each sends its tally through a pipe. */
static int run_all(struct tally *sum, uint64_t first, uint64_t seeds)
{
    long workers = sysconf(_SC_NPROCESSORS_ONLN);
    int pipes[WORKERS], started = 0;
    workers = workers < 1 ? 1 : workers > WORKERS ? WORKERS : workers;
    for (; started < workers; started++) {
        int ends[2];
        if (pipe(ends) < 0)
            break;
        pid_t pid = fork();
        if (pid == 0) {
            struct tally t = { 0 };
            run(&t, first + (uint64_t)started, first + seeds - 1, (uint64_t)workers, false);
            _exit(write(ends[1], &t, sizeof(t)) == (ssize_t)sizeof(t) ? 0 : 1);
        }
        close(ends[1]);
        pipes[started] = ends[0];
    }
    int bad = started < workers;
    for (int i = 0; i < started; i++) {
        struct tally t;
        if (read(pipes[i], &t, sizeof(t)) == (ssize_t)sizeof(t)) {
            sum->failed += t.failed;
            cover_add(&sum->cover, &t.cover);
        } else {
            printf("sim_control: a worker died\n");
            bad = 1;
        }
        close(pipes[i]);
    }
    while (wait(NULL) > 0 || errno == EINTR)
        continue;
    return bad;
}

/* Freed memory is overwritten at once, so that whoever reads it does not find what was there. */
static void poison_memory(char **argv)
{
    if (getenv("MALLOC_PERTURB_"))
        return;
    setenv("MALLOC_PERTURB_", "165", 1);
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    poison_memory(argv);
    uint64_t one = 0, number[2] = { 50, 1 };
    bool verbose = false;
    int numbers = 0;
    struct tally sum = { 0 };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            one = strtoull(argv[++i], NULL, 10);
        else if (numbers < 2)
            number[numbers++] = strtoull(argv[i], NULL, 10);
    }
    if (one) {
        run(&sum, one, one, 1, verbose);
        return sum.failed ? 1 : 0;
    }
    const uint64_t seeds = number[0], first = number[1];
    for (size_t i = 0; i < sizeof(once_failed) / sizeof(once_failed[0]); i++)
        run(&sum, once_failed[i], once_failed[i], 1, false);
    sum.cover = (struct cover){ 0 };
    int bad = run_all(&sum, first, seeds);
    int never = cover_print(&sum.cover, (long)seeds);
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    const double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    printf("sim_control: %llu seeds from %llu, %ld failed; %.1f job-hours in %.1f s of CPU, %.2f per second\n",
           (unsigned long long)seeds, (unsigned long long)first, sum.failed, (double)sum.cover.job_ms / 3600000, cpu_s,
           (double)sum.cover.job_ms / 3600000 / cpu_s);
    return bad || sum.failed || (seeds >= COVERS_ALL && never) ? 1 : 0;
}
