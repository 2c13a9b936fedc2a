/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard.h - the page in a browser: its listener on 127.0.0.1, opened by the first request for a link, and its
 * sessions
 *
 * The page's files are served to everybody who can reach the port: they contain nothing about this machine or its jobs.
 * Everything below /v1/ needs a session (access.h), except POST /v1/session, which exchanges a link's token for a
 * session.
 */
#ifndef CONTROLLER_DASHBOARD_DASHBOARD_H
#define CONTROLLER_DASHBOARD_DASHBOARD_H

#include <stdbool.h>

#include "controller/dashboard/access.h"

struct daemon;
struct err;
struct request;
struct route;
struct service;

/* Listens, if it does not yet, and makes a link. `port`: 0 any; ERR_CONFLICT if it already listens on another port.
 * `site`: the link is for a frame of this site (access_ancestors()), which replaces a site named before; "": for a
 * tab. Returns the port, or -1. */
int dashboard_link(char token[ACCESS_SECRET], struct daemon *d, const struct service *service, int port,
                   const char *site, struct err *err);
void dashboard_close(struct daemon *d);

/* For struct service: accepts only this machine's own names, and adds headers that keep other sites out ... */
bool dashboard_admit(struct request *r);
/* ... and requires a session if the route needs one. */
bool dashboard_permit(struct request *r, const struct route *route);

void dashboard_session(struct request *r);      /* POST /v1/session {token} */
void dashboard_asset(struct request *r);        /* GET / and /assets/NAME */
void dashboard_frame(struct request *r);        /* GET /frame: the page, for a frame of the named site */

#endif
