/* SPDX-License-Identifier: Apache-2.0 */
/* flight_print.h - prints a flight page as text: `jobctl-agent flight FILE` */
#ifndef AGENT_MONITOR_FLIGHT_PRINT_H
#define AGENT_MONITOR_FLIGHT_PRINT_H

#include <stdio.h>

struct err;

int flight_print(FILE *out, const char *path, struct err *err);

#endif
