-- schema.sql - the tables of the store
-- SPDX-License-Identifier: Apache-2.0
--
-- Times are milliseconds since 1970 UTC.  States and results are words: the
-- store knows rows, not jobs.  `events` is the truth; a row of `jobs` is what
-- follows from its events, kept so that a list need not read them.

-- productive_ms and busy_ms are of all ranks; busy: neither queued nor paused.
-- members: a sweep's or array's number of members. sweep, sweep_index, point: a member's sweep, index and values as
-- JSON. A member has a row once it starts, and an index is never started twice.
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
    busy_ms       INTEGER NOT NULL DEFAULT 0,
    last_seq      INTEGER NOT NULL DEFAULT 0,
    members       INTEGER,
    sweep         INTEGER,
    sweep_index   INTEGER,
    point         TEXT
);
CREATE INDEX jobs_open ON jobs(id) WHERE state <> 'done';
CREATE INDEX jobs_by_name ON jobs(name, id);
CREATE INDEX jobs_ended ON jobs(ended_ms) WHERE state = 'done';
CREATE UNIQUE INDEX jobs_of_sweep ON jobs(sweep, sweep_index) WHERE sweep IS NOT NULL;

-- What was submitted: the user's text and its canonical form.
CREATE TABLE specs (
    job       INTEGER PRIMARY KEY REFERENCES jobs(id),
    yaml      TEXT NOT NULL,
    canonical TEXT NOT NULL
);

-- Which jobs' specs name the directory of another job: one row per "/jobs/N/" in the spec of another job. Candidates,
-- which removal.c then compares with the home. Without it each removal would have to read all specs.
CREATE TABLE mentions (
    named INTEGER NOT NULL,
    job   INTEGER NOT NULL REFERENCES jobs(id),
    PRIMARY KEY (named, job)
) WITHOUT ROWID;
CREATE INDEX mentions_by_job ON mentions(job);

-- Keys of submits: a request that is repeated with its key finds its job. spec: digest of the spec as it was submitted,
-- so that a key is not taken for another job.
CREATE TABLE submit_keys (
    key  TEXT    NOT NULL PRIMARY KEY,
    job  INTEGER NOT NULL,
    spec TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX submit_keys_by_job ON submit_keys(job);

-- Append-only.  What an agent sends is stored once: its five-part key is unique.
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

-- Agents that may live on although their attempt was given up: one row per node of an attempt, as long as its processes
-- may live. launcher: how to reach the host.
CREATE TABLE orphans (
    job      INTEGER NOT NULL REFERENCES jobs(id),
    attempt  INTEGER NOT NULL,
    node     INTEGER NOT NULL,
    launcher TEXT    NOT NULL,
    host     TEXT    NOT NULL,
    PRIMARY KEY (job, attempt, node)
) WITHOUT ROWID;

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

-- How the time of a job was spent: rank-milliseconds in buckets, one row per generation that ended.
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

-- Machines and their health. failures: since it last answered; failed_ms: the latest; vanished: it stopped answering;
-- drained: why it gets no new attempt, NULL if it does.
CREATE TABLE nodes (
    name         TEXT PRIMARY KEY,
    boot_id      TEXT    NOT NULL,
    cpus         INTEGER NOT NULL,
    facts        TEXT    NOT NULL DEFAULT '{}',
    last_seen_ms INTEGER NOT NULL,
    failures     INTEGER NOT NULL DEFAULT 0,
    failed_ms    INTEGER NOT NULL DEFAULT 0,
    vanished     INTEGER NOT NULL DEFAULT 0,
    error        TEXT    NOT NULL DEFAULT '',
    drained      TEXT
) WITHOUT ROWID;

-- One row stays in place of a removed job's rows. bytes: of its files; checkpoints: where they are or were, '' if there
-- are none; pending: some of its files may still exist.
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

-- Copies of removed jobs' code on hosts of launch: ssh, until the host has removed them.
CREATE TABLE host_copies (
    job     INTEGER NOT NULL,
    host    TEXT    NOT NULL,
    attempt INTEGER NOT NULL,
    nonce   TEXT    NOT NULL,
    PRIMARY KEY (job, host)
) WITHOUT ROWID;

-- Messages about jobs that are still to be sent: one row per job and target of config.yaml, what has happened since the
-- last message (db/notices.h). No address and no secret is here, only the name of the target.
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
