/* SPDX-License-Identifier: Apache-2.0 */
/* stand_ins.h - see stand_ins.c */
#ifndef TESTS_SIM_AGENT_STAND_INS_H
#define TESTS_SIM_AGENT_STAND_INS_H

#include <sys/types.h>

struct err;
struct subprocess_spec;

/* start.c: subprocess_start() */
pid_t stand_in_start(const struct subprocess_spec *spec, struct err *err);
pid_t stand_in_refuse(struct err *err);

#endif
