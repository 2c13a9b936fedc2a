/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_nccl_log.c - text that claims to be NCCL's log, and may come from a rank's own print
 *
 * Whatever it contains, parsed values stay in bounds, and the verdict is text that can be stored.
 */
#include <string.h>

#include "agent/monitor/nccl_log.h"
#include "engine/base/field.h"
#include "tests/fuzz/target.h"

static const char facts_text[] =
    "{\"gpus\":[{\"index\":0,\"uuid\":\"a\"},{\"index\":1,\"uuid\":\"b\"}],\"pairs\":[{\"a\":0,\"b\":1,"
    "\"nvlinks\":4,\"p2p\":\"ok\",\"path\":\"PIX\"}],\"rdma\":[{\"active\":true,\"vendor\":\"x\"}]}";
static const char plan_text_[] =
    "{\"nodes\":2,\"ranks\":[{\"rank\":0,\"gpu\":\"a\"},{\"rank\":1,\"gpu\":\"b\"}],"
    "\"env\":[{\"name\":\"NCCL_SOCKET_IFNAME\",\"value\":\"=eth0\"}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nccl_log log;
    char line[1024];
    nccl_log_init(&log);
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - (data + at)) : size - at;
        size_t kept = n < sizeof(line) ? n : sizeof(line) - 1;
        memcpy(line, data + at, kept);
        line[kept] = '\0';
        nccl_log_line(&log, line);
        at += n + 1;
    }
    PROMISE(log.pairs >= 0 && log.pairs <= NCCL_LOG_PAIRS);
    for (int i = 0; i < log.pairs; i++)
        PROMISE(log.pair[i].a >= 0 && log.pair[i].a < log.pair[i].b && log.pair[i].way < NCCL_WAYS);
    json_t *facts = json_loads(facts_text, 0, NULL), *plan = json_loads(plan_text_, 0, NULL);
    json_t *body = nccl_log_judge(&log, plan, facts);
    PROMISE(body != NULL);
    PROMISE(json_string_length(json_object_get(body, "text")) > 0);
    json_decref(body);
    json_decref(plan);
    json_decref(facts);
    return 0;
}
