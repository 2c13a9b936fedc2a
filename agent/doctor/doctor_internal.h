/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_internal.h - shared by doctor.c, doctor_gpus.c and doctor_job.c only */
#ifndef AGENT_DOCTOR_DOCTOR_INTERNAL_H
#define AGENT_DOCTOR_DOCTOR_INTERNAL_H

#include <jansson.h>

#include "agent/doctor/doctor_rows.h"
#include "engine/base/err.h"

struct checkup {
    const json_t *facts, *spec, *looked;
    json_t *plan;       /* for the spec; NULL: no spec, or refused */
    struct err refusal; /* why it was refused */
    struct doctor_rows rows;
};

/* Adds a row: check, status, what to do, what was found. */
#define row(c, ...) doctor_row(&(c)->rows, __VA_ARGS__)

/* Rows of the driver, the GPUs, their links and NCCL. */
void doctor_check_gpus(struct checkup *c);

/* Rows of c->spec; creates and frees c->plan. */
void doctor_check_job(struct checkup *c);

static inline double doctor_gib(json_int_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

#endif
