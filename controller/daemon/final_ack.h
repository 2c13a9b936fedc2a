/* SPDX-License-Identifier: Apache-2.0 */
/* final_ack.h - agents that ended their attempt and were never told that we know
 *
 * The daemon may die after it stored attempt_ended and before its ack left.
 * The agent then lingers, and the job is done: nobody would speak to it.  So
 * each start of the daemon looks after the attempts that ended lately.
 */
#ifndef CONTROLLER_DAEMON_FINAL_ACK_H
#define CONTROLLER_DAEMON_FINAL_ACK_H

struct daemon;
struct err;

int final_ack_open(struct daemon *d, struct err *err);
void final_ack_close(struct daemon *d);

#endif
