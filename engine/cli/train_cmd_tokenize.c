/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_tokenize.c - jobctl-train tokenize: each line of standard input as token ids
 *
 * --tokenizer PATH [--pieces].  <bos> is not printed.  The end of a line is not part of the text.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/hub/hub_cache.h"
#include "engine/text/tokenizer.h"

/* " 17:the" with --pieces, else " 17". */
static int print_id(const struct tokenizer *t, int32_t id, bool pieces, struct err *err)
{
    char *text = pieces ? tokenizer_decode(t, &id, 1, NULL, err) : NULL;
    if (pieces && !text)
        return -1;
    if (pieces)
        printf("%d:\"%s\" ", id, text);
    else
        printf("%d ", id);
    free(text);
    return 0;
}

static int print_line(const struct tokenizer *t, struct token_ids *ids, const char *line, size_t n, bool pieces,
                      struct err *err)
{
    ids->n = 0;
    if (tokenizer_encode(t, ids, line, n, err) < 0)
        return -1;
    for (size_t i = 0; i < ids->n; i++)
        if (print_id(t, ids->id[i], pieces, err) < 0)
            return -1;
    putchar('\n');
    return 0;
}

static int print_lines(const struct tokenizer *t, bool pieces, struct err *err)
{
    struct token_ids ids = {0};
    char *line = NULL;
    size_t room = 0;
    int rc = 0;
    for (ssize_t n; rc == 0 && (n = getline(&line, &room, stdin)) >= 0;)
        rc = print_line(t, &ids, line, (size_t)n - (n > 0 && line[n - 1] == '\n'), pieces, err);
    free(line);
    free(ids.id);
    return rc;
}

int train_cmd_tokenize(int argc, char **argv)
{
    const char *name = NULL;
    char path[PATH_MAX];
    bool pieces = false;
    const struct train_cmd_option options[] = {
        {.name = "--tokenizer", .value = &name, .required = true},
        {.name = "--pieces", .flag = &pieces},
        {.name = NULL},
    };
    struct tokenizer *t = NULL;
    struct err err = {0};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    if (hub_cache_open(path, name, "tokenizer", &err) == 0 && tokenizer_open(&t, path, &err) == 0)
        print_lines(t, pieces, &err);
    tokenizer_close(t);
    return err.code ? train_cmd_fail("tokenize", &err) : EXIT_DONE;
}
