/* SPDX-License-Identifier: Apache-2.0 */
/* secret_ref.h - "${NAME}" in config.yaml: the name of a secret, whose value is elsewhere
 *
 * A value comes from the environment of the daemon, else from the file `secrets` next to config.yaml, lines NAME=VALUE,
 * which must belong to the user and be inaccessible to others (mode 600). It is read on each use and not kept.
 */
#ifndef CONTROLLER_NOTIFY_SECRET_REF_H
#define CONTROLLER_NOTIFY_SECRET_REF_H

struct err;

/* `text` with each ${NAME} replaced; free() it. NULL: err names what is missing, never a value. */
char *secret_ref_expand(const char *text, struct err *err);

#endif
