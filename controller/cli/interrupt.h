/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h - Ctrl-C stops the command, never the job */
#ifndef CONTROLLER_CLI_INTERRUPT_H
#define CONTROLLER_CLI_INTERRUPT_H

/* From now on SIGINT and SIGTERM set the returned flag to their number and interrupt a blocking poll(). */
const volatile int *interrupt_catch(void);

/* The same, while an answer is waited for that must not be lost: the returned flag is set by the second signal only.
 * interrupt_end() restores the default of both signals and returns the number of the first, or 0. */
const volatile int *interrupt_catch_second(void);
int interrupt_end(void);

/* The flag is 0 again: the interrupt was answered. */
void interrupt_clear(void);

#endif
