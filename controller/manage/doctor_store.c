/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_store.c - see doctor_store.h */
#include "controller/manage/doctor_store.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/unix_socket.h"
#include "controller/base/client.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/daemon/repair.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { STOP_TRIES = 1500, STOP_PAUSE_MS = 20 };

/* ---- its row ---- */

/* From the daemon, which compared at its start; without one from the files. */
static json_t *look(struct err *err)
{
    char home[PATH_MAX];
    struct client *c = NULL;
    struct err none = {0};
    json_t *seen = NULL;
    if (client_open(&c, false, &none) == 0 && client_get(c, &seen, err, "/v1/store") < 0) {
        client_close(c);
        return NULL;
    }
    client_close(c);
    if (seen || home_dir(home, sizeof(home), err) < 0)
        return seen;
    return access(home, F_OK) == 0 ? repair_look(home, err) : json_null();
}

static json_t *row_of(const json_t *seen)
{
    const char *text = field_text(seen, "text");
    const char *status = field_true(seen, "damaged") ? "fail" : text[0] ? "warn" : "ok";
    const char *todo = field_true(seen, "repair") ? "run `jobctl doctor --repair`: it rebuilds the store from the "
                                                    "directories of the jobs and its snapshots; running jobs continue"
                       : text[0] ? "nothing can be rebuilt: remove the rows with `jobctl remove`, and move the "
                                   "directories away" : "";
    return json_make("{s:s, s:s, s:s, s:s}", "check", "store", "status", status, "seen",
                     text[0] ? text : "every job has its directory and its row", "todo", todo);
}

int doctor_store_add(json_t *answer, struct err *err)
{
    json_t *seen = look(err);
    if (!json_is_object(seen)) {
        json_decref(seen);
        return seen ? 0 : -1;
    }
    json_t *row = row_of(seen);
    const char *status = field_text(row, "status");
    if (strcmp(status, "ok") != 0)
        json_object_set_new(answer, status, json_integer(field_int(answer, status, 0) + 1));
    json_decref(seen);
    return json_array_append_new(json_object_get(answer, "rows"), row);
}

/* ---- its repair ---- */

/* Agents and ranks continue. */
static int stop_daemon(const char *socket, struct err *err)
{
    struct client *c = NULL;
    struct err none = {0};
    json_t *answer = NULL, *body = json_object();
    if (client_open(&c, false, &none) == 0)
        client_post(c, &answer, "/v1/shutdown", body, &none);
    client_close(c);
    json_decref(answer);
    json_decref(body);
    for (int i = 0; i < STOP_TRIES; i++) {
        int fd = unix_socket_connect(socket, true, NULL);
        if (fd < 0)
            return 0;
        close(fd);
        clock_wait(-1, STOP_PAUSE_MS);
    }
    return err_set(err, ERR_CONFLICT, "the daemon does not stop: end it with kill, then repeat the repair");
}

static void print(FILE *f, const json_t *report)
{
    const long long jobs = field_int(report, "jobs", 0), rebuilt = field_int(report, "rebuilt", 0);
    const long long taken = field_int(report, "from_snapshot", 0), advanced = field_int(report, "advanced", 0);
    const long long ended = field_int(report, "ended", 0);
    const char *left = field_text(json_object_get(report, "left"), "text");
    fprintf(f, "The store was %s. The new one has %lld job%s.\n", field_text(report, "store"), jobs,
            jobs == 1 ? "" : "s");
    if (rebuilt)
        fprintf(f, "%lld came from the directories.\n", rebuilt);
    if (taken)
        fprintf(f, "%lld came from the snapshot %s.\n", taken, field_text(report, "snapshot"));
    if (advanced)
        fprintf(f, "%lld were brought up to date from the directories.\n", advanced);
    if (ended)
        fprintf(f, "%lld had started and have no directory any more; they are marked as failed.\n", ended);
    if (left[0])
        fprintf(f, "Not changed: %s.\n", left);
    if (field_text(report, "old")[0])
        fprintf(f, "The old store is in %s.\n", field_text(report, "old"));
}

int doctor_store_repair(struct call *call)
{
    char home[PATH_MAX], socket[PATH_MAX];
    struct client *c = NULL;
    json_t *report = NULL;
    if (home_dir(home, sizeof(home), &call->err) < 0 ||
        home_path(socket, sizeof(socket), HOME_SOCKET, &call->err) < 0)
        return -1;
    if (access(home, F_OK) < 0)
        return err_set(&call->err, ERR_NOT_FOUND, "there is no state directory %s", home);
    if (stop_daemon(socket, &call->err) < 0 || repair_run(&report, home, &call->err) < 0)
        return -1;
    int rc = client_open(&c, true, &call->err);      /* starts the daemon, which finds the agents again */
    client_close(c);
    if (rc == 0 && call->json)
        output_json(call, json_incref(report));
    else if (rc == 0)
        print(call->out.file, report);
    json_decref(report);
    return rc;
}
