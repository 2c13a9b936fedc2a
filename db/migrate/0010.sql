-- 0010.sql - messages about jobs that are still to be sent
-- SPDX-License-Identifier: Apache-2.0
--
-- One row per job and target of config.yaml: what has happened since the last message (db/notices.h). No address and
-- no secret is here, only the name of the target.

CREATE TABLE notices (
    job      INTEGER NOT NULL,
    target   TEXT    NOT NULL,
    event    TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    restarts INTEGER NOT NULL,
    hangs    INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,
    last_ms  INTEGER NOT NULL,
    due_ms   INTEGER NOT NULL,
    sent     INTEGER NOT NULL,
    sent_ms  INTEGER NOT NULL,
    tries    INTEGER NOT NULL,
    ended    INTEGER NOT NULL,
    PRIMARY KEY (job, target)
) WITHOUT ROWID;
CREATE INDEX notices_waiting ON notices(target, tries, due_ms) WHERE due_ms > 0;
