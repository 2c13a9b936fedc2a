/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.js - the page of all jobs: those that live, and the newest that are done */
import { act, possible } from "./actions.js";
import { get } from "./api.js";
import { el, put, putAttribute } from "./dom.js";
import { duration, known, number, percent, shape, wordOf } from "./figures.js";
import { text } from "./texts.js";

const PAGE = 200, ACTIVE = 1000;
const WORDS = ["all", "active", "running", "recovering", "starting", "stopping", "pending", "held", "succeeded", "failed", "cancelled"];

/* ---- one row ---- */

function makeRow(id, page) {
  const cells = Object.fromEntries(["state", "name", "why", "progress", "loss", "speed", "goodput", "left"].map((k) => [k, el("span", {})]));
  const meter = el("progress", { max: "1", value: "0", "aria-label": text("progress") });
  const box = el("input", { type: "checkbox", "aria-label": `${text("select")} ${id}`, onchange: () => page.pick(id, box.checked) });
  const link = el("a", { class: "name", href: `#/job/${id}` }, cells.name);
  cells.why.className = "why cut";
  const cell = (name, ...children) => el("div", { class: `cell ${name}`, role: "cell" }, ...children);
  const node = el("div", { class: "row job", role: "row", "data-id": id }, cell("pickbox", box), cell("state", cells.state),
    cell("what", link, cells.why), cell("progress", cells.progress, meter), cell("num loss", cells.loss), cell("num speed", cells.speed),
    cell("num goodput", cells.goodput), cell("num left", cells.left));
  return { node, cells, meter, box, link, word: null };
}

function putState(row, word) {
  if (row.word === word) return;
  row.word = word;
  row.cells.state.className = `state ${word}`;
  row.cells.state.replaceChildren(shape(word), text(word));
}

function putRow(row, job) {
  const c = row.cells, ended = job.state === "done";
  putState(row, wordOf(job));
  put(c.name, `${job.id} ${job.name}`);
  put(c.why, job.reason ?? "");
  putAttribute(c.why, "title", job.reason ?? "");
  put(c.progress, known(job.step) && job.steps ? `${number(job.step, 12)} / ${number(job.steps, 12)}` : known(job.step) ? number(job.step, 12) : "");
  row.meter.hidden = !job.steps;
  row.meter.value = job.steps ? Math.min(1, (job.step ?? 0) / job.steps) : 0;
  put(c.loss, known(job.loss) ? number(job.loss) : "");
  put(c.speed, known(job.samples_per_s) ? `${number(job.samples_per_s)}\u00a0/s` : "");
  put(c.goodput, known(job.goodput) ? percent(job.goodput) : "");
  put(c.left, ended && job.started_at ? duration((Date.parse(job.ended_at) - Date.parse(job.started_at)) / 1000)
    : job.state === "running" ? duration(job.eta_s) : "");
}

/* ---- which rows ---- */

const rank = { recovering: 0, stopping: 1, running: 2, starting: 3, pending: 4, held: 4, failed: 5 };
const isActive = (job) => job.state !== "done";

function order(a, b) {
  const active = isActive(b) - isActive(a);
  if (active || !isActive(a)) return active || b.id - a.id;
  return (rank[wordOf(a)] - rank[wordOf(b)]) || a.id - b.id;
}

function matches(job, view) {
  const word = wordOf(job);
  if (view.word === "active" ? !isActive(job) : view.word !== "all" && view.word !== word) return false;
  return `${job.id} ${job.name} ${job.reason ?? ""}`.toLowerCase().includes(view.search);
}

/* ---- the page ---- */

export function jobsPage(main, context) {
  const jobs = new Map(), rows = new Map(), picked = new Set();
  const view = { word: "all", search: "" };
  let oldest = null, whole = false;

  const body = el("div", { role: "rowgroup" });
  const find = el("input", { type: "search", placeholder: text("searchHint"), "aria-label": text("search"),
    oninput: () => { view.search = find.value.trim().toLowerCase(); paint(); } });
  const facets = new Map(WORDS.map((word) => {
    const count = el("b", {});
    return [word, { count, button: el("button", { type: "button", class: "facet", onclick: () => { view.word = word; paint(); } }, text(word), " ", count) }];
  }));
  const column = (key, look) => el("span", { role: "columnheader", class: look }, text(key));
  const head = [el("span", { role: "columnheader" }, el("span", { class: "sr" }, text("select"))), column("state"), column("job"), column("progress"),
    ...["loss", "speed", "goodput", "left"].map((key) => column(key, `num ${key}`))];
  const more = el("button", { type: "button", class: "btn", onclick: older }, text("more"));
  const empty = el("p", { class: "empty", hidden: true });
  const bar = el("div", { class: "pick", role: "status", hidden: true });
  const table = el("section", { class: "panel jobs", role: "table", "aria-label": text("jobs") }, el("div", { class: "row cols", role: "row" }, ...head), body);
  main.replaceChildren(
    el("div", { class: "head" }, el("h1", {}, text("jobs")), el("div", { class: "facets", role: "group", "aria-label": text("filter") }, ...[...facets.values()].map((f) => f.button)), find),
    table, empty, el("p", { class: "foot" }, more, el("span", { class: "hint" }, text("keys"))), bar);
  document.title = `${text("jobs")} · jobctl`;

  const page = {
    pick(id, on) { on ? picked.add(id) : picked.delete(id); paintBar(); },
    refresh, key,
  };

  function take(list) { for (const job of list) jobs.set(job.id, job); }

  /* Those that live, and the newest of all: a job that ended since is in one of the two, or asked for by its id. */
  async function refresh() {
    const [active, newest] = await Promise.all([get("/v1/jobs", { limit: ACTIVE }), get("/v1/jobs", { all: 1, limit: PAGE })]);
    const seen = new Set([...active.jobs, ...newest.jobs].map((j) => j.id));
    const gone = [...jobs.values()].filter((j) => isActive(j) && !seen.has(j.id)).map((j) => j.id).slice(0, 50);
    take(newest.jobs);
    take(active.jobs);
    if (gone.length) {
      for (const id of gone) jobs.delete(id);
      take((await get("/v1/jobs", { ids: gone.join(",") })).jobs);
    }
    if (oldest === null) whole = newest.jobs.length < PAGE;
    oldest = Math.min(oldest ?? Infinity, newest.jobs.at(-1)?.id ?? Infinity);
    paint();
  }

  async function older() {
    try {
      const { jobs: list } = await get("/v1/jobs", { all: 1, limit: PAGE, before: oldest });
      take(list);
      whole = list.length < PAGE;
      oldest = list.at(-1)?.id ?? oldest;
      paint();
    } catch (e) { context.say(e.message); }
  }

  function paintFacets() {
    const counts = Object.fromEntries(WORDS.map((w) => [w, 0]));
    for (const job of jobs.values()) {
      counts.all++;
      counts.active += isActive(job);
      counts[wordOf(job)]++;
    }
    for (const [word, f] of facets) {
      put(f.count, String(counts[word]));
      putAttribute(f.button, "aria-pressed", String(view.word === word));
      f.button.hidden = counts[word] === 0 && word !== "all" && view.word !== word;
    }
  }

  /* Rows are moved only if their order changed, so that the focus stays. */
  function paintRows(list) {
    let at = body.firstElementChild;
    for (const job of list) {
      let row = rows.get(job.id);
      if (!row) rows.set(job.id, (row = makeRow(job.id, page)));
      putRow(row, job);
      if (row.node === at) at = at.nextElementSibling;
      else body.insertBefore(row.node, at);
    }
    while (at) {
      const next = at.nextElementSibling;
      at.remove();
      at = next;
    }
  }

  function paint() {
    const list = [...jobs.values()].filter((job) => matches(job, view)).sort(order);
    for (const id of rows.keys()) if (!jobs.has(id)) { rows.delete(id); picked.delete(id); }
    paintFacets();
    paintRows(list);
    putAttribute(table, "aria-rowcount", String(list.length + 1));
    table.hidden = list.length === 0;
    empty.hidden = list.length > 0;
    put(empty, jobs.size ? text("noMatch") : `${text("none")}. ${text("noneHint")}`);
    more.hidden = whole;
    paintBar();
  }

  function paintBar() {
    const chosen = [...picked].map((id) => jobs.get(id)).filter(Boolean);
    const actions = chosen.length ? possible(chosen[0]).filter((a) => chosen.every((j) => possible(j).includes(a))) : [];
    const wanted = `${chosen.length} ${actions}`;
    bar.hidden = chosen.length === 0;
    if (bar.dataset.has === wanted) return;
    bar.dataset.has = wanted;
    bar.replaceChildren(el("b", {}, text("selected", chosen.length)), ...actions.map((a) =>
      el("button", { type: "button", class: a === "cancel" ? "btn stop" : "btn", onclick: () => run(a) }, text(a))));
  }

  async function run(action) {
    const refused = await act(action, [...picked].map((id) => jobs.get(id)).filter(Boolean));
    if (refused === null) return;
    context.say(refused);
    for (const id of picked) { const row = rows.get(id); if (row) row.box.checked = false; }
    picked.clear();
    paintBar();
    context.refresh();
  }

  function move(by) {
    const links = [...body.querySelectorAll("a.name")];
    const at = links.findIndex((a) => a.closest(".row").contains(document.activeElement));
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
  }

  function key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    if (e.target.matches?.("input[type=search]")) { if (e.key === "Escape") find.blur(); return; }
    const row = document.activeElement.closest?.(".row.job");
    if (e.key === "j" || e.key === "ArrowDown") move(1);
    else if (e.key === "k" || e.key === "ArrowUp") move(-1);
    else if (e.key === "/") find.focus();
    else if (e.key === "x" && row) rows.get(Number(row.dataset.id)).box.click();
    else return;
    e.preventDefault();
  }

  return page;
}
