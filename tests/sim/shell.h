/* SPDX-License-Identifier: Apache-2.0 */
/* shell.h - the real controller in the world of world.h: its daemon runs whole, as a virtual process
 *
 * In place of hub.c.  What is real: everything from main loop to SQL, the requests on its socket, its files (in a
 * directory of a tmpfs).  What is simulated: libuv, clock and threads (virtual_process.h), sqlite's disk
 * (virtual_disk.h), the agents at the far end of links (shell_link.c), the probe of this machine.
 *
 *   shell.c  the process: starts, dies, starts again       shell_link.c    links to agents
 *   shell_store.c  what it commits, as it commits it       shell_people.c  requests
 */
#ifndef TESTS_SIM_SHELL_H
#define TESTS_SIM_SHELL_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct happening;
struct sim_process;
struct store;
struct world;

/* The one world of this process; NULL: none yet. */
struct world *shell_world(void);
const char *shell_home(void);
struct daemon *shell_daemon(void);      /* NULL: it does not run */

/* Descriptors from here on are closed when the daemon dies, except those that are kept. */
void shell_keep(int fd, bool keep);

/* Time in the world from a time of the virtual clock, and that of now. */
int64_t shell_ms(int64_t clock_ms);
void shell_sync(struct world *w);

/* From within the daemon: it dies here. */
void shell_die(void);

/* shell_store.c: the index of a job by its number, -1: unknown; its number, 0: not submitted. */
int shell_job(int64_t id);
int64_t shell_id(int job);
void shell_store_forget(void);          /* what was not committed: the daemon is dead */
/* After a restart: is the commit in which it died on the disk? */
void shell_store_settle(struct world *w, struct store *store);

/* shell_link.c */
void shell_link_hears(struct world *w, const struct happening *h);
void shell_link_cut(struct world *w, const struct happening *h);
void shell_link_forget(void);

/* shell_people.c */
void shell_person(struct world *w, const struct happening *h);

#endif
