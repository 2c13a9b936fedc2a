-- 0008.sql - the wait for a full disk is a bucket of goodput
-- SPDX-License-Identifier: Apache-2.0

ALTER TABLE goodput RENAME TO goodput_0007;
CREATE TABLE goodput (
    job        INTEGER NOT NULL REFERENCES jobs(id),
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    rank_ms    INTEGER NOT NULL,
    productive INTEGER NOT NULL DEFAULT 0 CHECK (productive >= 0),
    replayed   INTEGER NOT NULL DEFAULT 0 CHECK (replayed >= 0),
    init       INTEGER NOT NULL DEFAULT 0 CHECK (init >= 0),
    data       INTEGER NOT NULL DEFAULT 0 CHECK (data >= 0),
    checkpoint INTEGER NOT NULL DEFAULT 0 CHECK (checkpoint >= 0),
    disk       INTEGER NOT NULL DEFAULT 0 CHECK (disk >= 0),
    hang       INTEGER NOT NULL DEFAULT 0 CHECK (hang >= 0),
    restart    INTEGER NOT NULL DEFAULT 0 CHECK (restart >= 0),
    queued     INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
    paused     INTEGER NOT NULL DEFAULT 0 CHECK (paused >= 0),
    PRIMARY KEY (job, attempt, generation),
    CONSTRAINT buckets_add_up CHECK (productive + replayed + init + data + checkpoint + disk + hang +
                                     restart + queued + paused = rank_ms)
) WITHOUT ROWID;
INSERT INTO goodput (job, attempt, generation, rank_ms, productive, replayed, init, data, checkpoint, hang, restart,
                     queued, paused)
    SELECT job, attempt, generation, rank_ms, productive, replayed, init, data, checkpoint, hang, restart,
           queued, paused
    FROM goodput_0007;
DROP TABLE goodput_0007;
