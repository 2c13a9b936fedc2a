/* SPDX-License-Identifier: Apache-2.0 */
/* logs.js - the output of the ranks of a job: fetched from its end, followed, searched, coloured by rank */
import { get } from "./api.js";
import { el } from "./dom.js";
import { text } from "./texts.js";

const FIRST = 65536, FIRST_OF_MANY = 8192, LIMIT = 65536, LINES = 5000, RANKS = 64, TURNS = 16;

/* What one types: words, or /a regular expression/. */
function matcher(words) {
  const regex = /^\/(.+)\/$/.exec(words);
  if (!regex) return words ? (line) => { const at = line.toLowerCase().indexOf(words.toLowerCase()); return at < 0 ? null : [at, words.length]; } : null;
  try {
    const pattern = new RegExp(regex[1], "i");
    return (line) => { const m = pattern.exec(line); return m && m[0].length ? [m.index, m[0].length] : null; };
  } catch { return () => null; }
}

function lookOf(line) {
  if (/\b(error|exception|traceback|fatal|killed|out of memory)\b|Error:/i.test(line)) return "err";
  return /\b(warn(ing)?)\b/i.test(line) ? "wrn" : "";
}

export function logPanel(path) {
  const list = el("ol", { class: "log", tabindex: "0", "aria-label": text("logs") });
  const rank = el("select", { "aria-label": text("rank"), onchange: begin });
  const follow = el("input", { type: "checkbox", checked: true, onchange: toEnd });
  const find = el("input", { type: "search", placeholder: text("logHint"), "aria-label": text("logHint"), oninput: search });
  const found = el("span", { class: "hint", role: "status" });
  const node = el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("logs")), el("label", {}, text("rank"), " ", rank),
    el("span", { class: "end" }, found, find, el("label", {}, follow, " ", text("follow")))), list);
  let parts = [], attempt = 0, turn = 0, ranks = 0, match = null, busy = false;

  function begin() {
    parts = (rank.value === "all" ? [...Array(Math.min(ranks, RANKS)).keys()] : [Number(rank.value)])
      .map((r, _, all) => ({ rank: r, offset: -(all.length > 1 ? FIRST_OF_MANY : FIRST), rest: "", open: null }));
    attempt = 0;
    turn++;
    list.replaceChildren();
    refresh();
  }

  function toEnd() { if (follow.checked) list.scrollTop = list.scrollHeight; }

  function fillLine(row, line) {
    const hit = match?.(line);
    row.hidden = Boolean(match) && !hit;
    row.lastChild.replaceChildren(...(hit ? [line.slice(0, hit[0]), el("mark", {}, line.slice(hit[0], hit[0] + hit[1])), line.slice(hit[0] + hit[1])] : [line]));
  }

  function lineOf(part, line) {
    const row = el("li", { class: `${lookOf(line)} r${part.rank % 6}` }, el("span", { class: "rk" }, String(part.rank)), el("span", { class: "line" }));
    row.line = line;
    fillLine(row, line);
    return row;
  }

  /* The last line may still grow. */
  function append(part, data) {
    const lines = (part.rest + data).split("\n");
    const made = [];
    if (part.open) part.open.remove();
    part.open = null;
    part.rest = lines.pop();
    for (const line of lines) made.push(lineOf(part, line.slice(line.lastIndexOf("\r", line.length - 2) + 1)));
    if (part.rest) made.push(part.open = lineOf(part, part.rest));
    list.append(...made);
    for (let over = list.childElementCount - LINES; over > 0; over--) list.firstElementChild.remove();
    toEnd();
  }

  function search() {
    match = matcher(find.value.trim());
    let n = 0;
    for (const row of list.children) { fillLine(row, row.line); n += !row.hidden; }
    found.textContent = match ? text("linesFound", n) : "";
    toEnd();
  }

  async function read(part, mine) {
    for (let i = 0; i < TURNS; i++) {
      const answer = await get(`${path}/logs`, { rank: part.rank, offset: part.offset, limit: LIMIT });
      if (mine !== turn) return false;
      if (attempt && answer.attempt !== attempt) { begin(); return false; }
      attempt = answer.attempt;
      part.offset = answer.next_offset;
      if (!answer.data) return true;
      append(part, answer.data);
    }
    return true;
  }

  async function refresh() {
    if (busy && turn === busy) return;
    const mine = busy = turn;
    try {
      for (const part of parts) if (!(await read(part, mine))) break;
    } finally {
      if (busy === mine) busy = false;
    }
  }

  /* As many as the newest generation has; one alone is shown as such. */
  function setRanks(n) {
    if (n === ranks || !n) return;
    const was = ranks ? rank.value : "all";
    ranks = n;
    rank.replaceChildren(...(n > 1 ? [el("option", { value: "all" }, text("allRanks"))] : []), ...[...Array(n).keys()].map((r) => el("option", { value: String(r) }, String(r))));
    rank.value = was === "all" && n === 1 ? "0" : was;
    if (rank.selectedIndex < 0) rank.selectedIndex = 0;
    begin();
  }

  return { node, refresh, setRanks };
}
