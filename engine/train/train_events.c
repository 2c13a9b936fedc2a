/* SPDX-License-Identifier: Apache-2.0 */
/* train_events.c - see train_events.h */
#include "engine/train/train_events.h"

#include <stdio.h>

#include "engine/train/event_file.h"
#include "engine/train/loss_log.h"
#include "engine/train/train_save.h"
#include "engine/train/train_state.h"

void train_events_open(struct train *t)
{
    char dir[CHECKPOINT_PATH + 16];
    struct err err = {0};
    if (!t->spec.tensorboard || !train_is_first(t))
        return;
    snprintf(dir, sizeof(dir), "%s/tensorboard", t->dir);
    if (event_file_open(&t->events, dir, t->at, &err) == 0)
        event_file_settings(t->events, json_object_get(t->job, "train"), &err);
    train_warn_log(t, &err);
}

void train_events_close(struct train *t)
{
    event_file_close(t->events);
    t->events = NULL;
}

void train_events_step(struct train *t, double grad_norm, double lr, double samples_per_s)
{
    const int64_t every = (t->spec.steps + LOSS_LOG_LINES - 1) / LOSS_LOG_LINES;
    const struct event_scalar list[] = {
        {"train/loss", t->loss}, {"train/grad_norm", grad_norm}, {"train/lr", lr},
        {"speed/samples_per_s", samples_per_s}, {"speed/step_s", t->step_s},
    };
    struct err err = {0};
    if (!t->events || (t->at % every != 0 && t->at != t->spec.steps))
        return;
    event_file_scalars(t->events, t->at, list, sizeof(list) / sizeof(*list), &err);
    train_warn_log(t, &err);
}

void train_events_picture(struct train *t, const char *tag, const char *path)
{
    struct err err = {0};
    event_file_picture(t->events, t->at, tag, path, &err);
    train_warn_log(t, &err);
}
