/* SPDX-License-Identifier: Apache-2.0 */
/* log_fetch.c - see log_fetch.h */
#include "controller/base/log_fetch.h"

#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "engine/base/err.h"

enum { PIECE = 256 * 1024, TAIL_FIRST = 64 * 1024, TAIL_MOST = 16 * 1024 * 1024,
       LONGEST_LINE = 1024 * 1024 };

static int ask(struct log_fetch *r, struct client *c, long long offset, long long limit,
               json_t **answer, struct err *err)
{
    struct err why = {0};
    if (client_get(c, answer, &why, "/v1/jobs/%lld/logs?%s=%d&attempt=%lld&offset=%lld&limit=%lld", r->id,
                   r->setup ? "setup" : "rank", r->setup ? 1 : r->rank, r->attempt, offset, limit) == 0)
        return 0;
    return err_set(err, why.code, "%s", why.text);
}

/* Keeps an incomplete line; prints an overlong line in pieces. */
static void hold(struct log_fetch *r, const char *text, size_t n)
{
    char *more = n ? realloc(r->held, r->nheld + n) : NULL;
    if (!more)
        return;
    memcpy(more + r->nheld, text, n);
    r->held = more;
    r->nheld += n;
}

static void print_line(struct log_fetch *r, const char *text, size_t n, FILE *to)
{
    fprintf(to, "[%d] ", r->rank);
    fwrite(r->held, 1, r->held ? r->nheld : 0, to);
    fwrite(text, 1, n, to);
    fputc('\n', to);
    free(r->held);
    r->held = NULL;
    r->nheld = 0;
}

static void print_lines(struct log_fetch *r, const char *text, size_t n, FILE *to)
{
    const char *end;
    for (; (end = memchr(text, '\n', n)); n -= (size_t)(end - text) + 1, text = end + 1)
        print_line(r, text, (size_t)(end - text), to);
    hold(r, text, n);
    if (r->nheld > LONGEST_LINE)
        print_line(r, "", 0, to);
}

static void print(struct log_fetch *r, const char *text, size_t n, FILE *to)
{
    if (n == 0)
        return;
    if (r->before)
        r->before(r->user);
    if (r->labelled) {
        print_lines(r, text, n, to);
        return;
    }
    fwrite(text, 1, n, to);
    r->mid_line = text[n - 1] != '\n';
}

void log_fetch_fini(struct log_fetch *r, FILE *to)
{
    if (r->held)
        print_line(r, "", 0, to);
}

long long log_fetch_print(struct log_fetch *r, struct client *c, FILE *to, struct err *err)
{
    long long total = 0;
    for (;;) {
        json_t *answer;
        if (ask(r, c, r->offset, PIECE, &answer, err) < 0)
            return -1;
        const json_t *data = json_object_get(answer, "data");
        const char *text = json_string_value(data);
        size_t n = json_string_length(data);
        long long next = json_integer_value(json_object_get(answer, "next_offset"));
        const bool exact = (long long)n == next - r->offset; /* else bytes were replaced */
        const char *stop = exact && r->until[0] ? memmem(text, n, r->until, strlen(r->until)) : NULL;
        const size_t before = stop ? (size_t)(stop - text) : n;
        print(r, text, before, to);
        next -= (long long)(n - before);
        long long size = json_integer_value(json_object_get(answer, "size"));
        long long attempt = json_integer_value(json_object_get(answer, "attempt"));
        bool moved = next > r->offset;
        total += moved ? next - r->offset : 0;
        r->offset = moved ? next : r->offset;
        r->done = json_is_true(json_object_get(answer, "done"));
        r->attempt = attempt ? attempt : r->attempt;
        json_decref(answer);
        if (!moved || before < n || r->offset >= size || ferror(to))
            return total;
    }
}

/* The start of the last `lines` lines of `text`; -1: it has fewer. */
static long long begin_of_last(const char *text, long long size, long long lines)
{
    long long at = size;
    if (at > 0 && text[at - 1] == '\n')
        at--;
    for (; at > 0; at--)
        if (text[at - 1] == '\n' && --lines == 0)
            return at;
    return -1;
}

int log_fetch_tail(struct log_fetch *r, struct client *c, long long lines, struct err *err)
{
    for (long long piece = TAIL_FIRST;; piece *= 4) {
        json_t *answer;
        if (ask(r, c, -piece, piece, &answer, err) < 0)
            return -1;
        const json_t *data = json_object_get(answer, "data");
        long long offset = json_integer_value(json_object_get(answer, "offset"));
        long long next = json_integer_value(json_object_get(answer, "next_offset"));
        long long n = (long long)json_string_length(data);
        long long begin = n == 0 ? -1 : begin_of_last(json_string_value(data), n, lines);
        /* Invalid UTF-8 may have been replaced; positions are then approximate. */
        r->offset = lines == 0 ? next : begin < 0 ? offset : next - (n - begin);
        json_decref(answer);
        if (begin >= 0 || offset <= 0 || piece >= TAIL_MOST || lines == 0)
            return 0;
    }
}
