/* SPDX-License-Identifier: Apache-2.0 */
/* figures.js - numbers and states as people read them. "—" is a number that is not known */
import { svg } from "./dom.js";

const NBSP = "\u00a0";

export function known(value) { return value !== null && value !== undefined; }

export function number(value, digits = 3) {
  if (!known(value)) return "—";
  return value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e9)
    ? value.toExponential(2) : Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });
}

export function percent(share, digits = 1) { return known(share) ? `${(Math.floor(share * 1000) / 10).toFixed(digits)}${NBSP}%` : "—"; }

export function bytes(n) {
  if (!known(n)) return "—";
  let unit = 0;
  for (; n >= 1024 && unit < 4; unit++) n /= 1024;
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(1)}${NBSP}${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

/* "60.0 / 80.0 GiB": both in the unit of the second one. */
export function bytesOf(used, all) {
  let unit = 0, by = 1;
  for (; all / by >= 1024 && unit < 4; unit++) by *= 1024;
  return `${used ? (used / by).toFixed(1) : "0"} / ${bytes(all)}`;
}

export function duration(seconds) {
  if (!known(seconds)) return "—";
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${seconds < 10 ? Number(seconds.toFixed(1)) : s}${NBSP}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${NBSP}${two(s % 60)}s`;
  if (s < 172800) return `${Math.floor(s / 3600)}h${NBSP}${two(Math.floor(s % 3600 / 60))}m`;
  return `${Math.floor(s / 86400)}d${NBSP}${Math.floor(s % 86400 / 3600)}h`;
}

export function clock(iso) { return known(iso) ? new Date(iso).toLocaleTimeString("en-GB") : "—"; }

/* The word of a job: its result once it is done, held instead of pending. */
export function wordOf(job) {
  if (job.state === "done") return job.result ?? "done";
  return job.state === "pending" && job.held ? "held" : job.state;
}

/* ---- shapes: paths in a box of 16, strokes unless `fill` ---- */

const CIRCLE = "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 1 0 8 1.8z", DIAMOND = "M8 2l6 6-6 6-6-6z";
const DOT = "M8 1.4a6.6 6.6 0 1 0 0 13.2A6.6 6.6 0 1 0 8 1.4z";
const shapes = {
  pending: [[CIRCLE, "dashed"]], held: [[CIRCLE], ["M6.2 5.6v4.8M9.8 5.6v4.8"]], starting: [[CIRCLE, "faint"], ["M8 2a6 6 0 0 1 6 6"]],
  running: [[DOT, "fill"], ["M6.4 5.2v5.6L11 8z", "hole"]], recovering: [["M13.2 6.2A5.6 5.6 0 1 0 13.4 10"], ["M13.8 2.8v3.6h-3.6"]],
  stopping: [["M2.2 4.7a2.5 2.5 0 0 1 2.5-2.5h6.6a2.5 2.5 0 0 1 2.5 2.5v6.6a2.5 2.5 0 0 1-2.5 2.5H4.7a2.5 2.5 0 0 1-2.5-2.5z"], ["M6 6h4v4H6z", "fill"]],
  succeeded: [[CIRCLE], ["M5.2 8.2l2 2 3.6-4"]], done: [[CIRCLE], ["M5.2 8.2l2 2 3.6-4"]], up: [[CIRCLE], ["M5.2 8.2l2 2 3.6-4"]],
  failed: [["M5.3 1.8h5.4l3.5 3.5v5.4l-3.5 3.5H5.3l-3.5-3.5V5.3z"], ["M5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2"]],
  cancelled: [[CIRCLE], ["M3.8 12.2l8.4-8.4"]], drained: [[CIRCLE], ["M6.2 5.6v4.8M9.8 5.6v4.8"]],
  warn: [["M8 2.2L14.6 13.6H1.4z"], ["M8 6.6v3.2M8 11.7v.1"]], hang: [["M4 2h8M4 14h8M5 2c0 4 6 8 6 12M11 2c0 4-6 8-6 12"]],
  slow: [["M3 13V9M8 13V3M13 13v-3"]], diamond: [[DIAMOND]], written: [[DIAMOND]], removed: [[DIAMOND, "dashed"]],
  quarantined: [[DIAMOND], ["M6.2 6.2l3.6 3.6M9.8 6.2L6.2 9.8"]], proven: [["M8 1.4L14.6 8 8 14.6 1.4 8z", "fill"], ["M5.6 8.1l1.7 1.7 3.1-3.4", "line hole"]],
  chev: [["M6 3.5L10.5 8 6 12.5"]], find: [["M7 2.6a4.4 4.4 0 1 0 0 8.8A4.4 4.4 0 1 0 7 2.6z"], ["M10.4 10.4L14 14"]], dot: [[DOT, "fill"]],
  theme: [[CIRCLE], ["M8 2a6 6 0 0 1 0 12z", "fill"]], logo: [["M1.5 11.5L5 6l3 4 2.5-4"], ["M10.5 6v7.5M14.5 2.5v11"]],
  picture: [["M2 4.5A1.5 1.5 0 0 1 3.5 3h9A1.5 1.5 0 0 1 14 4.5v7a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 2 11.5z"], ["M3 11.5l3.5-3.5 2.5 2.5 2-2 3 3"]],
};
const words = { free: "up", busy: "running", new: "pending", failing: "failed", lost: "failed", placed: "pending", joined: "up" };

export function icon(word, look = "i") {
  const parts = shapes[word] ?? shapes[words[word]] ?? shapes.pending;
  return svg("svg", { viewBox: "0 0 16 16", class: look, "aria-hidden": "true" }, ...parts.map(([d, kind]) => svg("path", { d, class: kind })));
}

/* A state is a shape, a word and a colour, always all three. */
export function shape(word) { return icon(word, "shape"); }
