-- 0001.sql - the first tables
-- SPDX-License-Identifier: Apache-2.0
--
-- Times are milliseconds since 1970 UTC.  States and results are words: the
-- store knows rows, not jobs.  `events` is the truth; a row of `jobs` is what
-- follows from its events, kept so that a list need not read them.

CREATE TABLE jobs (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    result        TEXT,
    reason        TEXT    NOT NULL DEFAULT '',
    priority      INTEGER NOT NULL DEFAULT 0,
    held          INTEGER NOT NULL DEFAULT 0,
    attempt       INTEGER NOT NULL DEFAULT 0,
    generation    INTEGER NOT NULL DEFAULT 0,
    np            INTEGER,
    step          INTEGER,
    steps         INTEGER,
    loss          REAL,
    samples_per_s REAL,
    exit_code     INTEGER,
    retry_of      INTEGER,
    after_json    TEXT    NOT NULL DEFAULT '[]',
    submitted_ms  INTEGER NOT NULL,
    started_ms    INTEGER,
    ended_ms      INTEGER,
    productive_ms INTEGER NOT NULL DEFAULT 0,
    last_seq      INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX jobs_open ON jobs(id) WHERE state <> 'done';
CREATE INDEX jobs_by_name ON jobs(name, id);

-- What was submitted: the user's words, and the canonical form of them.
CREATE TABLE specs (
    job       INTEGER PRIMARY KEY REFERENCES jobs(id),
    yaml      TEXT NOT NULL,
    canonical TEXT NOT NULL
);

-- Append-only.  What an agent tells is taken once: its five-part key is unique.
CREATE TABLE events (
    job         INTEGER NOT NULL REFERENCES jobs(id),
    seq         INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    source      TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    attempt     INTEGER NOT NULL DEFAULT 0,
    node        TEXT,
    incarnation INTEGER,
    agent_seq   INTEGER,
    body        TEXT    NOT NULL DEFAULT '{}',
    PRIMARY KEY (job, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX events_of_agents ON events(job, attempt, node, incarnation, agent_seq)
    WHERE agent_seq IS NOT NULL;

-- One allocation each, with the identity of its agent.
CREATE TABLE attempts (
    job         INTEGER NOT NULL REFERENCES jobs(id),
    attempt     INTEGER NOT NULL,
    nonce       TEXT    NOT NULL,
    node        TEXT    NOT NULL,
    run_dir     TEXT    NOT NULL,
    boot_id     TEXT,
    pid         INTEGER,
    start_time  INTEGER,
    incarnation INTEGER NOT NULL DEFAULT 0,
    acked       INTEGER NOT NULL DEFAULT 0,
    started_ms  INTEGER NOT NULL,
    ended_ms    INTEGER,
    PRIMARY KEY (job, attempt)
) WITHOUT ROWID;
CREATE INDEX attempts_ended ON attempts(ended_ms);

CREATE TABLE checkpoints (
    job    INTEGER NOT NULL REFERENCES jobs(id),
    step   INTEGER NOT NULL,
    path   TEXT    NOT NULL,
    digest TEXT    NOT NULL DEFAULT '',
    bytes  INTEGER NOT NULL DEFAULT 0,
    trust  TEXT    NOT NULL,
    at_ms  INTEGER NOT NULL,
    PRIMARY KEY (job, step, path)
) WITHOUT ROWID;

-- Thinned: `stride` of a series doubles when it grows past its cap.
CREATE TABLE metrics (
    job   INTEGER NOT NULL REFERENCES jobs(id),
    name  TEXT    NOT NULL,
    step  INTEGER NOT NULL,
    value REAL    NOT NULL,
    PRIMARY KEY (job, name, step)
) WITHOUT ROWID;

CREATE TABLE nodes (
    name         TEXT PRIMARY KEY,
    boot_id      TEXT    NOT NULL,
    cpus         INTEGER NOT NULL,
    facts        TEXT    NOT NULL DEFAULT '{}',
    last_seen_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- How the time of a job was spent: one row per generation that ended.
CREATE TABLE ledger (
    job        INTEGER NOT NULL REFERENCES jobs(id),
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    wall_ms    INTEGER NOT NULL,
    kept_ms    INTEGER NOT NULL,
    PRIMARY KEY (job, attempt, generation)
) WITHOUT ROWID;
