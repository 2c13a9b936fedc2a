/* SPDX-License-Identifier: Apache-2.0 */
/* figures.js - numbers and states as people read them. "—" is a number that is not known */
import { svg } from "./dom.js";

const NBSP = "\u00a0";

export function known(value) { return value !== null && value !== undefined; }

export function number(value, digits = 3) {
  if (!known(value)) return "—";
  return value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)
    ? value.toExponential(2) : Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });
}

export function percent(share) { return known(share) ? `${(share * 100).toFixed(1)}${NBSP}%` : "—"; }

export function duration(seconds) {
  if (!known(seconds)) return "—";
  const s = Math.round(seconds);
  if (s < 60) return `${seconds < 10 ? Number(seconds.toFixed(1)) : s}${NBSP}s`;
  if (s < 3600) return `${Math.floor(s / 60)}${NBSP}min ${s % 60}${NBSP}s`;
  if (s < 172800) return `${Math.floor(s / 3600)}${NBSP}h ${Math.floor(s % 3600 / 60)}${NBSP}min`;
  return `${Math.floor(s / 86400)}${NBSP}d ${Math.floor(s % 86400 / 3600)}${NBSP}h`;
}

export function clock(iso) { return known(iso) ? new Date(iso).toLocaleTimeString("en-GB") : "—"; }

/* The word of a job: its result once it is done, held instead of pending. */
export function wordOf(job) {
  if (job.state === "done") return job.result ?? "done";
  return job.state === "pending" && job.held ? "held" : job.state;
}

/* A state is a shape, a word and a colour, always all three. */
const shapes = {
  pending: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z", held: "M5 3v10M11 3v10", starting: "M8 3v5l3 2M8 2a6 6 0 1 0 .1 0",
  running: "M4 3l9 5-9 5z", recovering: "M13 8a5 5 0 1 1-2-4M13 2v3h-3", stopping: "M4 4h8v8H4z",
  succeeded: "M3 8l3.5 4L13 4", failed: "M4 4l8 8M12 4l-8 8", cancelled: "M3 8h10", done: "M3 8l3.5 4L13 4",
};

export function shape(word) {
  return svg("svg", { viewBox: "0 0 16 16", class: "shape", "aria-hidden": "true" }, svg("path", { d: shapes[word] ?? shapes.pending }));
}
