/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - see output.h */
#include "controller/output.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "controller/command.h"

void output_json(struct call *call, json_t *value)
{
    json_t *out = json_pack("{s:i}", "schema", 1);
    json_object_del(value, "schema");
    json_object_update(out, value);
    json_dumpf(out, call->out.file, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', call->out.file);
    json_decref(out);
    json_decref(value);
}

/* The line of the file with a mark below the column, so that nobody has to count. */
static void show_line(const struct call *call, const struct terminal *t)
{
    char line[1024], shown[1100];
    FILE *f = fopen(call->file, "r");
    if (!f)
        return;
    int at = 0;
    while (at < call->line && fgets(line, sizeof(line), f))
        at++;
    fclose(f);
    if (at != call->line)
        return;
    line[strcspn(line, "\r\n")] = '\0';
    if (call->column < 1 || call->column > (int)strlen(line) + 1 ||
        terminal_columns(line) > (t->width ? t->width : 120) - 4)
        return;
    terminal_fit(t, shown, sizeof(shown), line, 0);
    fprintf(t->file, "    %s\n    %*s%s^%s\n", shown, call->column - 1, "",
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

int output_failure(struct call *call)
{
    const struct err *err = &call->err;
    fflush(call->out.file);
    if (call->json) {
        json_t *e = json_pack("{s:s, s:s}", "code", code_name(err->code), "text", err->text);
        if (call->line) {
            json_object_set_new(e, "file", json_string(call->file));
            json_object_set_new(e, "line", json_integer(call->line));
            json_object_set_new(e, "column", json_integer(call->column));
        }
        output_json(call, json_pack("{s:o}", "error", e));
        fflush(call->out.file);
        return err_exit_code(err->code);
    }
    struct terminal t;
    char shown[1100];
    terminal_init(&t, stderr);
    terminal_fit(&t, shown, sizeof(shown), err->text, 0);
    if (call->line)
        fprintf(stderr, "%s:%d:%d: %s\n", call->file, call->line, call->column, shown);
    else
        fprintf(stderr, "jobctl: %s\n", shown);
    if (call->line)
        show_line(call, &t);
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
    /* The errno of the write that failed is long gone; ask the descriptor. */
    struct pollfd reader = {.fd = fileno(call->out.file), .events = POLLOUT};
    if (poll(&reader, 1, 0) == 1 && (reader.revents & (POLLERR | POLLHUP)))
        return 0;
    return err_set(&call->err, ERR_SYSTEM, "cannot write all of the output; is the disk full?");
}
