/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - the identity of this controller, for machines that several controllers use
 *
 * 64 random bits in $JOBCTL_HOME/instance, created once. They distinguish job 7 of this state directory from job 7 of
 * another one on the same host.
 */
#ifndef CONTROLLER_BASE_INSTANCE_H
#define CONTROLLER_BASE_INSTANCE_H

struct err;

enum { INSTANCE = 17 };

int instance_open(char out[INSTANCE], const char *home, struct err *err);

#endif
