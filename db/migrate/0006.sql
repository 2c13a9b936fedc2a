-- 0006.sql - agents that may live on although their attempt was given up
-- SPDX-License-Identifier: Apache-2.0
--
-- One row per node of an attempt, as long as its processes may live. launcher: how to reach the host.

CREATE TABLE orphans (
    job      INTEGER NOT NULL REFERENCES jobs(id),
    attempt  INTEGER NOT NULL,
    node     INTEGER NOT NULL,
    launcher TEXT    NOT NULL,
    host     TEXT    NOT NULL,
    PRIMARY KEY (job, attempt, node)
) WITHOUT ROWID;
