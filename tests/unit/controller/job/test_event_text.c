/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "controller/job/event_text.h"

static const struct {
    const char *kind, *body, *text;
    bool        news;
} rows[] = {
    {"clock", "{\"text\":\"the wall clock was set\"}", "the wall clock was set", true},
    {"submitted", "{}", "submitted", false},
    {"edited", "{\"keys\":[\"train.steps\",\"name\"]}", "its spec was edited: train.steps and name", true},
    {"edited", "{\"keys\":[]}", "its spec was edited: no value changed", true},
    {"submitted", "{\"held\":true}", "submitted and held", false},
    {"submitted", "{\"retry_of\":3}", "submitted, continues from the checkpoints of job 3", false},
    {"placed", "{\"node\":\"vm\",\"cpus\":1,\"gpus\":0}", "placed on vm with 1 CPU slot and 0 GPUs",
     false},
    {"plan", "{\"np\":1,\"why\":\"no GPU is used, so one rank\",\"hash\":\"0a\"}",
     "planned: 1 rank, no GPU is used, so one rank (plan 0a)", false},
    {"plan", "{\"np\":1,\"cpus\":1,\"why\":\"one rank\",\"hash\":\"0a\",\"gpus\":\"2\",\"ranks\":[{\"device\":\"A100\"}]}",
     "planned: 1 rank on GPU 2 (A100), 1 CPU slot, one rank (plan 0a)", true},
    {"plan", "{\"np\":2,\"cpus\":4,\"why\":\"w\",\"hash\":\"0a\",\"gpus\":\"2,3\",\"ranks\":[{\"device\":\"A100\"}]}",
     "planned: 2 ranks on GPUs 2,3 (A100), 4 CPU slots, w (plan 0a)", true},
    {"generation_started", "{\"generation\":1,\"np\":2,\"resume_step\":0,\"fresh\":true}",
     "generation 1 starts with 2 ranks", true},
    {"generation_started", "{\"generation\":2,\"np\":1,\"resume_step\":400}",
     "generation 2 resumes at step 400 with 1 rank", true},
    {"generation_started", "{\"generation\":3,\"np\":1,\"resume_step\":0}",
     "generation 3 starts with 1 rank", true},
    {"generation_started", "{\"generation\":3,\"np\":4,\"resume_step\":7,\"ranks_kept\":3}",
     "generation 3 resumes at step 7 with 4 ranks, 3 kept in their processes", true},
    {"generation_ended",
     "{\"generation\":1,\"cause\":\"rank_crash\",\"text\":\"rank 0 was killed by SIGKILL (9)\"}",
     "rank 0 was killed by SIGKILL (9) (rank_crash)", true},
    {"generation_ended", "{\"generation\":1,\"cause\":\"none\",\"text\":\"every rank exited with 0\"}",
     "every rank exited with 0", false},
    {"generation_started", "{\"generation\":3,\"np\":2,\"resume_step\":1,\"ranks_kept\":1}",
     "generation 3 resumes at step 1 with 2 ranks, 1 kept in their processes", true},
    {"generation_started", "{\"generation\":3,\"np\":2,\"resume_step\":0,\"ranks_kept\":0}", "generation 3 starts with 2 ranks", true},
    {"generation_ended", "{\"generation\":4,\"text\":\"all ended\"}", "all ended", false},
    {"generation_ended", "{\"generation\":4,\"cause\":\"hang_step\"}", "generation 4 ended", true},
    {"restart_scheduled", "{\"generation\":2,\"delay_ms\":0,\"text\":\"x\"}",
     "restarting now as generation 2", true},
    {"restart_scheduled", "{\"generation\":3,\"delay_ms\":5000}", "restarting in 5.0s as generation 3",
     true},
    {"restart_scheduled", "{\"generation\":2,\"delay_ms\":0,\"text\":\"x; the next start sets A=1\",\"changes\":\"the next start sets A=1\"}",
     "restarting now as generation 2: the next start sets A=1", true},
    {"setup_done", "{\"exit_code\":3,\"ms\":400}", "setup exited with code 3 after 0.4s", true},
    {"setup_done", "{\"signal\":15,\"ms\":2000}", "setup was killed by signal 15 after 2.0s", true},
    {"checkpoint", "{\"step\":300,\"bytes\":12345678,\"ms\":34.4,\"path\":\"/x\"}",
     "checkpoint of step 300 written (11.8 MiB, 34 ms)", true},
    {"checkpoint", "{\"step\":80,\"bytes\":317200000,\"ms\":773,\"stall_ms\":45.21,\"path\":\"/x\"}",
     "checkpoint of step 80 written (302.5 MiB, 773 ms, training paused for 45.2 ms)", true},
    {"warning", "{\"rank\":0,\"text\":\"slow disk\"}", "warning from rank 0: slow disk", true},
    {"warning", "{\"rank\":null,\"text\":\"slow disk\"}", "warning: slow disk", true},
    {"no_room", "{\"over\":false,\"bytes\":9,\"text\":\"no room\"}", "no room", true},
    {"snapshots", "{\"every\":21,\"text\":\"one snapshot in 21 steps\"}", "one snapshot in 21 steps", false},
    {"encoding", "{\"over\":false,\"done\":9,\"text\":\"9 of 40\"}", "9 of 40", true},
    {"done", "{\"result\":\"failed\",\"reason\":\"it broke\"}", "failed: it broke", false},
    {"retry", "{\"delay_ms\":65000,\"text\":\"it broke\"}",
     "next attempt in 1m05s: it broke", true},
    {"retry", "{\"delay_ms\":0,\"text\":\"it broke\"}", "next attempt now: it broke",
     true},
    {"agent_up", "{\"node\":\"vm\",\"pid\":7,\"skew_ms\":-800}", "agent on vm connected, pid 7", false},
    {"agent_up", "{\"node\":\"vm\",\"pid\":7,\"skew_ms\":93400}",
     "agent on vm connected, pid 7; its clock is 93 s ahead of the controller's, run NTP on both", false},
    {"agent_up", "{\"node\":\"vm\",\"pid\":7,\"skew_ms\":-5000}",
     "agent on vm connected, pid 7; its clock is 5 s behind the controller's, run NTP on both", false},
    {"gpu_event", "{\"text\":\"GPU 1 reports Xid 31\",\"fault\":false}", "GPU 1 reports Xid 31", true},
    {"gpu_fault", "{\"generation\":2,\"rank\":1}", "stopping generation 2: rank 1's GPU failed",
     true},
    {"nccl", "{\"text\":\"NCCL: P2P between 1 pair\",\"expected\":true}", "NCCL: P2P between 1 pair",
     true},
    {"from the future", "{}", "from the future", false},
    {"agent_lost", "{}", "agent_lost", true},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256], small[12];
        json_t *body = json_loads(rows[i].body, 0, NULL);
        assert_non_null(body);
        event_text(text, sizeof(text), rows[i].kind, body);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(event_is_news(rows[i].kind, body), rows[i].news);
        event_text(small, sizeof(small), rows[i].kind, body);
        assert_true(strlen(small) < sizeof(small));
        json_decref(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests_name("event_text", tests, NULL, NULL);
}
