/* SPDX-License-Identifier: Apache-2.0 */
/* request_exposition.c - the metrics page, in the format that the client prefers */
#include "controller/http/request.h"
#include "controller/metrics/exposition.h"
#include "controller/metrics/openmetrics.h"
#include "controller/requests/requests.h"

void request_exposition(struct request *r)
{
    const bool open = openmetrics_wanted(request_header(r, "Accept"));
    request_answer_text(r, 200, open ? OPENMETRICS_TYPE : PROMETHEUS_TYPE, exposition_make(request_daemon(r), !open));
}
