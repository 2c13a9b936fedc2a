/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.h - a whole run as one HTML file: the dashboard's page of a job with its modules and its data
 *
 * It needs no daemon, loads nothing, and cannot send anything. Besides what the page requests it has the first and the
 * newest pictures and the ends of the logs.
 */
#ifndef CONTROLLER_WATCH_REPORT_PAGE_H
#define CONTROLLER_WATCH_REPORT_PAGE_H

struct client;
struct err;
struct redact;

/* The page, which the caller frees, made from the daemon's answers about `job`, a part of a path; NULL with *err set.
 * All texts go through `redact`. */
char *report_page_make(struct client *client, const char *job, const struct redact *redact, struct err *err);

#endif
