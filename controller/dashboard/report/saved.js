/* SPDX-License-Identifier: Apache-2.0 */
/* saved.js - stands for api.js in a report: what the daemon answered when the file was written */
const saved = JSON.parse(document.getElementById("saved").textContent);

export class Refused extends Error {}

export async function get(path, query = {}) {
  if (path.endsWith("/why")) return saved.why;
  if (path.endsWith("/metrics")) return { curves: query.after < 0 ? saved.curves : Object.fromEntries(query.names.split(",").map((n) => [n, []])) };
  if (!path.endsWith("/logs")) return saved.all;
  const log = saved.logs[query.rank] ?? { attempt: saved.all.job.attempt, next_offset: 0, data: "" };
  return query.offset < 0 ? log : { ...log, data: "" };
}

export async function getBlob(path) {
  const text = saved.samples[new URLSearchParams(path.split("?")[1]).get("step")];
  if (!text) throw new Refused("not in this file");
  return new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], { type: "image/png" });
}

export async function post() { throw new Refused("a report is read-only"); }
