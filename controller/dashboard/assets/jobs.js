/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.js - the page of all jobs: bands by state, sweeps folded, only the rows that are seen are made */
import { act, possible } from "./actions.js";
import { get, recall, remember } from "./api.js";
import { el, put } from "./dom.js";
import { icon, wordOf } from "./figures.js";
import { bandOf, forget, makeBand, makeRow, order, putRow } from "./row.js";
import { text } from "./texts.js";
import { virtualList } from "./virtual.js";

const FIRST = 200, PART = 1000, MOST = 50000;
const WORDS = ["all", "running", "recovering", "starting", "stopping", "pending", "held", "succeeded", "failed", "cancelled"];
const BANDS = ["attention", "activeJobs", "waiting", "finished"];

/* When this browser saw the list last: what failed since needs attention. */
function lastSeen() {
  const seen = Number(recall("jobctl.seen")) || 0;
  addEventListener("pagehide", () => remember("jobctl.seen", String(Date.now())), { once: true });
  return seen;
}

function haystack(job) {
  if (job.find === undefined || job.findOf !== job.reason) {
    job.find = `${job.id} ${job.name} ${job.reason ?? ""} ${JSON.stringify(job.point ?? "")}`.toLowerCase();
    job.findOf = job.reason;
  }
  return job.find;
}

export function jobsPage(main, context) {
  const jobs = new Map(), picked = new Set(), open = new Set(), seen = lastSeen();
  const view = { word: "all", search: "" };
  let changed = true, current = null, whole = false, reading = null;

  /* ---- the parts of the page ---- */
  const find = el("input", { type: "search", placeholder: text("searchHint"), "aria-label": text("search"), oninput: search });
  const facets = new Map(WORDS.map((word) => {
    const count = el("b", {});
    const button = el("button", { type: "button", class: "facet", onclick: () => { view.word = word; layout(); } },
      word === "all" ? null : icon(word), text(word), " ", count);
    return [word, { count, button }];
  }));
  const column = (key, look = "") => el("span", { role: "columnheader", class: look }, text(key));
  const head = el("div", { class: "row cols", role: "row", "aria-rowindex": "1" },
    el("span", { role: "columnheader" }, el("span", { class: "sr" }, text("select"))), column("state"), column("job"), column("progress"), column("loss"),
    ...["speed", "goodput", "left"].map((key) => column(key, `num ${key}`)), column("place", "place"));
  const body = el("div", { role: "rowgroup", class: "rows" });
  const table = el("div", { class: "panel jobs", role: "table", "aria-label": text("jobs") }, el("div", { role: "rowgroup" }, head), body);
  const empty = el("div", { class: "empty", hidden: true });
  const bar = el("div", { class: "pick", role: "status", hidden: true });
  const hint = el("p", { class: "hint keys" }, text("keys"));
  main.replaceChildren(
    el("div", { class: "head" }, el("h1", {}, text("jobs")), el("div", { class: "facets", role: "group", "aria-label": text("filter") },
      ...[...facets.values()].map((f) => f.button)), el("label", { class: "find" }, icon("find"), find, el("kbd", {}, "/"))),
    table, empty, hint, bar);
  document.title = `${text("jobs")} · jobctl`;

  const actions = {
    pick(id, on) { on ? picked.add(id) : picked.delete(id); list.repaint(); paintBar(); },
    picked: (id) => picked.has(id),
    unfold,
    isOpen: (id) => open.has(id),
  };
  const list = virtualList(body, {
    make: (item) => (item.band ? makeBand(item) : makeRow(item.job.id, actions)),
    fill: (row, item) => { if (!item.band) putRow(row, item.job, actions); },
    key: (item) => (item.band ? `band ${item.band} ${item.count}` : item.job.id),
    row: () => parseFloat(getComputedStyle(table).getPropertyValue("--row")) * 16,
  });

  /* ---- which rows ---- */

  function shown(job) {
    if (job.sweep && !open.has(job.sweep) && !view.search) return false;
    if (job.sweep && !view.search && !jobs.has(job.sweep)) return false;
    return (view.word === "all" || wordOf(job) === view.word) && haystack(job).includes(view.search);
  }

  function layout() {
    const bands = new Map(BANDS.map((b) => [b, []]));
    const members = new Map();
    for (const job of jobs.values()) {
      if (!shown(job)) continue;
      if (job.sweep && open.has(job.sweep)) members.set(job.sweep, [...(members.get(job.sweep) ?? []), job]);
      else bands.get(bandOf(job, seen)).push(job);
    }
    const items = [];
    for (const [band, found] of bands) {
      if (!found.length) continue;
      items.push({ band, count: found.length });
      for (const job of found.sort((a, b) => order(a, b, band))) {
        items.push({ job });
        for (const member of (members.get(job.id) ?? []).sort((a, b) => a.index - b.index)) items.push({ job: member });
      }
    }
    list.show(items);
    table.setAttribute("aria-rowcount", String(items.length + 1));
    paintFacets();
    paintEmpty(items.length === 0);
    paintBar();
  }

  function paintFacets() {
    const counts = Object.fromEntries(WORDS.map((w) => [w, 0]));
    for (const job of jobs.values()) if (!job.sweep) { counts.all++; counts[wordOf(job)]++; }
    for (const [word, f] of facets) {
      put(f.count, counts[word].toLocaleString("en"));
      f.button.setAttribute("aria-pressed", String(view.word === word));
      f.button.hidden = counts[word] === 0 && word !== "all" && view.word !== word;
    }
  }

  function paintEmpty(none) {
    table.hidden = none;
    hint.hidden = none;
    empty.hidden = !none || !whole;
    if (!none || empty.dataset.has === String(jobs.size > 0)) return;
    empty.dataset.has = String(jobs.size > 0);
    empty.replaceChildren(...(jobs.size ? [el("p", {}, text("noMatch"))] : [el("h2", {}, text("none")), el("p", {}, text("noneHint")),
      el("pre", { class: "code" }, "jobctl run -- python train.py\njobctl submit job.yaml")]));
  }

  function search() {
    view.search = find.value.trim().toLowerCase();
    layout();
  }

  /* ---- what the daemon says ---- */

  function put1(job) {
    const was = jobs.get(job.id);
    jobs.set(job.id, job);
    if (!was || wordOf(was) !== wordOf(job) || was.name !== job.name) changed = true;
  }

  async function read() {
    reading?.abort();
    const mine = reading = new AbortController();
    const ask = (query) => get("/v1/jobs", query, mine.signal);
    const [active, newest] = await Promise.all([ask({ limit: PART }), ask({ all: 1, limit: FIRST })]);
    const keep = [...jobs.values()].filter((j) => j.sweep);
    jobs.clear();
    for (const job of [...keep, ...newest.jobs, ...active.jobs]) put1(job);
    for (const job of await sweepsOf(active.jobs, mine.signal)) put1(job);
    changed = false;
    whole = newest.jobs.length < FIRST;
    layout();
    main.setAttribute("data-ready", "1");
    let before = newest.jobs.at(-1)?.id;
    while (!whole && jobs.size < MOST) {
      const more = (await ask({ all: 1, limit: PART, before })).jobs;
      for (const job of more) if (!jobs.has(job.id)) put1(job);
      whole = more.length < PART;
      before = more.at(-1)?.id;
      layout();
    }
    whole = true;
    main.setAttribute("data-ready", "2");
  }

  /* Sweeps of which members are shown: they may be older than what was read. */
  async function sweepsOf(found, signal) {
    const missing = [...open].filter((id) => !found.some((j) => j.id === id));
    return missing.length ? (await get("/v1/jobs", { ids: missing.join(",") }, signal)).jobs : [];
  }

  function take(kind, data) {
    if (kind === "job") put1(data);
    else if (kind === "gone") { jobs.delete(data.id); picked.delete(data.id); forget(data.id); changed = true; }
    else if (kind === "reset") context.read(read);
  }

  function painted() {
    if (changed) layout();
    else list.repaint((item) => !item.band && jobs.get(item.job.id) !== item.job && (item.job = jobs.get(item.job.id)));
    changed = false;
  }

  async function unfold(id) {
    if (open.delete(id)) { layout(); return; }
    open.add(id);
    await context.read(async () => {
      for (const job of (await get("/v1/jobs", { sweep: id, limit: 10000 })).jobs) jobs.set(job.id, job);
    });
    layout();
  }

  /* ---- actions ---- */

  function paintBar() {
    const chosen = [...picked].map((id) => jobs.get(id)).filter(Boolean);
    const can = chosen.length ? possible(chosen[0]).filter((a) => chosen.every((j) => possible(j).includes(a))) : [];
    const wanted = `${[...picked]} ${can}`;
    bar.hidden = chosen.length === 0;
    if (bar.dataset.has === wanted) return;
    bar.dataset.has = wanted;
    bar.replaceChildren(el("b", {}, text("selected", chosen.length)),
      ...(chosen.length === 2 ? [el("a", { class: "btn", href: `#/compare/${chosen.map((j) => j.id).join(",")}` }, text("compare"))] : []),
      ...can.map((a) => el("button", { type: "button", class: a === "cancel" ? "btn stop" : "btn", onclick: () => run(a) }, text(a))));
  }

  async function run(action) {
    const refused = await act(action, [...picked].map((id) => jobs.get(id)).filter(Boolean));
    if (refused === null) return;
    context.say(refused);
    picked.clear();
    list.repaint();
    paintBar();
  }

  /* ---- keys ---- */

  function move(by) {
    const items = list.items();
    const here = document.activeElement.closest?.(".row.job");
    if (here) current = Number(here.dataset.id);
    let at = items.findIndex((i) => i.job?.id === current);
    at = at < 0 ? items.findIndex((i) => i.job) : at + by;
    while (items[at]?.band) at += by > 0 ? 1 : -1;
    if (!items[at]) return;
    current = items[at].job.id;
    list.reveal(at)?.querySelector("a.name")?.focus({ preventScroll: true });
  }

  function key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    if (e.target.matches?.("input[type=search]")) { if (e.key === "Escape") find.blur(); return; }
    const row = document.activeElement.closest?.(".row.job");
    if (e.key === "j" || e.key === "ArrowDown") move(1);
    else if (e.key === "k" || e.key === "ArrowUp") move(-1);
    else if (e.key === "/") find.focus();
    else if (e.key === "x" && row) row.querySelector("input")?.click();
    else return;
    e.preventDefault();
  }

  return { live: "/v1/live", take, painted, key, close: () => { reading?.abort(); list.close(); } };
}
