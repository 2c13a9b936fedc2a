-- 0013.sql - copies of the code of removed jobs on hosts of launch: ssh, until the host has removed them
-- SPDX-License-Identifier: Apache-2.0

CREATE TABLE host_copies (
    job     INTEGER NOT NULL,
    host    TEXT    NOT NULL,
    attempt INTEGER NOT NULL,
    nonce   TEXT    NOT NULL,
    PRIMARY KEY (job, host)
) WITHOUT ROWID;
