-- 0004.sql - what is left to say of jobs that were removed
-- SPDX-License-Identifier: Apache-2.0
--
-- One row stays where all rows of a job went. bytes: of its files; checkpoints: where they are or
-- were, '' where there are none; pending: its files may not all be gone yet.

CREATE TABLE removed (
    job              INTEGER PRIMARY KEY,
    name             TEXT    NOT NULL,
    removed_ms       INTEGER NOT NULL,
    bytes            INTEGER NOT NULL,
    checkpoints      TEXT    NOT NULL DEFAULT '',
    checkpoint_bytes INTEGER,
    kept             INTEGER NOT NULL,
    pending          INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX removed_pending ON removed(job) WHERE pending;
