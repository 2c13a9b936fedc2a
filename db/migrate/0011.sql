-- SPDX-License-Identifier: Apache-2.0
-- Sweeps and arrays. The row of a sweep has the number of its members; that of a member, the sweep, its index there
-- and its values as JSON. A member has a row once it starts, and an index is never started twice.

ALTER TABLE jobs ADD COLUMN members INTEGER;
ALTER TABLE jobs ADD COLUMN sweep INTEGER;
ALTER TABLE jobs ADD COLUMN sweep_index INTEGER;
ALTER TABLE jobs ADD COLUMN point TEXT;
CREATE UNIQUE INDEX jobs_of_sweep ON jobs(sweep, sweep_index) WHERE sweep IS NOT NULL;
