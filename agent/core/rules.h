/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - what the output of a process, or the kernel's log, says about its end
 *
 * Pure: no clock, no I/O.
 * A table of patterns (rules.c), each with the cause it proves and, where there is
 * one, what to do about it.  An echo proves only that somebody else had failed before: the
 * peer of a dead rank, the watchdog of a collective that one never entered.
 *
 * The line by which a traceback ends counts more than the order of the table; after it the
 * first row that is found anywhere decides, so that rows stand from proof to symptom.
 * tests/causes/ holds endings as they are seen in the field, each with its cause and the line
 * that tells.
 */
#ifndef AGENT_CORE_RULES_H
#define AGENT_CORE_RULES_H

#include <stddef.h>

#include "agent/core/cause.h"

enum rule_kind {
    RULE_PROOF,
    RULE_AGAIN,   /* the same, and another try helps, although the cause says not */
    RULE_ECHO
};

struct rule {
    const char    *name;    /* "nccl.duplicate" */
    enum rule_kind kind;
    enum cause     cause;
    const char    *pattern; /* POSIX extended regular expression, of one line */
    const char    *advice;  /* what to do, or NULL */
};

/* The table, ended by a row without a name. */
const struct rule *rules_all(void);

/* The rule that decides for these lines, or NULL; *line and *len: where it was found. */
const struct rule *rules_find(const char *lines, const char **line, size_t *len);

/* The line worth showing: that of an exception, else the last one that is not empty; NULL: none. */
const char *rules_telling_line(const char *lines, size_t *len);

#endif
