/* SPDX-License-Identifier: Apache-2.0 */
/* manual.h - the manual page jobctl(1), generated from the rows of commands and of the job spec */
#ifndef CONTROLLER_CLI_MANUAL_H
#define CONTROLLER_CLI_MANUAL_H

#include <stdio.h>

void manual_print(FILE *f);

/* The meaning of exit codes, for all commands. */
extern const char manual_exit_codes[];

#endif
