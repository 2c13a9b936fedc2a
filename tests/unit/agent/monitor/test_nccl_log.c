/* SPDX-License-Identifier: Apache-2.0 */
/* test_nccl_log.c - NCCL's log is parsed, and compared with what the machine should use */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/monitor/nccl_log.h"
#include "agent/plan/plan.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define AT "node1:4242:4300 [0] NCCL INFO "

static void lines_are_understood(void **state)
{
    static const struct {
        const char *line, *version, *network, *interface;
        int         channels, nvls, a, b; /* a -1: no pair */
        int         way;
        const char *words;
    } rows[] = {
        {"NCCL version 2.21.5+cuda12.4", "2.21.5", "", "", -1, -1, -1, 0, 0, ""},
        {"[2026-11-01 10:00:00] node1:1:1 [0] init.cc:7 NCCL WARN x", "", "", "", -1, -1, -1, 0, 0, ""},
        {AT "Bootstrap : Using ens5:10.0.0.7<0>", "", "", "ens5", -1, -1, -1, 0, 0, ""},
        {AT "Bootstrap: Using eth0:10.0.0.7<0>", "", "", "eth0", -1, -1, -1, 0, 0, ""},
        {AT "Using network Socket", "", "Socket", "", -1, -1, -1, 0, 0, ""},
        {AT "Using network AWS Libfabric\n", "", "AWS Libfabric", "", -1, -1, -1, 0, 0, ""},
        {AT "24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels", "", "", "", 24,
         16, -1, 0, 0, ""},
        {AT "2 coll channels, 2 p2p channels, 2 p2p channels per peer", "", "", "", 2, -1, -1, 0, 0, ""},
        {AT "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "", "", "", -1, -1, 0, 1, NCCL_WAY_P2P,
         "P2P/CUMEM/read"},
        {AT "Channel 01 : 1[1000] -> 0[3000] via P2P/IPC", "", "", "", -1, -1, 0, 1, NCCL_WAY_P2P,
         "P2P/IPC"},
        {AT "Channel 00 : 3[3] -> 2[2] via SHM/direct/direct", "", "", "", -1, -1, 2, 3, NCCL_WAY_SHM,
         "SHM/direct/direct"},
        {AT "Channel 00/0 : 7[3] -> 8[0] [send] via NET/IB/3/GDRDMA", "", "", "", -1, -1, 7, 8,
         NCCL_WAY_NET, "NET/IB/3/GDRDMA"},
        {AT "Channel 00/02 :    0   1   2   3", "", "", "", -1, -1, -1, 0, 0, ""},
        {AT "Channel 00/0 : x -> y via P2P/IPC", "", "", "", -1, -1, -1, 0, 0, ""},
        {AT "Channel 00/0 : 0[0] -> 1[1] via CARRIER/PIGEON", "", "", "", -1, -1, -1, 0, 0, ""},
        {"via P2P/IPC -> 1[1] Channel : 0[0]", "", "", "", -1, -1, -1, 0, 0, ""},
        {"step 7 loss 0.1", "", "", "", -1, -1, -1, 0, 0, ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct nccl_log log;
        nccl_log_init(&log);
        nccl_log_line(&log, rows[i].line);
        if (strcmp(log.version, rows[i].version) != 0 || strcmp(log.network, rows[i].network) != 0 ||
            strcmp(log.interface, rows[i].interface) != 0 || log.channels != rows[i].channels ||
            log.nvls != rows[i].nvls || log.pairs != (rows[i].a >= 0))
            fail_msg("%s: %s, %s, %s, %d, %d, %d pairs", rows[i].line, log.version, log.network,
                     log.interface, log.channels, log.nvls, log.pairs);
        if (log.pairs && (log.pair[0].a != rows[i].a || log.pair[0].b != rows[i].b ||
                          (int)log.pair[0].way != rows[i].way ||
                          strcmp(log.pair[0].words, rows[i].words) != 0))
            fail_msg("%s: %d %d %s", rows[i].line, log.pair[0].a, log.pair[0].b, log.pair[0].words);
    }
}

static void a_pair_is_as_slow_as_its_slowest_channel(void **state)
{
    struct nccl_log log;
    char line[120];
    (void)state;
    nccl_log_init(&log);
    nccl_log_line(&log, AT "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct");
    nccl_log_line(&log, AT "Channel 01/0 : 1[1] -> 0[0] via P2P/IPC");
    assert_int_equal(log.pairs, 1);
    assert_int_equal(log.pair[0].way, NCCL_WAY_SHM);
    for (int i = 0; i < 2 * NCCL_LOG_PAIRS; i++) {
        snprintf(line, sizeof(line), AT "Channel 00/0 : %d[0] -> %d[1] via P2P/IPC", i, i + 1);
        nccl_log_line(&log, line);
    }
    assert_int_equal(log.pairs, NCCL_LOG_PAIRS);
}

/* Machines of tests/facts; a job's env; what NCCL says; what is made of it. */
static const struct {
    const char *machine, *spec, *lines;
    const char *seen, *because; /* NULL: as expected */
} judged[] = {
    {"rtx3090-bridge", "{\"run\":\"x\"}", AT "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n", NULL, NULL},
    {"rtx3090-bridge", "{\"run\":\"x\"}", AT "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n",
     "expected NVLink between ranks 0 and 1, NCCL used SHM/direct/direct", "refused"},
    {"rtx3090-bridge", "{\"run\":\"x\",\"env\":{\"NCCL_P2P_DISABLE\":\"1\"}}",
     AT "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n",
     "expected NVLink between ranks 0 and 1", "the job's env sets NCCL_P2P_DISABLE=1"},
    {"kaggle-2t4", "{\"run\":\"x\"}", AT "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n", NULL,
     NULL},
    {"rtx3090", "{\"run\":\"x\"}", AT "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n", NULL, NULL},
    {"rtx3090", "{\"run\":\"x\"}", AT "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n",
     "ranks 0 and 1 are on one machine, but NCCL uses the network", "/dev/shm"},
    {"rtx3090", "{\"run\":\"x\",\"env\":{\"NCCL_SHM_DISABLE\":\"1\"}}",
     AT "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n",
     "ranks 0 and 1 are on one machine", "the job's env sets NCCL_SHM_DISABLE=1"},
    {"hgx-h100-ib", "{\"run\":\"x\",\"resources\":{\"nodes\":2}}",
     AT "Using network IB\n" AT "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA\n", NULL, NULL},
    {"hgx-h100-ib", "{\"run\":\"x\",\"resources\":{\"nodes\":2}}",
     AT "Using network Socket\n" AT "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n",
     "RDMA ports are active, but NCCL uses sockets", "libibverbs"},
    {"hgx-h100-ib", "{\"run\":\"x\",\"resources\":{\"nodes\":2},\"env\":{\"NCCL_IB_DISABLE\":\"1\"}}",
     AT "Using network Socket\n" AT "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n",
     "NCCL uses sockets", "the job's env sets NCCL_IB_DISABLE=1"},
    {"aws-p5-efa", "{\"run\":\"x\",\"resources\":{\"nodes\":2}}",
     AT "Using network Socket\n" AT "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n",
     "NCCL uses sockets", "aws-ofi-nccl"},
    {"h100-ethernet", "{\"run\":\"x\",\"resources\":{\"nodes\":2}}",
     AT "Using network Socket\n" AT "Bootstrap : Using ens5f0np0:10.0.0.1<0>\n"
     AT "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n", NULL, NULL},
    {"h100-ethernet", "{\"run\":\"x\",\"resources\":{\"nodes\":2}}",
     AT "Using network Socket\n" AT "Bootstrap : Using tailscale0:100.64.0.1<0>\n"
     AT "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n",
     "expected interface ens5f0np0, NCCL uses tailscale0", "overridden"},
};

static void what_was_expected_is_compared(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(judged); i++) {
        char path[256], line[256];
        struct nccl_log log;
        snprintf(path, sizeof(path), "tests/facts/%s.json", judged[i].machine);
        json_t *facts = json_load_file(path, 0, NULL), *plan = NULL;
        json_t *spec = json_loads(judged[i].spec, 0, NULL);
        assert_int_equal(plan_make(&plan, facts, spec, NULL), 0);
        nccl_log_init(&log);
        for (const char *p = judged[i].lines; *p; p += strcspn(p, "\n") + 1) {
            snprintf(line, sizeof(line), "%.*s", (int)strcspn(p, "\n"), p);
            nccl_log_line(&log, line);
        }
        assert_true(nccl_log_is_telling(&log));
        json_t *body = nccl_log_judge(&log, plan, facts);
        const char *text = json_string_value(json_object_get(body, "text"));
        if (json_is_true(json_object_get(body, "expected")) != (judged[i].seen == NULL) ||
            (judged[i].seen && (!strstr(text, judged[i].seen) || !strstr(text, judged[i].because))))
            fail_msg("row %zu, %s: %s", i, judged[i].machine, text);
        json_decref(body);
        json_decref(plan);
        json_decref(spec);
        json_decref(facts);
    }
}

/* Pairs of ranks become pairs of GPUs of this node; a rank of another node has none. */
static void what_was_taken_is_told_by_gpu(void **state)
{
    json_t *facts = json_loads("{\"gpus\": [{\"index\": 4, \"uuid\": \"GPU-x\"}, {\"index\": 7, \"uuid\": \"GPU-y\"}]}",
                               0, NULL);
    json_t *plan = json_loads("{\"ranks\": [{\"rank\": 8, \"gpu\": \"GPU-y\"}, {\"rank\": 9, \"gpu\": \"GPU-x\"}]}", 0,
                              NULL);
    struct nccl_log log;
    (void)state;
    nccl_log_init(&log);
    nccl_log_line(&log, AT "Channel 00/0 : 8[0] -> 9[1] via P2P/CUMEM");
    nccl_log_line(&log, AT "Channel 00/0 : 7[3] -> 8[0] [send] via NET/IB/3/GDRDMA");
    json_t *body = nccl_log_judge(&log, plan, facts), *pairs = json_object_get(body, "pairs"), *one = json_array_get(pairs, 0);
    assert_string_equal(json_string_value(json_object_get(body, "text")), "NCCL: P2P between 1 pair, NET between 1 pair");
    assert_int_equal(json_array_size(pairs), 1);
    assert_int_equal(json_integer_value(json_object_get(one, "a")), 7);
    assert_int_equal(json_integer_value(json_object_get(one, "b")), 4);
    assert_string_equal(json_string_value(json_object_get(one, "way")), "p2p");
    assert_string_equal(json_string_value(json_object_get(one, "words")), "P2P/CUMEM");
    json_decref(body);
    json_decref(plan);
    json_decref(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_understood),
        cmocka_unit_test(a_pair_is_as_slow_as_its_slowest_channel),
        cmocka_unit_test(what_was_expected_is_compared), cmocka_unit_test(what_was_taken_is_told_by_gpu),
    };
    return cmocka_run_group_tests_name("nccl_log", tests, NULL, NULL);
}
