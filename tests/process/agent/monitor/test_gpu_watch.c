/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu_watch.c - lines of `jobctl-agent gpu-events`, which this program plays itself, as use and faults of ranks */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/monitor/activity.h"
#include "agent/monitor/gpu_watch.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "tests/unit/agent/os/loop_fixture.h"
#include "tests/unit/engine/contract/clock_fixture.h"

enum { PATIENCE_MS = 60000, LAST = 1000 };
#define LINES "TEST_GPU_EVENTS"

/* Prints what the test wants, then an error with the number of its arguments, and waits to be killed. */
static int be_gpu_events(int n)
{
    printf("%s{\"uuid\":\"GPU-0\",\"xid\":%d}\n", getenv(LINES), LAST + n);
    fflush(stdout);
    pause();
    return 0;
}

static struct {
    int  n, last, xid[200], rank[200];
    bool fault[200];
    char text[200][300], line[200][200];
} seen;

static void told(void *arg, const struct gpu_event *e)
{
    assert_ptr_equal(arg, &seen);
    assert_in_range(seen.n, 0, 199);
    seen.xid[seen.n] = e->xid;
    seen.rank[seen.n] = e->rank;
    seen.fault[seen.n] = e->fault;
    snprintf(seen.text[seen.n], sizeof(seen.text[0]), "%s", e->text);
    snprintf(seen.line[seen.n], sizeof(seen.line[0]), "%s", e->line);
    seen.last += e->xid >= LAST;
    seen.n++;
}

/* A plan with `count` ranks from 100 on, two on each GPU. */
static json_t *plan_of(int count)
{
    json_t *ranks = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(ranks, json_pack("{s:i, s:o}", "rank", 100 + i, "gpu", json_sprintf("GPU-%d", i / 2)));
    return json_pack("{s:o}", "ranks", ranks);
}

static json_t *plan, *facts;

/* Watches until all of `lines` were read. */
static struct gpu_watch *watch(int ranks, const char *lines)
{
    struct gpu_watch *w = NULL;
    struct err err = {0};
    memset(&seen, 0, sizeof(seen));
    plan = plan_of(ranks);
    facts = json_pack("{s:[{s:s}, {s:s}, {s:s, s:[{s:s}]}]}", "gpus", "uuid", "GPU-0", "uuid", "GPU-1", "uuid",
                      "GPU-whole", "mig_slices", "uuid", "GPU-2");
    assert_int_equal(setenv(LINES, lines, 1), 0);
    if (gpu_watch_start(&w, &loop, plan, facts, "c0ffee", told, &seen, &err) < 0)
        fail_msg("%s", err.text);
    assert_non_null(w);
    assert_true(run_until(&seen.last, 1, PATIENCE_MS));
    return w;
}

static void leave(struct gpu_watch *w)
{
    gpu_watch_close(w);
    for (int ms = 0; ms < PATIENCE_MS && (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD); ms += 10)
        run_until(NULL, 0, 10);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* its program has ended */
    gpu_watch_destroy(w);
    json_decref(plan);
    json_decref(facts);
}

static struct activity_sample use_of(const struct gpu_watch *w, int rank)
{
    struct activity_sample s = {.at_ms = 1};
    gpu_watch_add_use(w, rank, &s);
    return s;
}

/* A rank has the use of its own GPU, of no other one, and for ten seconds. */
static void use_belongs_to_its_ranks(void **state)
{
    (void)state;
    struct gpu_watch *w = watch(6, "{\"uuid\":\"GPU-1\",\"busy\":90,\"memory\":40,\"link_kb_s\":7}\n"
                                   "{\"uuid\":\"GPU-2\",\"held\":true}\nno json\n"
                                   "{\"uuid\":\"GPU-77\",\"busy\":50,\"held\":true}\n");
    for (int rank = 99; rank < 107; rank++) {
        const struct activity_sample s = use_of(w, rank);
        const bool own = rank == 102 || rank == 103;
        assert_int_equal(s.gpu, own);
        assert_int_equal(s.gpu_busy, own ? 90 : 0);
        assert_int_equal(s.gpu_memory, own ? 40 : 0);
        assert_int_equal(s.link_kb_s, own ? 7 : 0);
        assert_int_equal(gpu_watch_held(w, rank), rank == 104 || rank == 105);
    }
    now += 10000;
    assert_true(use_of(w, 102).gpu);
    now += 1;
    assert_false(use_of(w, 102).gpu); /* the driver does not answer any more */
    assert_false(use_of(NULL, 102).gpu || gpu_watch_held(NULL, 102));
    leave(w);
}

/* More ranks than the table has room for: those beyond it have no use, and no GPU beyond it is asked for. */
static void ranks_beyond_the_table(void **state)
{
    (void)state;
    char lines[400];
    const int last = PLAN_GPUS_MOST - 1;
    snprintf(lines, sizeof(lines), "{\"uuid\":\"GPU-%d\",\"busy\":80,\"held\":true}\n"
             "{\"uuid\":\"GPU-%d\",\"busy\":60,\"held\":true}\n", last / 2, last / 2 + 1);
    struct gpu_watch *w = watch(2 * PLAN_GPUS_MOST, lines);
    assert_int_equal(seen.xid[0], LAST + PLAN_GPUS_MOST);
    assert_int_equal(use_of(w, 100 + last).gpu_busy, 80);
    assert_true(gpu_watch_held(w, 100 + last));
    for (int rank = 100 + last + 1; rank < 100 + last + 3; rank++)
        assert_false(use_of(w, rank).gpu || gpu_watch_held(w, rank));
    assert_false(use_of(w, 100).gpu || gpu_watch_held(w, 100));
    leave(w);
}

/* A driver's error is reported in words, as a line of the kernel log, and as evidence for half a minute. */
static void errors_are_evidence(void **state)
{
    (void)state;
    static const char off[] = "NVRM: Xid (PCI:0000:3b:00): 79, the GPU has fallen off the bus";
    char want[4000] = "from the kernel\n";
    struct gpu_watch *w = watch(6, "{\"uuid\":\"GPU-2\",\"pci\":\"0000:3b:00.0\",\"xid\":79}\n"
                                   "{\"uuid\":\"GPU-1\",\"pci\":\"0000:3c:00.0\",\"xid\":0}\n"
                                   "{\"uuid\":\"GPU-5\",\"xid\":79}\n{\"uuid\":\"GPU-0\",\"xid\":13}\n");
    assert_int_equal(seen.xid[0], 79);
    assert_int_equal(seen.rank[0], 4);
    assert_true(seen.fault[0]);
    assert_string_equal(seen.text[0], "GPU 2 (GPU-2) reports Xid 79: the GPU has fallen off the bus");
    assert_string_equal(seen.line[0], off);
    assert_int_equal(seen.xid[1], 13); /* neither number 0 nor a GPU of no rank */
    assert_false(seen.fault[1]);
    for (int i = 0; i < seen.n; i++) {
        strcat(want, seen.line[i]);
        strcat(want, "\n");
    }
    assert_string_equal(gpu_watch_evidence(w, "from the kernel"), want);
    assert_string_equal(gpu_watch_evidence(w, "from the kernel\n"), want);
    assert_string_equal(gpu_watch_evidence(w, NULL), strchr(want, '\n') + 1);
    now += 29999;
    assert_string_equal(gpu_watch_evidence(w, ""), strchr(want, '\n') + 1);
    now += 1;
    assert_string_equal(gpu_watch_evidence(w, "x"), "x");
    assert_null(gpu_watch_evidence(w, NULL));
    assert_string_equal(gpu_watch_evidence(NULL, "x"), "x");
    leave(w);
}

/* Of many errors the last eight, however long the kernel's lines before them are. */
static void evidence_is_bounded(void **state)
{
    (void)state;
    char lines[2000] = "", *kernel = malloc(10001);
    for (int i = 0; i < 20; i++)
        snprintf(lines + strlen(lines), 60, "{\"uuid\":\"GPU-1\",\"pci\":\"p\",\"xid\":%d}\n", 300 + i);
    memset(kernel, 'k', 10000);
    kernel[10000] = '\0';
    struct gpu_watch *w = watch(2 * 2, lines);
    const char *all = gpu_watch_evidence(w, kernel);
    assert_int_equal(strspn(all, "k"), 4095);
    int n = 0;
    for (const char *p = all; (p = strstr(p, "NVRM: Xid")); p++)
        n++;
    assert_int_equal(n, 8);
        for (int i = 0, xid = 313; i < 8; i++, xid = xid == 319 ? LAST + 4 : xid + 1) {
        char number[16];
        snprintf(number, sizeof(number), ": %d, ", xid);
        assert_non_null(all = strstr(all, number));
    }
    free(kernel);
    leave(w);
}

static void without_gpus_nothing_is_watched(void **state)
{
    (void)state;
    struct gpu_watch *w = (struct gpu_watch *)&seen;
    json_t *none = json_pack("{s:[{s:i, s:n}]}", "ranks", "rank", 0, "gpu");
    assert_int_equal(gpu_watch_start(&w, &loop, none, NULL, "c0ffee", told, NULL, NULL), 0);
    assert_null(w);
    gpu_watch_close(w);
    gpu_watch_destroy(w);
    json_decref(none);
}

static int down(void **state)
{
    (void)state;
    return uv_loop_close(&loop);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "gpu-events") == 0)
        return be_gpu_events(argc - 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_belongs_to_its_ranks), cmocka_unit_test(ranks_beyond_the_table),
        cmocka_unit_test(errors_are_evidence), cmocka_unit_test(evidence_is_bounded),
        cmocka_unit_test(without_gpus_nothing_is_watched),
    };
    now = SECOND;
    uv_loop_init(&loop);
    return cmocka_run_group_tests_name("gpu_watch", tests, NULL, down);
}
