-- 0012.sql - keys of submits: a request that is repeated with its key finds its job
-- SPDX-License-Identifier: Apache-2.0
--
-- spec: digest of the spec as it was submitted, so that a key is not taken for another job.

CREATE TABLE submit_keys (
    key  TEXT    NOT NULL PRIMARY KEY,
    job  INTEGER NOT NULL,
    spec TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX submit_keys_by_job ON submit_keys(job);
