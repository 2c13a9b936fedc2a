/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_duration.c - see checkpoint_duration.h */
#include "controller/job/checkpoint_duration.h"

#include <jansson.h>
#include <math.h>

#include "controller/job/event_kind.h"
#include "db/events.h"

#define FADES 0.9

static int take(void *arg, const struct event_row *row)
{
    double *ms = arg;
    if (event_kind_of(row->kind) != EVENT_CHECKPOINT)
        return 0;
    json_t *body = json_loads(row->body, 0, NULL);
    *ms = fmax(json_number_value(json_object_get(body, "ms")), *ms * FADES);
    json_decref(body);
    return 0;
}

int64_t checkpoint_duration_ms(struct store *s, int64_t job)
{
    double ms = 0;
    events_each(s, job, 0, INT64_MAX, take, &ms, NULL);
    return (int64_t)(ms + 0.5);
}
