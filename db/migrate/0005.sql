-- 0005.sql - where time went has the name that it has everywhere else
-- SPDX-License-Identifier: Apache-2.0

ALTER TABLE ledger RENAME TO goodput;
