-- 0003.sql - what is remembered of a node's health
-- SPDX-License-Identifier: Apache-2.0
--
-- Failures since it last answered, and the latest of them; vanished: it stopped answering; drained:
-- why it gets no new attempt, NULL where it does.

ALTER TABLE nodes ADD COLUMN failures  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN failed_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN vanished  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN error     TEXT    NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN drained   TEXT;
