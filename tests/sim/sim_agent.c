/* SPDX-License-Identifier: Apache-2.0 */
/* sim_agent.c - the agent's real code on a virtual clock, from seeds; see agent/host.h
 *
 *   sim_agent SEEDS [FIRST]     runs SEEDS attempts
 *   sim_agent -v SEED           runs one, and prints what happens
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "agent/attempt/attempt.h"
#include "agent/os/log.h"
#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "tests/sim/agent/host.h"

enum { SECONDS_MOST = 60, REPEAT_EVERY = 20, BAD_MOST = 5 };

/* What comes back from the process of a seed. */
struct outcome {
    uint64_t digest;
    int64_t virtual_ms;
    int generations;
    long counts[FATES];
};

static void draw_plan(struct plan *p)
{
    static const int sizes[] = {1, 2, 2, 4, 8};
    p->np = sizes[sim_chance() % 5];
    p->steps = sim_between(5, 120);
    p->nodes = p->np > 1 && sim_chance() % 4 == 0 ? 2 : 1;
    p->save_every = sim_between(2, 40);
    p->step_ms = sim_between(10, 900);
    p->data_us = sim_chance() % 2 ? sim_between(5, 900) : sim_between(1000, 100000);
    p->has_setup = sim_chance() % 5 == 0;
    p->restarts = sim_between(1, 6);
    p->no_progress = sim_between(2, 4);
    p->backoff_min_ms = sim_between(100, 3000);
    p->backoff_max_ms = p->backoff_min_ms * sim_between(1, 8);
    p->fault_odds = (int)sim_between(1, 4);
    p->command = sim_chance() % 3 == 0;
    p->lease = sim_chance() % 4 == 0;
    p->never_launched = sim_chance() % 60 == 0;
    p->never_acked = sim_chance() % 40 == 0;
    p->killed = sim_chance() % 8 ? NEVER : now() + ms(sim_between(1, 150000));
    p->killed_by = sim_chance() % 4 ? 0 : sim_between(1, 60);
    p->terminated = sim_chance() % 8 ? NEVER : now() + ms(sim_between(1, 150000));
    p->fenced = sim_chance() % 12 ? NEVER : now() + ms(sim_between(1000, 150000));
    p->full = sim_chance() % 8 ? NEVER : now() + ms(sim_between(3000, 100000));
    p->jumps = sim_chance() % 4 ? NEVER : now() + ms(sim_between(1000, 150000));
    if (p->nodes > 1) { /* whose descriptors are the killed one's is not known */
        p->killed = NEVER;
        p->killed_by = 0;
    }
    p->node_lost = p->nodes > 1 && sim_chance() % 2 == 0 ? now() + ms(sim_between(100, 40000)) : NEVER;
    p->ends_s = sim_chance() % 4 ? 0 : sim_wall_ns() / 1000000000 + sim_between(20, 800);
    p->free = p->full == NEVER ? NEVER : p->full + ms(sim_between(100, 60000));
}

static void make_place(const char *root)
{
    snprintf(host.dir, sizeof(host.dir), "%s", root);
    snprintf(host.run_dir, sizeof(host.run_dir), "%s/1", host.dir);
    snprintf(host.run_dir2, sizeof(host.run_dir2), "%s/1-of-node2", host.dir);
    if (mkdir(host.run_dir, 0700) < 0 || mkdir(host.run_dir2, 0700) < 0)
        abort();
}

static void agent(void *arg)
{
    struct err err = {0};
    if (attempt_run(arg, &err) < 0)
        broke("the agent cannot run: %s", err.text);
}

/* Until the agent has left. */
static void pass(void)
{
    while ((sim_alive(host.agent) || (host.follower && sim_alive(host.follower))) && !host.broken[0]) {
        const bool ran = sim_turn(), ranks_heard = ranks_listen(), peer_heard = peer_listen();
        if (host.plan.killed <= now())
            host_run();
        if (ran || ranks_heard || peer_heard)
            continue;
        rules_look();
        const int64_t due[] = {ranks_due(), peer_due(), host_due()};
        int64_t at = sim_due();
        for (size_t i = 0; i < sizeof(due) / sizeof(due[0]); i++)
            at = due[i] < at ? due[i] : at;
        if (at > host.until)
            broke(at == NEVER ? "the agent waits for ever" : "the attempt is not over after hours");
        sim_clock_to(at);
        ranks_run();
        peer_run();
        host_run();
    }
}

static void run(const char *root, uint64_t seed, struct outcome *out)
{
    struct attempt_options o = {.nonce = "0123456789abcdef", .train = "/bin/true", .job = 7, .attempt = 1,
                                .ready_fd = -1, .bundle = LOCK_BUNDLE_NONE};
    host_begin(seed);
    make_place(root);
    draw_plan(&host.plan);
    o.run_dir = host.run_dir;
    struct attempt_options other = o;
    other.run_dir = host.run_dir2;
    host.agent = sim_start("agent", agent, &o);
    host.follower = host.plan.nodes > 1 ? sim_start("follower", agent, &other) : NULL;
    while (sim_turn()) /* until it listens */
        ;
    peer_begin();
    pass();
    if (!host.broken[0] && host.plan.killed <= now()) {
        host_agent_killed();
        peer_killed();
    } else if (!host.broken[0]) {
        peer_end();
        rules_end();
    }
    if (!host.broken[0] && !host.lost && host_descriptors() > 0)
        broke("the agent has left %d descriptors open", host_descriptors());
    *out = (struct outcome){.digest = host.digest, .virtual_ms = (now() - host.began) / NS_PER_MS,
                            .generations = host.generations};
    memcpy(out->counts, host.counts, sizeof(out->counts));
    host_end();
}

/* Each seed has its own process: one that fails leaves nothing behind. */
static int run_apart(uint64_t seed, struct outcome *out)
{
    char root[64]; /* in memory: each event is synced */
    int fds[2], status = 0;
    snprintf(root, sizeof(root), "%s/jobctl-sim-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(root) || pipe(fds) < 0)
        return -1;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(SECONDS_MOST);
        run(root, seed, out);
        if (host.broken[0])
            printf("seed %llu: %s\n", (unsigned long long)seed, host.broken);
        fflush(stdout);
        _exit(write(fds[1], out, sizeof(*out)) == sizeof(*out) && !host.broken[0] ? 0 : 1);
    }
    close(fds[1]);
    const bool whole = read(fds[0], out, sizeof(*out)) == sizeof(*out);
    close(fds[0]);
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("seed %llu: signal %d\n", (unsigned long long)seed, WTERMSIG(status));
    scratch_remove(root, NULL);
    strcat(root, ".shared");
    scratch_remove(root, NULL);
    return whole && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    const bool verbose = argc > 2 && strcmp(argv[1], "-v") == 0;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const long seeds = verbose ? 1 : argc > 1 ? strtol(argv[1], NULL, 10) : 100;
    struct outcome sum = {0}, one, again;
    long bad = 0;
    host.verbose = verbose;
    log_open(verbose ? STDERR_FILENO : open("/dev/null", O_WRONLY | O_CLOEXEC), "agent", LOG_LEVEL_INFO);
    for (long i = 0; i < seeds && bad < BAD_MOST; i++) {
        const uint64_t seed = first + (uint64_t)i;
        bad += run_apart(seed, &one) < 0;
        if (i % REPEAT_EVERY == 1 && run_apart(seed, &again) == 0 && again.digest != one.digest)
            bad += printf("seed %llu: another run of it differs\n", (unsigned long long)seed) > 0;
        sum.virtual_ms += one.virtual_ms;
        sum.generations += one.generations;
        for (int f = 0; f < FATES; f++)
            sum.counts[f] += one.counts[f];
        if (verbose)
            printf("digest %016llx\n", (unsigned long long)one.digest);
    }
    printf("%ld attempts of the agent, %d generations, %.1f hours%s\n", seeds, sum.generations,
           (double)sum.virtual_ms / 3.6e6, bad ? "" : ": all rules hold");
    return bad ? 1 : 0;
}
