/* SPDX-License-Identifier: Apache-2.0 */
/* json_memory.h - a program that has no memory for JSON ends with a sentence
 *
 * The JSON library takes a value that could not be allocated for one that nobody wanted: a spec would lose a key,
 * an event a field, without an error.  So an allocation of it does not fail: it is tried again for a second, then
 * the program says so and ends at once, like one that is killed.  All of them are made for that: the store has
 * whole transactions only, jobs go on without the daemon, and a job whose agent has ended gets another one.
 */
#ifndef ENGINE_CONTRACT_JSON_MEMORY_H
#define ENGINE_CONTRACT_JSON_MEMORY_H

/* Before any JSON is made.  program: what the sentence on stderr begins with, kept by reference.  code: of the exit. */
void json_memory_open(const char *program, int code);

#endif
