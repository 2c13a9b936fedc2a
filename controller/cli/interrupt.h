/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h - Ctrl-C stops the command, never the job */
#ifndef CONTROLLER_CLI_INTERRUPT_H
#define CONTROLLER_CLI_INTERRUPT_H

/* From now on SIGINT and SIGTERM set the returned flag to their number and interrupt a blocking poll(). */
const volatile int *interrupt_catch(void);

/* The same during a wait for an answer that must not be lost: only the second signal sets the returned flag.
 * interrupt_end() restores the default of both signals and returns the number of the first, or 0. */
const volatile int *interrupt_catch_second(void);
int interrupt_end(void);

/* Clears the flag: the interrupt was handled. */
void interrupt_clear(void);

#endif
