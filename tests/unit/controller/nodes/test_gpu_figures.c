/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu_figures.c - when agents on other machines are asked for GPU load, and which answers are kept */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "agent/wire/frame.h"
#include "controller/base/daemon.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/gpu_figures.h"
#include "engine/base/err.h"

#define ID "\"job\":1,\"attempt\":1,\"nonce\":\"4694baf41ec6dc11c750edd5dfbc774b\","

static struct daemon *a_daemon(void)
{
    struct daemon *d = calloc(1, sizeof(*d));
    d->fleet = calloc(1, sizeof(*d->fleet));
    uv_loop_init(&d->loop);
    return d;
}

static void destroy(struct daemon *d)
{
    gpu_figures_close(d);
    assert_int_equal(uv_loop_close(&d->loop), 0);
    free(d->fleet);
    free(d);
}

/* An agent is asked when somebody looks, again when he still does, and not with each of its messages. */
static void asked_while_somebody_looks(void **state)
{
    (void)state;
    struct daemon *d = a_daemon();
    int64_t asked = 0, other = 0;
    assert_int_equal(gpu_figures_ask(d, &asked), 0);
    gpu_figures_want(d, 3600 * 1000);
    assert_in_range(gpu_figures_ask(d, &asked), 1, 3600 * 1000);
    assert_int_equal(gpu_figures_ask(d, &asked), 0);
    gpu_figures_want(d, 10);            /* a shorter look changes nothing */
    assert_int_equal(gpu_figures_ask(d, &asked), 0);
    assert_in_range(gpu_figures_ask(d, &other), 1, 3600 * 1000);
    gpu_figures_want(d, 7200 * 1000);
    assert_in_range(gpu_figures_ask(d, &asked), 3600 * 1000, 7200 * 1000);
    destroy(d);
}

static void nobody_is_asked_for_the_past(void **state)
{
    (void)state;
    struct daemon *d = a_daemon();
    int64_t asked = 0;
    gpu_figures_want(d, 0);
    assert_int_equal(gpu_figures_ask(d, &asked), 0);
    destroy(d);
}

static void kept_by_machine(void **state)
{
    (void)state;
    struct daemon *d = a_daemon();
    json_t *old = json_pack("[{s:s}]", "uuid", "GPU-a"), *new = json_pack("[{s:s}]", "uuid", "GPU-b");
    gpu_figures_take(d, "one", old);    /* nobody has looked */
    assert_null(gpu_figures_elsewhere(d));
    gpu_figures_want(d, 1000);
    gpu_figures_take(d, "", old);
    gpu_figures_take(d, "one", old);
    gpu_figures_take(d, "one", new);
    assert_int_equal(json_object_size(gpu_figures_elsewhere(d)), 1);
    assert_ptr_equal(json_object_get(gpu_figures_elsewhere(d), "one"), new);
    assert_null(gpu_figures_of(d, "GPU-b"));    /* not a GPU of this machine */
    json_decref(old);
    json_decref(new);
    destroy(d);
}

static int reads(unsigned number, enum wire_direction direction, const char *text)
{
    struct err err = { 0 };
    json_t *body = json_loads(text, 0, NULL);
    const int rc = wire_check(wire_find(number, direction), body, &err);
    json_decref(body);
    return rc;
}

static void the_two_messages(void **state)
{
    (void)state;
    assert_int_equal(reads(WIRE_WATCH_GPUS, TO_AGENT, "{" ID "\"for_ms\":8000}"), 0);
    assert_int_equal(reads(WIRE_WATCH_GPUS, TO_AGENT, "{" ID "\"for_ms\":\"long\"}"), -1);
    assert_null(wire_find(WIRE_WATCH_GPUS, TO_CONTROLLER));
    assert_int_equal(reads(WIRE_GPU_LOAD, TO_CONTROLLER, "{" ID "\"node\":\"vm\",\"gpus\":[{\"uuid\":\"GPU-a\"}]}"), 0);
    assert_int_equal(reads(WIRE_GPU_LOAD, TO_CONTROLLER, "{" ID "\"node\":\"vm\",\"gpus\":{}}"), -1);
    assert_null(wire_find(WIRE_GPU_LOAD, TO_AGENT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_while_somebody_looks),
        cmocka_unit_test(nobody_is_asked_for_the_past),
        cmocka_unit_test(kept_by_machine),
        cmocka_unit_test(the_two_messages),
    };
    return cmocka_run_group_tests_name("GPU figures", tests, NULL, NULL);
}
