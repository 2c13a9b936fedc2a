/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.h - a whole run as one HTML file: no script, nothing from elsewhere, no secrets
 *
 * It says what the page of a job in the dashboard says, as it was: why, the story and the curves over time, where the
 * time went, attempts, checkpoints, pictures, spec, plan with reasons, events and the ends of logs.
 */
#ifndef CONTROLLER_WATCH_REPORT_PAGE_H
#define CONTROLLER_WATCH_REPORT_PAGE_H

#include <jansson.h>

struct client;
struct err;
struct redact;

/* The text (malloc), made from the answers of the daemon about `job`, a part of a path; NULL with *err set. All texts
 * go through `redact`. */
char *report_page_make(struct client *client, const char *job, const struct redact *redact, struct err *err);

#endif
