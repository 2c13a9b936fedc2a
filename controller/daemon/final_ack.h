/* SPDX-License-Identifier: Apache-2.0 */
/* final_ack.h - repeats lost acknowledgements of attempt_ended
 *
 * The daemon may die after it stored attempt_ended and before it sent the ack.
 * The agent then lingers although the job is done.  So at each start the daemon
 * contacts the agents of attempts that ended recently.
 */
#ifndef CONTROLLER_DAEMON_FINAL_ACK_H
#define CONTROLLER_DAEMON_FINAL_ACK_H

struct daemon;
struct err;

int final_ack_open(struct daemon *d, struct err *err);
void final_ack_close(struct daemon *d);

#endif
