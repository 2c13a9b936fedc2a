/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_store.c - see doctor_store.h */
#include "controller/manage/doctor_store.h"

#include "controller/base/client.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

int doctor_store_add(json_t *answer, struct err *err)
{
    struct client *c = NULL;
    struct err none = { 0 };
    json_t *seen = NULL;
    if (client_open(&c, false, &none) < 0)
        return 0;
    const int rc = client_get(c, &seen, err, "/v1/store");
    client_close(c);
    if (rc < 0)
        return -1;
    const char *text = field_text(seen, "text"), *status = text[0] ? "warn" : "ok";
    json_t *row = json_make("{s:s, s:s, s:s, s:s}", "check", "store", "status", status, "seen",
                            text[0] ? text : "the daemon has found all jobs in it", "todo",
                            text[0] ? "nothing: `jobctl why JOB` says what each job has lost" : "");
    if (text[0])
        json_object_set_new(answer, status, json_integer(field_int(answer, status, 0) + 1));
    json_decref(seen);
    return json_array_append_new(json_object_get(answer, "rows"), row);
}
