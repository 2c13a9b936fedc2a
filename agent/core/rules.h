/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - known failure patterns in process output and kernel logs
 *
 * Pure: no clock, no I/O.
 * A table of patterns (rules.c), each with the cause it proves and, if there is any, advice. An echo proves only that
 * another rank failed earlier: it comes from a dead rank's peer, or from the watchdog of a collective that one rank
 * never entered.
 *
 * The last line of a traceback takes precedence over the order of the table; otherwise the first
 * row that matches any line decides, so rows are ordered from proof to symptom. tests/causes/ holds
 * output seen in the field, each with its cause and the line that proves it.
 */
#ifndef AGENT_CORE_RULES_H
#define AGENT_CORE_RULES_H

#include <stddef.h>

#include "agent/core/cause.h"

enum rule_kind {
    RULE_PROOF,
    RULE_ECHO
};

struct rule {
    const char    *name;    /* "nccl.duplicate" */
    enum rule_kind kind;
    enum cause     cause;
    const char *pattern; /* POSIX extended regular expression, matched per line */
    const char *advice;  /* what the user should do, or NULL */
};

/* The whole table, ended by a row without a name. */
const struct rule *rules_all(void);

/* The rule that decides for these lines, or NULL; *line and *len get the matching line. */
const struct rule *rules_find(const char *lines, const char **line, size_t *len);
/* The same without echoes, for a program that ended because of its own mistake. */
const struct rule *rules_find_proof(const char *lines, const char **line, size_t *len);

/* The proof in the text of an exception, or NULL. */
const struct rule *rules_of_exception(const char *text);

#endif
