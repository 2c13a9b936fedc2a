/* SPDX-License-Identifier: Apache-2.0 */
/* notify_events.h - the events for which a target gets messages (docs/MONITORING.md) */
#ifndef CONTROLLER_SPEC_NOTIFY_EVENTS_H
#define CONTROLLER_SPEC_NOTIFY_EVENTS_H

#include <stdbool.h>

#define NOTIFY_EVENTS "done, failed, recovering, hung, budget"

bool notify_events_has(const char *word);

#endif
