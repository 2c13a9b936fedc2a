/* SPDX-License-Identifier: Apache-2.0 */
/* request_notify.c - GET and POST /v1/notify: the targets of config.yaml, and a test of one */
#include <stdio.h>

#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/request.h"
#include "controller/notify/notifier.h"
#include "controller/requests/requests.h"
#include "controller/spec/notify_target.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

void request_notify(struct request *r)
{
    struct err err = { 0 };
    json_t *targets = notifier_targets(request_daemon(r), &err);
    if (targets)
        request_answer(r, 200, json_make("{s:o}", "targets", targets));
    else
        request_fail(r, &err, NULL);
}

/* -1: config.yaml has no such target. */
static int check(struct daemon *d, const char *name, struct err *err)
{
    json_t *targets = notifier_targets(d, err);
    const int rc = !targets ? -1 : notify_target_find(targets, name) ? 0
                   : err_set(err, ERR_NOT_FOUND, "config.yaml has no notify target \"%.64s\"; to list them: jobctl notify",
                             name);
    json_decref(targets);
    return rc;
}

void request_notify_test(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    const char *name = field_text(request_body(r), "target");
    char what[NOTIFY_TARGET_NAME + 40];
    if (request_worked(r)) {
        request_answer(r, 200, notifier_tested(request_worked(r)));
        return;
    }
    struct file_task *task = check(d, name, &err) == 0 ? notifier_test(d, name, &err) : NULL;
    if (!task) {
        request_fail(r, &err, NULL);
        return;
    }
    snprintf(what, sizeof(what), "a test of %.64s", name);
    request_work(r, task, what, what);
}
