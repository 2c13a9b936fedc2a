/* SPDX-License-Identifier: Apache-2.0 */
/* job_list.h - which jobs a list shows, in which order, and how many there are of each state
 *
 * Pure: no clock, no I/O.
 * A job's word is what `status` shows: held, its state, or, once it is done, its result.
 */
#ifndef CONTROLLER_JOB_JOB_LIST_H
#define CONTROLLER_JOB_JOB_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* A set of words. */
typedef unsigned job_list_words;

enum { JOB_LIST_ACTIVE = 0x3f, JOB_LIST_DONE = 0x1c0 };

/* From "running,failed"; done and active stand for all their words. -1: an unknown word (ERR_USAGE). */
int job_list_parse(job_list_words *words, const char *text, struct err *err);

/* True if a row's word is among them. */
bool job_list_has(job_list_words words, const json_t *row);

/* A job to be sorted; `of` is the caller's. */
struct job_list_item {
    int     word;               /* bit of job_list_words */
    int64_t priority, id;
    void   *of;
};

/* `result` is "" before the end. */
int job_list_word(const char *state, bool held, const char *result);

/* As job_list_sort(). */
void job_list_order(struct job_list_item *items, size_t count);

/* {"running": 2, ...}: how many there are of each word, without zeros. A new object. */
json_t *job_list_count(const struct job_list_item *items, size_t count);

/* Running jobs first, then those that wait, in the order of the queue, then done ones; otherwise newest first. */
void job_list_sort(json_t *rows);

/* "5 jobs: 2 running, 3 pending"; "" for none. */
void job_list_totals(char *out, size_t size, const json_t *rows);
/* The same from job_list_count(); *total: of all. */
void job_list_totals_of(char *out, size_t size, const json_t *counts, size_t *total);

#endif
