/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - see output.h */
#include "controller/cli/output.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "engine/base/json_make.h"

void output_json(struct call *call, json_t *value)
{
    json_t *out = json_make("{s:i}", "schema", API_SCHEMA);
    json_object_del(value, "schema");
    json_object_update(out, value);
    json_dumpf(out, call->out.file, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', call->out.file);
    json_decref(out);
    json_decref(value);
}

/* Prints the line of the file with a mark below the column. */
static void show_line(const struct call *call, const struct finding *finding, const struct terminal *t)
{
    char line[1024], shown[1100];
    FILE *f = fopen(call->file, "r");
    if (!f)
        return;
    int at = 0;
    while (at < finding->line && fgets(line, sizeof(line), f))
        at++;
    fclose(f);
    if (at != finding->line)
        return;
    line[strcspn(line, "\r\n")] = '\0';
    if (finding->column < 1 || finding->column > (int)strlen(line) + 1 ||
        terminal_columns(line) > (t->width ? t->width : 120) - 4)
        return;
    terminal_fit(t, shown, sizeof(shown), line, 0);
    fprintf(t->file, "    %s\n    %*s%s^%s\n", shown, finding->column - 1, "",
            terminal_style(t, STYLE_GREEN), terminal_style(t, STYLE_PLAIN));
}

static const char *code_name(enum err_code code)
{
    switch (code) {
    case ERR_USAGE:
    case ERR_DATA:
        return "usage";
    case ERR_CONFLICT:
        return "conflict";
    case ERR_NOT_FOUND:
        return "not_found";
    case ERR_SYSTEM:
    case ERR_MEMORY:
        return "system";
    default:
        return "bug";
    }
}

static void print_finding(const struct call *call, const struct finding *finding, const struct terminal *t)
{
    char shown[1100];
    terminal_fit(t, shown, sizeof(shown), finding->err.text, 0);
    if (finding->line) {
        fprintf(stderr, "%s:%d:%d: %s\n", call->file, finding->line, finding->column, shown);
        show_line(call, finding, t);
    } else {
        fprintf(stderr, "jobctl: %s\n", shown);
    }
}

int output_failure(struct call *call)
{
    const struct err *err = &call->err;
    const struct diagnostics *found = &call->found;
    fflush(call->out.file);
    if (call->json) {
        json_t *places = diagnostics_to_json(found, call->file);
        json_t *answer = json_make("{s:{s:s, s:s}}", "error", "code", code_name(err->code), "text", err->text);
        json_object_update_recursive(answer, places);
        json_decref(places);
        output_json(call, answer);
        fflush(call->out.file);
        return err_exit_code(err->code);
    }
    struct terminal t;
    const struct finding alone = {.err = *err};
    terminal_init(&t, stderr);
    for (int i = 0; i < found->count; i++)
        print_finding(call, &found->list[i], &t);
    if (found->count == 0)
        print_finding(call, &alone, &t);
    if (found->more)
        fprintf(stderr, "jobctl: and %d more mistake%s\n", found->more, found->more == 1 ? "" : "s");
    return err_exit_code(err->code);
}

int output_closed(struct call *call)
{
    return fflush(call->out.file) != 0 || ferror(call->out.file);
}

int output_finish(struct call *call)
{
    if (!output_closed(call))
        return 0;
    /* The errno of the failed write is lost; test the descriptor instead. */
    struct pollfd reader = {.fd = fileno(call->out.file), .events = POLLOUT};
    if (poll(&reader, 1, 0) == 1 && (reader.revents & (POLLERR | POLLHUP)))
        return 0;
    return err_set(&call->err, ERR_SYSTEM, "cannot write the whole output; is the disk full?");
}
