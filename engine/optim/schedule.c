/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - see schedule.h */
#include "engine/optim/schedule.h"

#include <math.h>

#include "engine/base/err.h"

int schedule_check(const struct schedule *s, struct err *err)
{
    if (!(s->lr >= 0) || !isfinite(s->lr))
        return err_set(err, ERR_USAGE, "the learning rate is %g; it must be 0 or more", s->lr);
    if (s->warmup < 0)
        return err_set(err, ERR_USAGE, "warmup is %lld steps; it must be 0 or more", (long long)s->warmup);
    if (!(s->floor >= 0 && s->floor <= 1))
        return err_set(err, ERR_USAGE, "the schedule's floor is %g; it must be from 0 to 1", s->floor);
    if (s->type == SCHEDULE_COSINE && s->steps <= s->warmup)
        return err_set(err, ERR_USAGE, "a cosine schedule of %lld steps needs more steps than its warm-up (%lld)",
                       (long long)s->steps, (long long)s->warmup);
    return 0;
}

double schedule_lr(const struct schedule *s, int64_t step)
{
    if (step < s->warmup)
        return s->lr * (double)step / (double)s->warmup;
    if (s->type == SCHEDULE_CONSTANT)
        return s->lr;
    double x = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    if (x > 1)
        x = 1;
    return s->lr * (s->floor + (1 - s->floor) * 0.5 * (1 + cos(x * 3.14159265358979323846)));
}
