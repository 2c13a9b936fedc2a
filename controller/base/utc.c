/* SPDX-License-Identifier: Apache-2.0 */
/* utc.c - see utc.h */
#include "controller/base/utc.h"

#include <stdio.h>
#include <time.h>

#include "engine/base/json_text.h"

json_t *utc_json(int64_t ms)
{
    char text[40];
    struct tm tm;
    time_t s = (time_t)(ms / 1000);
    if (ms < 0 || !gmtime_r(&s, &tm))
        return json_null();
    size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(ms % 1000));
    return json_text(text);
}
