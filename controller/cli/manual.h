/* SPDX-License-Identifier: Apache-2.0 */
/* manual.h - the manual page jobctl(1), made from the rows of commands and of the job spec */
#ifndef CONTROLLER_CLI_MANUAL_H
#define CONTROLLER_CLI_MANUAL_H

#include <stdio.h>

void manual_print(FILE *f);

/* What an exit code means, for all commands. */
extern const char manual_exit_codes[];

#endif
