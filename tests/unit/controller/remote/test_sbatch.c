/* SPDX-License-Identifier: Apache-2.0 */
/* test_sbatch.c - batch scripts from specs: their lines, and values that are rejected */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "controller/remote/sbatch.h"
#include "engine/base/err.h"

static char *render(const char *spec, const char *dir, struct err *err)
{
    json_t *json = json_loads(spec, 0, NULL);
    assert_non_null(json);
    const struct sbatch s = { .spec = json, .job = 7, .attempt = 2, .nonce = "c0ffee",
                              .run_dir = dir, .agent = "/opt/jobctl-agent" };
    char *text = sbatch_render(&s, err);
    json_decref(json);
    return text;
}

/* has and lacks are lines. */
static const struct {
    const char *spec, *has, *lacks;
} rows[] = {
    { "{\"name\":\"a\",\"resources\":{\"nodes\":1,\"gpus\":0,\"cpus\":\"auto\"}}",
      "#SBATCH --job-name=a\n", "--gpus-per-node" },
    { "{\"name\":\"a\",\"resources\":{\"nodes\":1,\"gpus\":0,\"cpus\":\"auto\"}}",
      "#SBATCH --signal=B:USR2@120\n", "--cpus-per-task" },
    { "{\"name\":\"a\",\"resources\":{\"nodes\":1,\"gpus\":0,\"cpus\":\"auto\"}}",
      "#SBATCH --comment=jobctl:7.2:c0ffee\n", "--time" },
    { "{\"name\":\"a\",\"resources\":{\"nodes\":1,\"gpus\":8,\"cpus\":16}}",
      "#SBATCH --gpus-per-node=8\n#SBATCH --cpus-per-task=16\n", "--partition" },
    { "{\"name\":\"a\",\"slurm\":{\"partition\":\"gpu\",\"account\":\"me\",\"time\":90,\"grace\":10}}",
      "#SBATCH --partition=gpu\n#SBATCH --account=me\n#SBATCH --time=2\n", "@120" },
    { "{\"name\":\"a\",\"resources\":{\"gpus\":8},\"slurm\":{\"gres\":\"gpu:a100\"}}",
      "#SBATCH --gres=gpu:a100:8\n", "gpus-per-node" },
    { "{\"name\":\"a\",\"slurm\":{\"grace\":10}}", "'echo 8000 >\"$dir/notice\"'", "{{" },
    { "{\"name\":\"a\",\"slurm\":{\"extra\":{\"exclusive\":\"true\",\"qos\":\"long\"}}}",
      "#SBATCH --exclusive\n", "exclusive=" },
};

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = { 0 };
        char *text = render(rows[i].spec, "/run/7/2", &err);
        assert_non_null(text);
        assert_non_null(strstr(text, rows[i].has));
        assert_null(strstr(text, rows[i].lacks));
        assert_null(strstr(text, "\n\n#SBATCH"));   /* no option, no empty line */
        free(text);
    }
}

/* The lead follows the measured checkpoint, between the spec's value and half of the time limit. */
static void test_lead(void **state)
{
    static const struct {
        const char *slurm;
        int64_t     save_ms;
        const char *signal;
    } leads[] = {
        { "{\"grace\":30}", 0, "USR2@30\n" },
        { "{\"grace\":30}", 14000, "USR2@30\n" },
        { "{\"grace\":30}", 15600, "USR2@32\n" },
        { "{\"grace\":30,\"time\":3600}", 500000, "USR2@1000\n" },
        { "{\"grace\":30,\"time\":3600}", 5000000, "USR2@1800\n" },
        { "{\"grace\":30}", 500000000, "USR2@65535\n" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
        struct err err = { 0 };
        json_t *spec = json_pack("{s:s, s:o}", "name", "a", "slurm", json_loads(leads[i].slurm, 0, NULL));
        const struct sbatch s = { .spec = spec, .job = 7, .attempt = 2, .nonce = "c0ffee",
                                  .run_dir = "/r", .agent = "/a", .save_ms = leads[i].save_ms };
        char *text = sbatch_render(&s, &err);
        assert_non_null(text);
        if (!strstr(text, leads[i].signal))
            fail_msg("%s with %lld ms is not %s", leads[i].slurm, (long long)leads[i].save_ms, leads[i].signal);
        free(text);
        json_decref(spec);
    }
}

/* After a loss: as many nodes as are free, excluding the lost one and those of the spec. */
static void test_fewer_nodes(void **state)
{
    (void)state;
    struct err err = { 0 };
    json_t *spec = json_loads("{\"name\":\"a\",\"resources\":{\"nodes\":4,\"gpus\":0},"
                              "\"slurm\":{\"extra\":{\"exclude\":\"n9\"}}}", 0, NULL);
    struct sbatch s = { .spec = spec, .job = 7, .attempt = 2, .nonce = "c0ffee", .run_dir = "/r",
                        .agent = "/a", .nodes = 4, .least = 4, .avoid = "" };
    char *text = sbatch_render(&s, &err);
    assert_non_null(text);
    assert_non_null(strstr(text, "#SBATCH --nodes=4\n"));
    assert_non_null(strstr(text, "#SBATCH --no-kill\n#SBATCH --exclude=n9\n"));
    free(text);
    s.least = 2;
    s.avoid = "n1,n2";
    text = sbatch_render(&s, &err);
    assert_non_null(text);
    assert_non_null(strstr(text, "#SBATCH --nodes=2-4\n"));
    assert_non_null(strstr(text, "#SBATCH --exclude=n9,n1,n2\n"));
    free(text);
    json_decref(spec);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "/with space/7", "/quo\"te", "/$(id)", "/back`tick", "/new\nline" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = { 0 };
        assert_null(render("{\"name\":\"a\"}", bad[i], &err));
        assert_int_equal(err.code, ERR_USAGE);
    }
    struct err err = { 0 };
    assert_null(render("{\"name\":\"a\",\"slurm\":{\"extra\":{\"qos\":\"a b\"}}}", "/run", &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lead),
        cmocka_unit_test(test_fewer_nodes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
