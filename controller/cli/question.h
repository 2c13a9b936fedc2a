/* SPDX-License-Identifier: Apache-2.0 */
/* question.h - questions to the user at a terminal */
#ifndef CONTROLLER_CLI_QUESTION_H
#define CONTROLLER_CLI_QUESTION_H

#include <stdbool.h>

struct call;

enum question_leave { QUESTION_STAY, QUESTION_LEAVE, QUESTION_CANCEL };

/* True if the user can be asked: stdin is a terminal, and JSON output is not requested. */
bool question_possible(const struct call *call);

/* 1: yes, or --yes is given; 0: no, and `otherwise` was printed. Only y counts as yes. */
int question_confirm(struct call *call, const char *question, const char *otherwise);

/* True if the answer is y. Only after question_possible(). */
bool question_yes(const struct call *call, const char *question);

/* After Ctrl-C: asks whether to leave the job running, cancel it, or keep watching. End of input leaves it running, and
 * so does another signal, which sets *stop (interrupt.h). */
enum question_leave question_leave(const struct call *call, long long id, const volatile int *stop);

#endif
