/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_why.c - jobctl why: why a job waits, restarted or stopped */
#include <stdio.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"

enum { OUTPUT_INDENT = 4 }; /* of a line of output among the evidence; what is more is the line's own */

static const struct option_row options[] = {OPTION_JSON, {.name = NULL}};

/* An event after its local time, or a line of a rank's output. */
static void print_evidence(const struct terminal *t, const char *line)
{
    char at[JOB_CELL];
    if (line[0] == ' ' || job_view_time(line) < 0) {
        const int blanks = (int)strspn(line, " "), own = blanks > OUTPUT_INDENT ? blanks - OUTPUT_INDENT : 0;
        fprintf(t->file, "      %s| %s%*s", terminal_style(t, STYLE_DIM), terminal_style(t, STYLE_PLAIN), own, "");
        terminal_hang(t, line + blanks, 8 + own);
        return;
    }
    job_view_local(at, sizeof(at), line);
    fprintf(t->file, "  %s%s%s  ", terminal_style(t, STYLE_DIM), at, terminal_style(t, STYLE_PLAIN));
    line += strcspn(line, " ");
    terminal_hang(t, line + strspn(line, " "), 2 + (int)strlen(at) + 2);
}

static void print(struct call *call, const json_t *answer)
{
    const struct terminal *t = &call->out;
    const json_t *row = json_object_get(answer, "job");
    const char *text = json_string_value(json_object_get(answer, "text"));
    size_t i;
    json_t *line;
    job_view_heading(t, row);
    terminal_wrap(t, text ? text : "The daemon gives no reason.", 2);
    if (json_array_size(json_object_get(answer, "evidence")) > 0)
        fprintf(t->file, "%sevidence%s\n", terminal_style(t, STYLE_DIM), terminal_style(t, STYLE_PLAIN));
    json_array_foreach (json_object_get(answer, "evidence"), i, line) {
        const char *s = json_string_value(line);
        print_evidence(t, s ? s : "");
    }
}

static int run(struct call *call)
{
    json_t *answer;
    int rc = client_ask_job(&answer, call->options.args[0], "/why", &call->err);
    if (rc == 0 && call->json)
        output_json(call, json_incref(answer));
    else if (rc == 0)
        print(call, answer);
    json_decref(answer);
    return rc;
}

const struct command cmd_why = {
    .name = "why", .group = GROUP_EXPLAIN, .aliases = "explain", .args = ARGS_JOB,
    .summary = "explain why a job waits, restarted or stopped, with evidence",
    .options = options, .run = run,
};
