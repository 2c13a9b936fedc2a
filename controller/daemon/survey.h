/* SPDX-License-Identifier: Apache-2.0 */
/* survey.h - compares the rows of the store with the directories of the jobs
 *
 * A store that was lost, replaced by an older copy, or whose log was damaged differs from jobs/. The daemon reports
 * such jobs and changes neither their rows nor their directories; `jobctl doctor --repair` (repair.h) repairs the
 * store.
 */
#ifndef CONTROLLER_DAEMON_SURVEY_H
#define CONTROLLER_DAEMON_SURVEY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/job/job_history.h"

struct err;
struct job_row;
struct store;

/* What is wrong with a job. The first ones keep the daemon from running it; the texts are in survey.c. */
enum survey_fault {
    SURVEY_BEHIND,      /* its directory has more events than the store */
    SURVEY_STRANGER,    /* its directory is that of another job */
    SURVEY_VANISHED,    /* it is not done, and its directory is gone */
    SURVEY_UNREADABLE,  /* its rows are damaged */
    SURVEY_UNKNOWN,     /* a directory without a row */
    SURVEY_DAMAGED,     /* the same, and its events cannot be read */
    SURVEY_BARE,        /* the same, and the directory has no events to rebuild the row from */
    SURVEY_EMPTIED,     /* it is done, and its directory is gone: nothing to repair */
    SURVEY_FAULTS,
    SURVEY_FINE = SURVEY_FAULTS
};

struct survey {
    struct survey_ids {
        int64_t *list;              /* ascending */
        size_t   count, room;
    } jobs[SURVEY_FAULTS];
    int64_t newest;                 /* the largest id that is a directory */
};

/* All rows against all directories; *out is empty at first, survey_free() accepts NULL. */
int survey_make(struct survey **out, const char *home, struct store *s, struct err *err);
void survey_free(struct survey *survey);

void survey_add(struct survey *survey, enum survey_fault fault, int64_t id);
/* SURVEY_FINE for a job that is not listed, and for NULL. */
enum survey_fault survey_of(const struct survey *survey, int64_t id);
/* May the daemon run this job? */
bool survey_allows(const struct survey *survey, int64_t id);
/* Is there anything for `doctor --repair`? */
bool survey_needs_repair(const struct survey *survey);

/* Why a job is not touched, and what to do; also for a job that the store does not have; "" of a good one. */
const char *survey_reason(const struct survey *survey, int64_t id);

/* jobs_get(); the error mentions a directory without a row. */
int survey_job_get(struct job_row *row, const struct survey *survey, struct store *s, int64_t id, struct err *err);

/* "31 jobs (1-31): a directory, but no row in the store; ..."; "" if all is well; returns its length. */
size_t survey_text(char *out, size_t size, const struct survey *survey);
/* {text, repair, jobs: {behind: [ids], ...}} */
json_t *survey_json(const struct survey *survey);

#endif
