# SPDX-License-Identifier: Apache-2.0
# many_jobs.sh - a home with many finished jobs: . "$TOP/tests/e2e/many_jobs.sh"

# copy_job ID COUNT: finished jobs old-1, old-2, ... with ids from 10001, without events, beside the daemon, which stops
copy_job() {
    stop_daemon
    (cd "$JOBCTL_HOME/jobs" && seq 10001 $((10000 + $2)) | xargs mkdir -m 700)
    sqlite3 "$JOBCTL_HOME/jobs.db" <<SQL
begin;
create temp table n as with recursive c(i) as (select 1 union all select i + 1 from c where i < $2) select i from c;
create temp table one as select * from jobs where id = $1;
insert into jobs select (select i + 10000), 'old-' || i, state, result, reason, priority, held, attempt, generation, np, step,
  steps, loss, samples_per_s, exit_code, retry_of, after_json, submitted_ms, started_ms, ended_ms, productive_ms, last_seq,
  busy_ms, members, sweep, sweep_index, point from one, n;
insert into specs select i + 10000, yaml, canonical from specs, n where job = $1;
commit;
SQL
}
