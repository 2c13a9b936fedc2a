/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard.h - the page in a browser: its listener on 127.0.0.1, opened by the first request for a link, and its
 * sessions
 *
 * The files of the page are for everybody who can reach the port: they contain nothing about this machine or its jobs.
 * All below /v1/ but POST /v1/session, which turns the token of a link into a session, needs a session (access.h).
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

/* Listens, unless it does already, and makes a link. `port`: 0 any; ERR_CONFLICT if it listens at another one. `site`:
 * the link is for a frame of this site (access_ancestors()), instead of a site that was named before; "": for a tab.
 * Returns the port, or -1. */
int dashboard_link(char token[ACCESS_SECRET], struct daemon *d, const struct service *service, int port,
                   const char *site, struct err *err);
void dashboard_close(struct daemon *d);

/* For struct service: this machine's own names only, and headers that keep other sites out ... */
bool dashboard_admit(struct request *r);
/* ... and a session, where the route needs one. */
bool dashboard_permit(struct request *r, const struct route *route);

void dashboard_session(struct request *r);      /* POST /v1/session {token} */
void dashboard_asset(struct request *r);        /* GET / and /assets/NAME */
void dashboard_frame(struct request *r);        /* GET /frame: the page, for a frame of the site that was named */

#endif
