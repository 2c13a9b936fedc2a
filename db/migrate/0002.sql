-- 0002.sql - the ledger in buckets
-- SPDX-License-Identifier: Apache-2.0
--
-- Rows of generations become rank-milliseconds in nine buckets that sum to rank_ms; what was known
-- of older ones is kept as productive, and the rest of them as replayed.

ALTER TABLE ledger RENAME TO ledger_0001;
CREATE TABLE ledger (
    job        INTEGER NOT NULL REFERENCES jobs(id),
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    rank_ms    INTEGER NOT NULL,
    productive INTEGER NOT NULL DEFAULT 0 CHECK (productive >= 0),
    replayed   INTEGER NOT NULL DEFAULT 0 CHECK (replayed >= 0),
    init       INTEGER NOT NULL DEFAULT 0 CHECK (init >= 0),
    data       INTEGER NOT NULL DEFAULT 0 CHECK (data >= 0),
    checkpoint INTEGER NOT NULL DEFAULT 0 CHECK (checkpoint >= 0),
    hang       INTEGER NOT NULL DEFAULT 0 CHECK (hang >= 0),
    restart    INTEGER NOT NULL DEFAULT 0 CHECK (restart >= 0),
    queued     INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
    paused     INTEGER NOT NULL DEFAULT 0 CHECK (paused >= 0),
    PRIMARY KEY (job, attempt, generation),
    CONSTRAINT buckets_add_up CHECK (productive + replayed + init + data + checkpoint + hang +
                                     restart + queued + paused = rank_ms)
) WITHOUT ROWID;
INSERT INTO ledger (job, attempt, generation, rank_ms, productive, replayed)
    SELECT job, attempt, generation, wall_ms, min(kept_ms, wall_ms), wall_ms - min(kept_ms, wall_ms)
    FROM ledger_0001 WHERE wall_ms >= 0 AND kept_ms >= 0;
DROP TABLE ledger_0001;

-- Ranks' time that was neither queued nor paused; productive_ms is of the ranks, too, from here on.
ALTER TABLE jobs ADD COLUMN busy_ms INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET busy_ms = coalesce(ended_ms, started_ms, 0) - coalesce(started_ms, 0);
