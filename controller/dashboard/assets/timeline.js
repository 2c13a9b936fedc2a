/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.js - when each step was, and what happened when: everything of a job on one axis of time, in seconds */

const at = (iso) => Date.parse(iso) / 1000;
const SHAPES = {
  hang: "hang", straggler: "slow", gpu_fault: "warn", gpu_event: "warn", node_lost: "warn", agent_lost: "warn",
  start_failed: "warn", excluded: "warn", warning: "warn",
  quarantined: "quarantined", no_room: "warn", deadline: "warn", generation_ended: "warn", preflight: "warn",
};

/* ---- steps ---- */

/* [[step, second]...] of what is known beside the curve of times: begins and ends of generations, checkpoints, now. */
function anchorsOf(job) {
  const found = [];
  for (const attempt of job.attempts ?? []) {
    for (const g of attempt.generations ?? []) {
      if (g.started_at) found.push([g.resume_step ?? 0, at(g.started_at)]);
      if (g.ended_at && g.step >= 0 && g.step !== null) found.push([g.step, at(g.ended_at)]);
    }
  }
  for (const c of job.checkpoints ?? []) found.push([c.step, at(c.at)]);
  if (job.job.step !== null) found.push([job.job.step, at(job.job.ended_at ?? new Date().toISOString())]);
  return found.filter(([, t]) => Number.isFinite(t)).sort((a, b) => a[1] - b[1]);
}

/* The second at which a step was last made, between the anchors around it. */
export function clockOf(job, times) {
  const known = new Map(times), anchors = anchorsOf(job);
  return (step) => {
    if (known.has(step)) return known.get(step);
    for (let i = anchors.length - 1; i > 0; i--) {
      const [s0, t0] = anchors[i - 1], [s1, t1] = anchors[i];
      if (s0 <= step && step <= s1 && s1 > s0) return t0 + (t1 - t0) * (step - s0) / (s1 - s0);
    }
    return anchors.find(([s]) => s >= step)?.[1] ?? anchors.at(-1)?.[1] ?? 0;
  };
}

/* The instants at which a curve is interrupted: no line is drawn over them. */
function breaksOf(job) {
  return (job.attempts ?? []).flatMap((a) => (a.generations ?? []).map((g) => at(g.started_at))).filter(Number.isFinite);
}

/* points: [[step, value]...] to [times, values, steps], sorted by time, with a hole where a generation begins. */
export function seriesOf(job, points, clock) {
  const rows = points.map(([step, value]) => [clock(step), value, step]);
  if (rows.length) for (const t of breaksOf(job)) if (t > rows[0][0] && t < rows.at(-1)[0]) rows.push([t, null, null]);
  rows.sort((a, b) => a[0] - b[0]);
  return [rows.map((r) => r[0]), rows.map((r) => r[1]), rows.map((r) => r[2])];
}

/* ---- what happened ---- */

function bar(name, from, to, look, words) { return { name, from, to, look, words }; }

/* Bars of the lanes: the queue, attempts and generations. */
export function lanesOf(job, now, text) {
  const attempts = [], generations = [], all = job.attempts ?? [];
  let free = at(job.job.submitted_at);
  for (const a of all) {
    const from = at(a.started_at), to = a.ended_at ? at(a.ended_at) : now;
    if (from > free) attempts.push(bar(text("queued"), free, from, "queued", text("queued")));
    attempts.push(bar(text("attemptN", a.attempt), from, to, a.ended_at ? "ended" : "alive", [text("attemptN", a.attempt), a.cause === "none" ? null : a.cause].filter(Boolean).join(" · ")));
    free = to;
    for (const g of a.generations ?? []) {
      const words = [text("generationN", g.generation), text(g.np === 1 ? "ranks1" : "ranksN", g.np), g.resume_step ? text("fromStep", g.resume_step) : null, g.cause === "none" ? null : g.cause].filter(Boolean).join(" · ");
      generations.push(bar(text("generationN", g.generation), at(g.started_at), g.ended_at ? at(g.ended_at) : to, g.ended_at || a.ended_at ? "gen" : "alive-gen", words));
    }
  }
  if (job.job.state !== "done" && !all.some((a) => !a.ended_at)) attempts.push(bar(text("queued"), free, now, "queued", text(job.job.held ? "held" : "queued")));
  return { attempts, generations };
}

/* A restart that the trainer asked for is no incident; one sentence per instant and kind is enough. */
export function incidentsOf(events) {
  return events.filter((e) => SHAPES[e.kind] && (e.kind !== "generation_ended" || (e.body?.cause && e.body.cause !== "none")))
    .map((e) => ({ at: at(e.at), shape: e.kind === "generation_ended" && /hang/.test(e.body.cause) ? "hang" : SHAPES[e.kind], text: e.text || e.kind, seq: e.seq, slow: e.kind === "straggler" }));
}

/* Proven good: a later generation or job went on from it. */
export function provenSteps(job) {
  return new Set((job.attempts ?? []).flatMap((a) => (a.generations ?? []).map((g) => g.resume_step)).filter((s) => s > 0));
}

export function checkpointsOf(job) {
  const proven = provenSteps(job);
  return (job.checkpoints ?? []).map((c) => ({ ...c, second: at(c.at), shape: c.trust === "written" && proven.has(c.step) ? "proven" : c.trust }));
}
