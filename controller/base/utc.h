/* SPDX-License-Identifier: Apache-2.0 */
/* utc.h - times in answers: ISO 8601 in UTC */
#ifndef CONTROLLER_BASE_UTC_H
#define CONTROLLER_BASE_UTC_H

#include <jansson.h>
#include <stdint.h>

json_t *utc_json(int64_t ms);           /* a new reference; null for a negative time */

#endif
