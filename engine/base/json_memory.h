/* SPDX-License-Identifier: Apache-2.0 */
/* json_memory.h - a program that has no memory for JSON ends with a sentence
 *
 * To the JSON library a value that could not be allocated looks like an absent one: a spec would lose a key, an event a
 * field, without an error. So its allocations do not fail: each is tried again for a second; then the program prints a
 * sentence and ends at once, as if it were killed. All programs are made for that: the store has whole transactions
 * only, jobs continue without the daemon, and a job whose agent has ended gets another one.
 */
#ifndef ENGINE_BASE_JSON_MEMORY_H
#define ENGINE_BASE_JSON_MEMORY_H

/* Before any JSON is made.  program: what the sentence on stderr begins with, kept by reference.  code: of the exit. */
void json_memory_open(const char *program, int code);

#endif
