-- 0007.sql - which jobs' specs name the directory of another job
-- SPDX-License-Identifier: Apache-2.0
--
-- One row per "/jobs/N/" in the spec of another job: candidates, which removal.c then compares with the home.
-- Without it each removal would have to read all specs.

CREATE TABLE mentions (
    named INTEGER NOT NULL,
    job   INTEGER NOT NULL REFERENCES jobs(id),
    PRIMARY KEY (named, job)
) WITHOUT ROWID;
CREATE INDEX mentions_by_job ON mentions(job);

WITH RECURSIVE part(job, rest) AS (
    SELECT job, substr(canonical, instr(canonical, '/jobs/') + 6) FROM specs WHERE instr(canonical, '/jobs/')
    UNION ALL
    SELECT job, substr(rest, instr(rest, '/jobs/') + 6) FROM part WHERE instr(rest, '/jobs/')
)
INSERT OR IGNORE INTO mentions (named, job)
    SELECT CAST(rest AS INTEGER), job FROM part
    WHERE CAST(rest AS INTEGER) > 0 AND CAST(rest AS INTEGER) <> job;
