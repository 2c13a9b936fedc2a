/* SPDX-License-Identifier: Apache-2.0 */
/* notice_message.h - the text of a message: the result first, the reason, then what to do
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_NOTIFY_NOTICE_MESSAGE_H
#define CONTROLLER_NOTIFY_NOTICE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "db/notices.h"

enum { NOTICE_TITLE = 240, NOTICE_TEXT = 8192, NOTICE_ID = 80, NOTICE_HOST = 65, NOTICE_LISTED = 20 };

struct notice_message {
    char id[NOTICE_ID];         /* the same in every try: "instance-job-number" */
    char event[NOTICES_EVENT];  /* "several" for a bundle, "test" */
    char host[NOTICE_HOST];     /* the daemon's host */
    char title[NOTICE_TITLE];   /* one line */
    char text[NOTICE_TEXT];     /* lines under the title */
    int64_t at_ms;              /* time of the newest event */
    const struct notice_row *rows;
    size_t  n;                  /* 0: a test */
};

/* From n rows, which the caller keeps. `instance`: the home's, for the id. */
void notice_message_make(struct notice_message *m, const struct notice_row *rows, size_t n, const char *instance,
                         const char *host);
/* A test message for this target. */
void notice_message_test(struct notice_message *m, const char *target, int64_t at_ms, const char *instance,
                         const char *host);

#endif
