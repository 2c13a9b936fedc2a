/* SPDX-License-Identifier: Apache-2.0 */
/* python_stack.h - the line at which a Python process stands, from the stacks that faulthandler prints
 *
 * Pure: no clock, no I/O.
 * Of the main thread, whose stack is printed last, the innermost frame in a file of the user
 * (agent/printed/traceback.h) counts. The process waits for other ranks if this line calls a function of torch.distributed, or backward, in which
 * DDP reduces gradients.
 */
#ifndef AGENT_PRINTED_PYTHON_STACK_H
#define AGENT_PRINTED_PYTHON_STACK_H

#include <stdbool.h>

#include "agent/printed/traceback.h"

/* The line before the stacks of a process (agent/ranks/stack_dump.h): "--- stacks of rank 3, process 471 ---". */
#define PYTHON_STACK_HEAD "--- stacks of rank "

enum { PYTHON_STACKS = 16, PYTHON_STACK_CALL = 48 };

struct python_stack {
    int  rank;                    /* from the line before; -1: there is none */
    bool waits;
    char place[SOURCE_PLACE];     /* "train.py:13" */
    char call[PYTHON_STACK_CALL]; /* the function that this line calls: "backward"; "": none in Python */
};

/* Lists the processes whose stacks are in the output, at most PYTHON_STACKS, and returns how many. */
int python_stack_find(struct python_stack out[PYTHON_STACKS], const char *text);

#endif
