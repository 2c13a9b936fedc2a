/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_process.c - see virtual_process.h */
#include "tests/sim/virtual_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>

/* A process that is killed leaves its memory behind. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

#define WALL_NS  INT64_C(1700000000000000000)
#define START_NS INT64_C(1000000000000)     /* a monotonic clock does not begin at 0 */

enum { STACK = 4 * 1024 * 1024, GUARD = 4096, COST_NS = 20000 };

struct sim_thread {
    struct sim_process *process;
    struct sim_thread  *next;
    void             *(*run)(void *arg);
    void               *arg;
    ucontext_t          context;
    char               *stack;          /* NULL: ended */
    bool              (*ready)(void *arg);
    void               *ready_arg;
    int64_t             until;
    int                 errnum;
    void               *fake_stack;     /* of the address sanitizer */
};

struct sim_process {
    struct sim_process *next;
    char                name[32];
    void              (*main)(void *arg);
    void               *arg, *data, *loops, *waiters;
    bool                alive;
    int64_t             stalled;        /* until then */
    struct sim_thread  *threads;        /* the first one runs main */
};

static struct {
    uint64_t            chance;
    int64_t             now, skew, asleep, cost;
    struct sim_process *processes;
    struct sim_thread  *runs;
    ucontext_t          home;
    void               *fake_stack;
    const void         *stack;
    size_t              stack_size;
    void              (*ended)(struct sim_process *p);
    void              (*deliver)(struct sim_process *p, int number);
} sim;

/* ---- chance and clocks ---- */

uint64_t sim_chance(void)
{
    uint64_t z = (sim.chance += UINT64_C(0x9e3779b97f4a7c15));  /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t sim_between(int64_t low, int64_t high)
{
    return low + (int64_t)(sim_chance() % (uint64_t)(high - low + 1));
}

int64_t sim_now(void)
{
    return sim.now;
}

int64_t sim_wall_ns(void)
{
    return WALL_NS + sim.now - START_NS + sim.asleep + sim.skew;
}

int64_t sim_boot_ns(void)
{
    return sim.now + sim.asleep;
}

void sim_wall_jump(int64_t ns)
{
    sim.skew += ns;
}

void sim_suspend(int64_t ns)
{
    sim.asleep += ns;
}

void sim_clock_to(int64_t ns)
{
    if (ns > sim.now)
        sim.now = ns;
}

void sim_callback_cost(int64_t ns)
{
    sim.cost = ns;
}

/* ---- switches between stacks ---- */

#ifdef __SANITIZE_ADDRESS__
#define LEAVE(save, to, size) __sanitizer_start_switch_fiber(save, to, size)
#define ENTER(saved, from, size) __sanitizer_finish_switch_fiber(saved, from, size)
#else
#define LEAVE(save, to, size) ((void)0)
#define ENTER(saved, from, size) ((void)0)
#endif

/* From a thread to the simulator. */
static void leave(struct sim_thread *t, bool for_ever)
{
    (void)for_ever;
    t->errnum = errno;
    LEAVE(for_ever ? NULL : &t->fake_stack, sim.stack, sim.stack_size);
    swapcontext(&t->context, &sim.home);
    ENTER(t->fake_stack, &sim.stack, &sim.stack_size);
    errno = t->errnum;
}

static void begin(void)
{
    struct sim_thread *t = sim.runs;
    ENTER(NULL, &sim.stack, &sim.stack_size);
    errno = 0;
    t->run(t->arg);
    t->ready = NULL;
    t->until = INT64_MAX;
    t->run = NULL;                      /* enter() frees the stack */
    leave(t, true);
}

static void free_stack(struct sim_thread *t)
{
    if (t->stack)
        munmap(t->stack, STACK);
    t->stack = NULL;
}

static void end(struct sim_process *p)
{
    for (struct sim_thread *t = p->threads; t; t = t->next)
        free_stack(t);
    p->alive = false;
    if (sim.ended)
        sim.ended(p);
}

/* From the simulator to a thread. */
static void enter(struct sim_thread *t)
{
    sim.runs = t;
    LEAVE(&sim.fake_stack, t->stack, STACK);
    swapcontext(&sim.home, &t->context);
    ENTER(sim.fake_stack, NULL, NULL);
    sim.runs = NULL;
    if (!t->process->alive) {           /* killed from within */
        end(t->process);
    } else if (!t->run) {
        free_stack(t);
        if (t == t->process->threads)   /* main returned: the other threads end, too */
            end(t->process);
    }
}

/* Alone in a function, because getcontext() may return twice. */
static void prepare(ucontext_t *c, char *stack)
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = STACK;
    makecontext(c, begin, 0);
}

static struct sim_thread *add_thread(struct sim_process *p, void *(*run)(void *), void *arg)
{
    struct sim_thread *t = calloc(1, sizeof(*t)), **at = &p->threads;
    char *stack = t ? mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                    : MAP_FAILED;
    if (stack == MAP_FAILED) {
        free(t);
        return NULL;
    }
    mprotect(stack, GUARD, PROT_NONE);
    *t = (struct sim_thread){ .process = p, .run = run, .arg = arg, .stack = stack, .until = sim.now };
    prepare(&t->context, stack);
    while (*at)
        at = &(*at)->next;
    *at = t;
    return t;
}

/* ---- turns ---- */

static bool can_run(const struct sim_thread *t)
{
    return t->stack && t->process->stalled <= sim.now && (t->until <= sim.now || (t->ready && t->ready(t->ready_arg)));
}

bool sim_turn(void)
{
    struct sim_thread *one = NULL;
    uint64_t n = 0;
    for (struct sim_process *p = sim.processes; p; p = p->next)
        for (struct sim_thread *t = p->alive ? p->threads : NULL; t; t = t->next)
            if (can_run(t) && (n++ == 0 || sim_chance() % n == 0))
                one = t;
    if (!one)
        return false;
    if (sim.cost > 0)
        sim.now += sim_between(1, sim.cost);
    enter(one);
    return true;
}

int64_t sim_due(void)
{
    int64_t due = INT64_MAX;
    for (const struct sim_process *p = sim.processes; p; p = p->next) {
        for (const struct sim_thread *t = p->alive ? p->threads : NULL; t; t = t->next) {
            const bool now = t->ready && t->ready(t->ready_arg);
            const int64_t from = now ? sim.now : t->until, at = from > p->stalled ? from : p->stalled;
            if (t->stack && at < due)
                due = at;
        }
    }
    return due > sim.now ? due : sim.now;
}

bool sim_wait(bool (*ready)(void *arg), void *arg, int64_t until_ns)
{
    struct sim_thread *t = sim.runs;
    if (t) {
        t->ready = ready;
        t->ready_arg = arg;
        t->until = until_ns;
        leave(t, false);
    }
    return ready && ready(arg);
}

/* ---- processes and threads ---- */

static void *run_main(void *arg)
{
    struct sim_process *p = arg;
    p->main(p->arg);
    return NULL;
}

struct sim_process *sim_start(const char *name, void (*main)(void *arg), void *arg)
{
    struct sim_process *p = calloc(1, sizeof(*p)), **at = &sim.processes;
    if (!p)
        return NULL;
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->main = main;
    p->arg = arg;
    if (!add_thread(p, run_main, p)) {
        free(p);
        return NULL;
    }
    p->alive = true;
    while (*at)
        at = &(*at)->next;
    return *at = p;
}

struct sim_thread *sim_thread_start(void *(*run)(void *arg), void *arg)
{
    return sim.runs ? add_thread(sim.runs->process, run, arg) : NULL;
}

bool sim_thread_ended(const struct sim_thread *t)
{
    return !t->stack;
}

void sim_kill(struct sim_process *p)
{
    if (!p->alive)
        return;
    if (p != sim_current()) {
        end(p);
        return;
    }
    p->alive = false;
    leave(sim.runs, true);
}

void sim_signal(struct sim_process *p, int number)
{
    if (p->alive && sim.deliver)
        sim.deliver(p, number);
}

void sim_stall(struct sim_process *p, int64_t until_ns)
{
    p->stalled = until_ns;
}

bool sim_alive(const struct sim_process *p)
{
    return p->alive;
}

const char *sim_name(const struct sim_process *p)
{
    return p->name;
}

void sim_set_data(struct sim_process *p, void *data)
{
    p->data = data;
}

void *sim_data(const struct sim_process *p)
{
    return p->data;
}

void sim_on_end(void (*ended)(struct sim_process *p))
{
    sim.ended = ended;
}

void **sim_loops(struct sim_process *p)
{
    return &p->loops;
}

void **sim_waiters(struct sim_process *p)
{
    return &p->waiters;
}

void sim_signal_hook(void (*deliver)(struct sim_process *p, int number))
{
    sim.deliver = deliver;
}

struct sim_process *sim_current(void)
{
    return sim.runs ? sim.runs->process : NULL;
}

struct sim_thread *sim_thread(void)
{
    return sim.runs;
}

void sim_open(uint64_t seed)
{
    void (*const deliver)(struct sim_process *, int) = sim.deliver;
    memset(&sim, 0, sizeof(sim));
    sim.deliver = deliver;
    sim.chance = seed;
    sim.now = START_NS;
    sim.cost = COST_NS;
}

void sim_close(void)
{
    for (struct sim_process *p; (p = sim.processes);) {
        sim_kill(p);
        sim.processes = p->next;
        for (struct sim_thread *t; (t = p->threads);) {
            p->threads = t->next;
            free(t);
        }
        free(p);
    }
}
