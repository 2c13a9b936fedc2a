/* SPDX-License-Identifier: Apache-2.0 */
/* notify_times.h - the times of messages in this process */
#ifndef CONTROLLER_NOTIFY_NOTIFY_TIMES_H
#define CONTROLLER_NOTIFY_NOTIFY_TIMES_H

#include "controller/notify/notice.h"

/* NOTICE_TIMES; for tests divided by $JOBCTL_TEST_NOTIFY_FASTER. */
struct notice_times notify_times(void);

#endif
