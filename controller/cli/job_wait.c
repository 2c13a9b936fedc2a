/* SPDX-License-Identifier: Apache-2.0 */
/* job_wait.c - see job_wait.h */
#include "controller/cli/job_wait.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/base/far_host.h"
#include "controller/job/job_view.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

enum { ASK_S = 50 };

int job_wait(struct client *c, long long id, double seconds, json_t **row, struct err *err)
{
    double start = clock_s();
    *row = NULL;
    for (;;) {
        double left = seconds < 0 ? ASK_S : seconds - (clock_s() - start);
        int whole = left > ASK_S ? ASK_S : left > 0 ? (int)left : 0;
        json_t *answer;
        if (whole == 0 && left > 0) /* the API waits whole seconds; sleep the fraction here */
            poll(NULL, 0, left < 0.05 ? (int)(left * 1000) + 1 : 50);
        client_wait_for_far(c, seconds < 0 ? -1 : left, NULL, NULL);
        struct err why = {0};
        if (client_get(c, &answer, &why, "/v1/jobs/%lld/wait?timeout_s=%d", id, whole) < 0)
            return why.code == ERR_SYSTEM && far_host_name() && seconds >= 0 && clock_s() - start >= seconds
                       ? 0 : err_set(err, why.code, "%s", why.text);
        int done = json_is_true(json_object_get(answer, "done"));
        if (done || (seconds >= 0 && clock_s() - start >= seconds)) {
            *row = json_incref(json_object_get(answer, "job"));
            json_decref(answer);
            return done;
        }
        json_decref(answer);
    }
}

int job_wait_exit_code(const json_t *row)
{
    return (int)field_int(row, "exit_code", strcmp(field_text(row, "result"), "succeeded") == 0 ? 0 : 1);
}

int job_wait_worse(int a, int b)
{
    static const int order[] = {0, 3, 1, 93, 124};
    int ra = 2, rb = 2; /* rank of any other code: a failure */
    for (int i = 0; i < (int)(sizeof(order) / sizeof(order[0])); i++) {
        ra = order[i] == a ? i : ra;
        rb = order[i] == b ? i : rb;
    }
    return rb > ra ? b : a;
}

void job_wait_print(const struct terminal *t, const json_t *row)
{
    char title[JOB_CELL], status[JOB_CELL], elapsed[JOB_CELL], reason[1024];
    const char *result = json_string_value(json_object_get(row, "result"));
    job_view_title(title, sizeof(title), row);
    job_view_field(status, sizeof(status), row, "status");
    job_view_field(elapsed, sizeof(elapsed), row, "elapsed");
    job_view_field(reason, sizeof(reason), row, "reason");
    fprintf(t->file, "%s %s%s%s%s", title, result ? "" : "is ",
            terminal_style(t, job_view_style(row)), status, terminal_style(t, STYLE_PLAIN));
    if (strcmp(elapsed, "-") != 0)
        fprintf(t->file, " after %s", elapsed);
    if (result && strcmp(result, "succeeded") != 0 && strcmp(reason, "-") != 0)
        fprintf(t->file, ": %s", reason);
    fputc('\n', t->file);
}
