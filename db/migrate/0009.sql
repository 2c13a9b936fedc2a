-- 0009.sql - the events of finished jobs, packed
-- SPDX-License-Identifier: Apache-2.0
--
-- One row per run of events, first to last, that packed_events.c has taken out of the table events; rows: packing.h.
-- jobs.packed: 0 not yet, 1 done, 2 cannot be packed, because an event is damaged.

CREATE TABLE packed_events (
    job   INTEGER NOT NULL REFERENCES jobs(id),
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    rows  BLOB    NOT NULL,
    PRIMARY KEY (job, first)
);
ALTER TABLE jobs ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_to_pack ON jobs(ended_ms) WHERE state = 'done' AND packed = 0;

-- As the key of events refuses a sequence number twice.
CREATE TRIGGER events_packed_once BEFORE INSERT ON events
    WHEN EXISTS (SELECT 1 FROM packed_events WHERE job = NEW.job AND last >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the job has this event, packed');
END;
