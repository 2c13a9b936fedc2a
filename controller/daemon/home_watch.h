/* SPDX-License-Identifier: Apache-2.0 */
/* home_watch.h - stops the daemon when its home was removed, renamed or replaced
 *
 * A daemon that continued would write, by path, into the directory of another daemon. It checks once a second
 * (engine/base/dir_identity.h), reports where the home is now in daemon.log (whose descriptor follows the home), on
 * stderr and, if the log was removed too, in syslog, and exits with an error. It stops no job.
 */
#ifndef CONTROLLER_DAEMON_HOME_WATCH_H
#define CONTROLLER_DAEMON_HOME_WATCH_H

#include <stdbool.h>

struct home;
struct err;

/* At each beat. True: the daemon has to stop. */
bool home_watch_look(struct home *h);

/* Why it stopped the daemon: -1 and the error; 0: it did not. */
int home_watch_result(const struct home *h, struct err *err);

#endif
