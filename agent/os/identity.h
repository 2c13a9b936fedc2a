/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - identity of an agent process: boot id, pid and start time, in RUN_DIR/agent.json
 *
 * A pid alone is reused; together with the boot id and the start time (field 22 of /proc/PID/stat)
 * it identifies one process forever. The controller reads the file to find its agents again.
 */
#ifndef AGENT_OS_IDENTITY_H
#define AGENT_OS_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum { NONCE_CHARS = 64 };

struct identity {
    int64_t pid;
    int64_t start_time;
    char    boot_id[40];
    char    nonce[NONCE_CHARS + 1];
    int64_t job, attempt, incarnation;
    char    version[32];
    char    origin[40]; /* of the job (engine/checkpoint/lineage.h), since LAUNCH; "": not known */
    int64_t since; /* start_time of the first agent of this boot in RUN_DIR; 0: not known */
};

/* Fills boot_id, pid and start_time for this process. */
int identity_self(struct identity *id, struct err *err);

/* Writes a temporary file, syncs it and renames it. */
int identity_write(const struct identity *id, const char *run_dir, struct err *err);

/* ERR_NOT_FOUND: no file; ERR_DATA: not an identity file. */
int identity_read(struct identity *id, const char *run_dir, struct err *err);

/* Sets id->since of an agent that follows others; before: the previous agent's, boot_id "" if it cannot be read. */
void identity_follow(struct identity *id, const struct identity *before);

/* Does it identify this attempt? Not if its nonce differs, or its origin where both are known: then the directory
 * belongs to another job, and nothing in it may be touched. */
bool identity_is_of(const struct identity *id, const char *nonce, const char *origin);

/* Is this process still alive on this machine? */
bool identity_alive(const struct identity *id);

/* In a new agent's environment: the origin of its job, if the controller knows it. */
#define IDENTITY_ORIGIN_ENV "JOBCTL_AGENT_ORIGIN"
/* Likewise: set if this machine has no NVIDIA library, as its controller found at its start. */
#define IDENTITY_NO_NVML_ENV "JOBCTL_AGENT_NO_NVML"

#endif
