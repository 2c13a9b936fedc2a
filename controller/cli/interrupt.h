/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h - Ctrl-C ends the looking on, never the job */
#ifndef CONTROLLER_CLI_INTERRUPT_H
#define CONTROLLER_CLI_INTERRUPT_H

/* From now on SIGINT and SIGTERM set the flag that is returned; a sleeping poll() wakes up. */
const volatile int *interrupt_catch(void);

#endif
