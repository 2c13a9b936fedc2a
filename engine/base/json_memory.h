/* SPDX-License-Identifier: Apache-2.0 */
/* json_memory.h - ends the program with a message when there is no memory for JSON
 *
 * To the JSON library, a value that could not be allocated looks like an absent one: a spec would lose a key, an event
 * a field, without an error. So its allocations never fail: each is retried for a second; then the program prints a
 * message and exits at once, as if killed. All programs tolerate that: the store has only whole transactions, jobs
 * continue without the daemon, and a job whose agent has ended gets another one.
 */
#ifndef ENGINE_BASE_JSON_MEMORY_H
#define ENGINE_BASE_JSON_MEMORY_H

/* Call before any JSON is made. program: prefix of the message on stderr, kept by reference. code: exit code. */
void json_memory_open(const char *program, int code);

#endif
