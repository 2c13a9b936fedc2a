/* SPDX-License-Identifier: Apache-2.0 */
/* test_sched_queue.c - passes start the same jobs as sched_run(), and look at no others */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "controller/job/sched_queue.h"

enum { JOBS = 60, ROUNDS = 400, CHANGES = 60 };

static struct sched_job random_job(int64_t id, int64_t now)
{
    return (struct sched_job){ .id = id, .order = rand() % 3 ? 0 : sched_order(id, 1 + rand() % id, (int64_t)id),
                               .priority = rand() % 3 - 1, .held = rand() % 8 == 0,
                               .cpus = rand() % 5 - 1, .gpus = rand() % 4 - 1,
                               .not_before_ms = rand() % 4 ? 0 : now + rand() % 20 - 10,
                               .dep = rand() % 6 ? DEP_SUCCEEDED : (enum dep_state)(rand() % 3),
                               .dep_id = 1000, .writer = rand() % 9 ? 0 : 1001 };
}

/* One world: the jobs in it, and the same jobs filed. */
struct pair {
    struct sched_job   jobs[JOBS];
    struct sched_queue filed;
    struct sched_node  node;
    int64_t            now;
};

static void change(struct pair *p)
{
    struct sched_job *j = &p->jobs[rand() % JOBS];
    const int64_t id = j - p->jobs + 1;
    sched_queue_drop(&p->filed, j);
    *j = (struct sched_job){ .id = 0 };
    if (rand() % 3 == 0)
        return;
    *j = random_job(id, p->now);
    assert_int_equal(sched_queue_put(&p->filed, j), 0);
}

static const struct sched_job *started(const struct sched_queue *q, int64_t id)
{
    for (size_t i = 0; i < q->nstarts; i++)
        if (q->starts[i].id == id)
            return &q->starts[i];
    return NULL;
}

static void compare(struct pair *p)
{
    struct sched_job all[JOBS];
    struct sched_node left = p->node, node = p->node;
    size_t n = 0, starts = 0;
    int64_t wake;
    for (int i = 0; i < JOBS; i++)
        if (p->jobs[i].id)
            all[n++] = p->jobs[i];
    sched_run(all, n, &node, p->now);
    assert_int_equal(sched_queue_pass(&p->filed, &left, p->now, &wake), 0);
    assert_int_equal(left.cpus_free, node.cpus_free);
    assert_int_equal(left.gpus_free, node.gpus_free);
    int64_t first = -1;
    for (size_t i = 0; i < n; i++) {
        const struct sched_job *j = &all[i], *s = started(&p->filed, j->id);
        const bool over = j->not_before_ms > p->now && !j->held && !j->writer && j->dep == DEP_SUCCEEDED;
        first = over && (first < 0 || j->not_before_ms < first) ? j->not_before_ms : first;
        if (j->word != SCHED_PLACE && j->word != SCHED_AFTER_FAILED) {
            assert_null(s);
            continue;
        }
        assert_non_null(s);
        assert_int_equal(s->word, j->word);
        starts++;
        if (j->word == SCHED_PLACE)
            assert_true(s->take_cpus == j->take_cpus && s->take_gpus == j->take_gpus);
    }
    assert_int_equal(p->filed.nstarts, starts);
    assert_int_equal(wake, first);
}

static void starts_the_same_jobs(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < ROUNDS; round++) {
        struct pair p = { .now = 1000 };
        for (int i = 0; i < CHANGES; i++) {
            for (int k = rand() % 8; k >= 0; k--)
                change(&p);
            p.now += rand() % 5;
            p.node = (struct sched_node){ .cpus = 4, .cpus_free = rand() % 5, .gpus = rand() % 3 };
            p.node.gpus_free = p.node.gpus ? rand() % (int)(p.node.gpus + 1) : 0;
            compare(&p);
        }
        sched_queue_fini(&p.filed);
    }
}

/* Starts two jobs of a queue, as passes do, and counts the jobs that the passes looked at. */
static size_t visits_of(size_t count, size_t passes)
{
    struct sched_job *jobs = calloc(count, sizeof(*jobs));
    struct sched_queue q = { .nlines = 0 };
    int64_t wake;
    assert_non_null(jobs);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct sched_job){ .id = (int64_t)i + 1, .priority = (int64_t)i % 7, .held = i % 11 == 0,
                                      .cpus = i % 5 ? (i % 3 ? 1 : 2) : 0, .gpus = i % 5 ? 0 : -1 };
        assert_int_equal(sched_queue_put(&q, &jobs[i]), 0);
    }
    for (size_t i = 0; i < passes; i++) {
        struct sched_node node = { .cpus = 2, .cpus_free = 2, .gpus = 8, .gpus_free = 0 };
        assert_int_equal(sched_queue_pass(&q, &node, 0, &wake), 0);
        assert_true(q.nstarts > 0);
        for (size_t k = 0; k < q.nstarts; k++)
            sched_queue_drop(&q, &jobs[q.starts[k].id - 1]);
    }
    const size_t visits = q.visited;
    sched_queue_fini(&q);
    free(jobs);
    return visits;
}

static void passes_do_not_look_at_the_rest(void **state)
{
    (void)state;
    enum { PASSES = 20, SLOTS = 10 };
    assert_true(visits_of(100, PASSES) <= PASSES * SLOTS);
    assert_true(visits_of(20000, PASSES) <= PASSES * SLOTS);
    assert_true(visits_of(40000, PASSES) <= PASSES * SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_the_same_jobs),
        cmocka_unit_test(passes_do_not_look_at_the_rest),
    };
    return cmocka_run_group_tests_name("sched_queue", tests, NULL, NULL);
}
