/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_nodes.c - each row is several machines and a spec: which node gets which rank, or which node prevents it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_nodes.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { MOST = 3 };

#define GPU(uuid, name)                                                                            \
    "{\"index\":0,\"uuid\":\"" uuid "\",\"name\":\"" name                                          \
    "\",\"memory_bytes\":1,\"pci\":\"p\",\"compute\":\"8.0\",\"mig\":false,\"healthy\":true}"
#define NODE(rest, gpus)                                                                           \
    "{\"cpus\":8,\"arch\":\"x86_64\",\"shm_bytes\":99999999999" rest ",\"gpus\":[" gpus "]}"
#define NET ",\"net\":[{\"name\":\"eth0\",\"up\":true,\"default_route\":true,\"speed_mbps\":10000}]"
#define IB0 ",\"net\":[{\"name\":\"ib0\",\"up\":true,\"default_route\":true,\"speed_mbps\":10000}]"
#define NCCL(v) ",\"driver\":\"550.54\",\"nccl\":\"" v "\""

#define BARE   NODE(NET, "")
#define SMALL  "{\"cpus\":2,\"arch\":\"aarch64\",\"shm_bytes\":1048576" NET ",\"gpus\":[]}"
#define ONE    NODE(NET NCCL("2.28.9"), GPU("GPU-1", "NVIDIA A100"))
#define TWO    NODE(NET NCCL("2.28.9"), GPU("GPU-a", "NVIDIA A100") "," GPU("GPU-b", "NVIDIA A100"))
#define HOPPER NODE(IB0 ",\"driver\":\"570.1\",\"nccl\":\"2.28.9\"", GPU("GPU-h", "NVIDIA H100"))
#define OLDER  NODE(NET NCCL("2.19.3"), GPU("GPU-o", "NVIDIA A100"))
#define NONE   NODE(NET ",\"driver\":\"550.54\",\"nccl\":null", GPU("GPU-n", "NVIDIA A100"))
#define TRAIN  "{\"train\":{},\"resources\":{\"nodes\":4"
#define RUN    "{\"run\":\"x\",\"resources\":{\"nodes\":2"

static const struct {
    const char *what, *facts[MOST], *spec;
    const char *ranks;    /* on which node each is; NULL: refused with text[0] */
    const char *text[3];  /* all of them in the plan */
} rows[] = {
    {"the engine on the CPU", {BARE, BARE}, TRAIN ",\"ranks\":2,\"gpus\":0}}", "0011",
     {"\"why\":\"on each of 2 nodes: set by resources.ranks\"", "\"np\":4,\"nodes\":2",
      "{\"rank\":3,\"gpu\":null,\"device\":\"cpu\",\"node\":1,\"name\":\"n1\"}"}},
    {"uneven GPUs", {TWO, ONE}, TRAIN "}}", "001",
     {"\"rank\":2,\"gpu\":\"GPU-1\",\"device\":\"NVIDIA A100\",\"index\":0,\"node\":1,\"name\":\"n1\"",
      "on 2 nodes with different devices",
      "\"node_env\":[{\"node\":0,\"name\":\"n0\",\"env\":[{\"name\":\"OMP_NUM_THREADS\""}},
    {"three nodes, the fewest first", {ONE, HOPPER, TWO}, TRAIN "}}", "0122",
     {"n0 has NVIDIA A100 and n1 NVIDIA H100: the slowest limits the speed",
      "n0 has driver 550.54 and n1 driver 570.1: if the first collective fails",
      "{\"name\":\"NCCL_SOCKET_IFNAME\",\"value\":\"=ib0\""}},
    {"what all have is said once", {ONE, TWO}, TRAIN "}}", "011",
     {"\"env\":[{\"name\":\"CUDA_DEVICE_ORDER\"", "{\"name\":\"NCCL_SOCKET_IFNAME\",\"value\":\"=eth0\"",
      "\"NCCL_DEBUG\",\"value\":\"WARN\""}},
    {"a note of one node", {BARE, SMALL}, RUN ",\"ranks\":2}}", "0011",
     {"n1: /dev/shm has only 1 MiB", "n0 has x86_64 and n1 aarch64", "\"notes\""}},
    {"a program brings its own NCCL", {ONE, OLDER}, RUN "}}", "01",
     {"n0 has NCCL 2.28.9 and n1 NCCL 2.19.3: a program that does not bundle NCCL fails"}},

    {"one cannot", {TWO, ONE}, RUN ",\"gpus\":2}}", NULL,
     {"n1: resources.gpus is 2, but this machine has 1 healthy GPU"}},
    {"the engine on GPUs here and CPUs there", {ONE, BARE}, TRAIN "}}", NULL,
     {"n1 has no usable GPU but n0 has"}},
    {"and the other way round", {BARE, ONE}, TRAIN "}}", NULL,
     {"n0 has no usable GPU but n1 has"}},
    {"another NCCL", {ONE, OLDER}, TRAIN "}}", NULL,
     {"n0 has NCCL 2.28.9 but n1 has 2.19.3: install the same version on all nodes"}},
    {"no NCCL", {ONE, NONE}, TRAIN "}}", NULL, {"n1: libnccl.so.2 was not found"}},
    {"too many", {BARE, BARE}, RUN ",\"ranks\":600}}", NULL, {"1200 ranks on 2 nodes exceed the limit of 1024"}},
    {"one machine twice", {ONE, TWO, ONE}, RUN "}}", NULL, {"n0 and n2 see the same GPU GPU-1"}},
};

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, 0, &why);
    if (!v)
        fail_msg("%s: %s", why.text, text);
    return v;
}

struct made {
    int n, rc;
    json_t *plan, *parts[MOST];
    struct err err;
};

static void make(struct made *m, const char *const *facts, const char *spec_text)
{
    static const char *const names[MOST] = {"n0", "n1", "n2"};
    struct plan_node nodes[MOST];
    json_t *spec = parse(spec_text);
    *m = (struct made){.n = 0};
    for (; m->n < MOST && facts[m->n]; m->n++)
        nodes[m->n] = (struct plan_node){.name = names[m->n], .facts = parse(facts[m->n])};
    m->rc = plan_nodes_make(&m->plan, m->parts, nodes, m->n, spec, &m->err);
    for (int k = 0; k < m->n; k++) {
        json_t *mine = (json_t *)(uintptr_t)nodes[k].facts;
        json_decref(mine);
    }
    json_decref(spec);
}

static void unmake(struct made *m)
{
    for (int k = 0; k < m->n; k++)
        json_decref(m->parts[k]);
    json_decref(m->plan);
}

static json_int_t integer(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void ranks_are(const char *what, const struct made *m, const char *where)
{
    const json_t *ranks = json_object_get(m->plan, "ranks");
    assert_int_equal(json_array_size(ranks), strlen(where));
    assert_int_equal(integer(m->plan, "np"), strlen(where));
    assert_int_equal(integer(m->plan, "nodes"), m->n);
    for (int r = 0; where[r]; r++) {
        const json_t *rank = json_array_get(ranks, (size_t)r);
        if (integer(rank, "node") != where[r] - '0' || integer(rank, "rank") != r)
            fail_msg("%s: rank %d is on node %d", what, r, (int)integer(rank, "node"));
    }
    for (int k = 0, next = 0; k < m->n; k++) {
        assert_int_equal(integer(m->parts[k], "first_rank"), next);
        assert_int_equal(json_array_size(json_object_get(m->parts[k], "ranks")), integer(m->parts[k], "np"));
        next += (int)integer(m->parts[k], "np");
    }
}

static void machines_and_specs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct made m;
        make(&m, rows[i].facts, rows[i].spec);
        char *dump = m.rc == 0 ? json_dumps(m.plan, JSON_COMPACT) : strdup(m.err.text);
        if ((m.rc == 0) != (rows[i].ranks != NULL))
            fail_msg("%s: %s", rows[i].what, dump);
        for (int t = 0; t < 3 && rows[i].text[t]; t++)
            if (!strstr(dump, rows[i].text[t]))
                fail_msg("%s: '%s' is not in %s", rows[i].what, rows[i].text[t], dump);
        if (rows[i].ranks)
            ranks_are(rows[i].what, &m, rows[i].ranks);
        else
            assert_null(m.parts[0]);
        free(dump);
        unmake(&m);
    }
}

/* What a rank is told must not depend on its node. */
static void fallbacks_are_the_same_for_all(void **state)
{
    (void)state;
#define ROCE ",\"rdma\":[{\"name\":\"r0\",\"port\":1,\"active\":true,\"link\":\"ethernet\"}]"
    static const char *const facts[MOST] = {
        ONE, NODE(NET NCCL("2.28.9") ROCE, GPU("GPU-r", "NVIDIA A100"))};
    struct made m;
    make(&m, facts, TRAIN "}}");
    const json_t *all = json_object_get(m.plan, "fallbacks");
    assert_int_equal(json_array_size(all), 1);
    assert_true(json_equal(all, json_object_get(m.parts[0], "fallbacks")));
    assert_true(json_equal(all, json_object_get(m.parts[1], "fallbacks")));
    unmake(&m);
}

static void it_is_shown_with_its_nodes(void **state)
{
    (void)state;
    static const char *const facts[MOST] = {ONE, HOPPER};
    struct made m;
    make(&m, facts, TRAIN "}}");
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    plan_print(f, m.plan);
    fclose(f);
    if (!strstr(text, "ranks: 2 on all nodes (on each of 2 nodes: one rank") ||
        !strstr(text, "  rank 1 on n1: NVIDIA H100 GPU-h\n") || !strstr(text, "\n  CUDA_VISIBLE_DEVICES=0\n"))
        fail_msg("%s", text);
    free(text);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_and_specs),
        cmocka_unit_test(fallbacks_are_the_same_for_all),
        cmocka_unit_test(it_is_shown_with_its_nodes),
    };
    return cmocka_run_group_tests_name("plan_nodes", tests, NULL, NULL);
}
