/* SPDX-License-Identifier: Apache-2.0 */
/* machines.js - the page of machines: GPUs with load, memory and temperature, who uses them, health, links */
import { get } from "./api.js";
import { el, put, svg } from "./dom.js";
import { bytes, icon, known, number } from "./figures.js";
import { text } from "./texts.js";

const AGAIN_MS = 3000, CELL = 28, EDGE = 34;

function meter(value, most, words, label) {
  return el("span", { class: "mt" }, el("progress", { max: most, value: value ?? 0, "aria-label": label, class: label === text("load") ? "" : "rest" }), el("span", { class: "num" }, words));
}

/* ---- who uses a GPU ---- */

function usersOf(node, gpu) {
  const mine = (node.users ?? []).filter((u) => u.state === "holds" && Array.isArray(u.gpus) && u.gpus.some((g) => g.uuid === gpu.uuid || g.index === gpu.index));
  if (mine.length) return mine.map((u) => (u.mine && u.job ? el("a", { class: "link", href: `#/job/${encodeURIComponent(u.job)}` }, u.job) : el("span", {}, u.text || u.user)));
  const other = (gpu.processes ?? []).filter((p) => !p.jobctl);
  return other.length ? [el("span", {}, other.map((p) => text("byProcess", p.pid, p.name || "?")).join(", "))] : [el("span", { class: "dim" }, text("freeGpu"))];
}

/* What is wrong with a GPU, by the driver; null: nothing. */
function troubleOf(gpu) {
  if (gpu.healthy === false) return gpu.note || text("unhealthy");
  if (gpu.recovery && gpu.recovery !== "none") return text("recovery", gpu.recovery);
  if (gpu.remap?.failed || gpu.remap?.pending) return text("remap");
  return gpu.xids?.length ? text("xids", gpu.xids.join(", ")) : null;
}

function gpuRow(node, gpu) {
  const trouble = troubleOf(gpu), now = gpu.now ?? {}, used = now.memory_used_bytes ?? gpu.memory_used_bytes, all = gpu.memory_bytes;
  const warning = trouble ? el("li", { class: "out" }, el("span", {}, String(gpu.index)), el("span", { class: "say" }, icon("warn"), el("span", { class: "cut", title: trouble }, trouble))) : null;
  if (gpu.healthy === false) return [warning];
  return [warning, el("li", {}, el("span", {}, String(gpu.index)), meter(now.load, 100, known(now.load) ? `${now.load}\u00a0%` : "—", text("load")),
    meter(used, all || 1, known(used) ? `${bytes(used)}${all ? ` / ${bytes(all)}` : ""}` : "—", text("memory")), el("span", { class: "num temp" }, known(now.celsius) ? String(now.celsius) : "—"),
    el("span", { class: "who cut" }, ...usersOf(node, gpu)))].filter(Boolean);
}

/* ---- links: each pair of GPUs is a cell; arrows go from cell to cell ---- */

function linkOf(pair) {
  if (pair.nvlinks > 0) return ["nv", text(pair.through === "switch" ? "nvSwitch" : "nvDirect", pair.nvlinks)];
  return ["pcie", text(pair.path === "SYS" || pair.path === "NODE" ? "pcieFar" : "pcieNear", pair.path ?? "")];
}

function sayLink(a, b, pair) {
  const speed = known(pair.copy_gb_per_s) ? `, ${text("copies", number(pair.copy_gb_per_s))}` : "";
  return `GPU ${a} – GPU ${b}: ${linkOf(pair)[1]}${pair.p2p && pair.p2p !== "ok" ? `, ${pair.p2p}` : ""}${speed}`;
}

function matrix(pairs, saying) {
  const gpus = [...new Set(pairs.flatMap((p) => [p.a, p.b]))].sort((a, b) => a - b), at = new Map(pairs.flatMap((p) => [[`${p.a}-${p.b}`, p], [`${p.b}-${p.a}`, p]]));
  const size = EDGE + gpus.length * CELL, cells = [];
  const label = (x, y, words) => svg("text", { x, y }, words);
  const picture = svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "matrix", tabindex: "0", role: "img", "aria-label": text("links"), onkeydown: move });
  gpus.forEach((a, i) => {
    picture.append(label(EDGE + i * CELL + CELL / 2, EDGE / 2, String(a)), label(EDGE / 2, EDGE + i * CELL + CELL / 2, String(a)));
    gpus.forEach((b, j) => {
      const pair = at.get(`${a}-${b}`), words = a === b ? `GPU ${a}` : pair ? sayLink(a, b, pair) : "—";
      const cell = svg("rect", { x: EDGE + j * CELL, y: EDGE + i * CELL, width: CELL - 2, height: CELL - 2, rx: 3, class: `cell ${a === b ? "self" : pair ? linkOf(pair)[0] : ""}`, onpointerenter: () => put(saying, words) });
      cell.words = words;
      cells.push(cell);
      picture.append(cell);
      if (pair?.nvlinks) picture.append(svg("text", { x: EDGE + j * CELL + CELL / 2 - 1, y: EDGE + i * CELL + CELL / 2, class: "inv" }, String(pair.nvlinks)));
    });
  });
  picture.style.maxWidth = `${size * 1.5}px`;
  let here = 0;
  function move(e) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -gpus.length, ArrowDown: gpus.length }[e.key];
    if (!by) return;
    here = (here + by + cells.length) % cells.length;
    cells.forEach((c, i) => c.classList.toggle("at", i === here));
    put(saying, cells[here].words);
    e.preventDefault();
  }
  return picture;
}

function linkPanel(node) {
  const saying = el("p", { class: "saying", role: "status" }, text("linksHint"));
  return el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("linksOf", node.name))), el("div", { class: "body" }, matrix(node.pairs, saying), saying));
}

/* ---- a machine ---- */

function subOf(node) {
  const models = new Map();
  for (const g of (node.gpus ?? []).filter((one) => one.name)) models.set(g.name, (models.get(g.name) ?? 0) + 1);
  return [...[...models].map(([model, n]) => `${n} × ${model}`), node.drained ? text("drainedFor", node.drained) : null, node.error ? node.error : null,
    node.failures ? text("failures", node.failures) : null, node.last_seen ? text("seenAt", new Date(node.last_seen).toLocaleTimeString("en-GB")) : null].filter(Boolean);
}

function card(node) {
  const cpus = known(node.cpus) ? text("cpusFree", node.cpus_free, node.cpus) : node.job ? text("usedBy", node.job) : "";
  const gpus = node.gpus ?? [], head = el("li", { class: "cols", "aria-hidden": "true" }, ...["gpu", "load", "memory", "celsius", "usedByHead"].map((k) => el("span", {}, text(k))));
  const waiting = (node.users ?? []).filter((u) => u.state === "waits" || !Array.isArray(u.gpus) || !u.gpus.length);
  return el("section", { class: "panel node", "aria-label": node.name }, el("header", {}, el("h2", {}, node.name), el("span", { class: `state ${node.state}` }, icon(node.state), text(`node_${node.state}`)), el("span", { class: "hint" }, cpus)),
    el("div", { class: "sub" }, ...subOf(node).map((s) => el("span", {}, s))), gpus.length ? el("ol", { class: "gpus" }, head, ...gpus.flatMap((g) => gpuRow(node, g))) : null,
    waiting.length ? el("ul", { class: "small" }, ...waiting.map((u) => el("li", {}, u.text || `${u.user} ${u.state}`))) : null);
}

export function machinesPage(main, name, context) {
  const cards = el("div", { class: "nodes" }), links = el("div", { class: "nodes" }), count = el("span", { class: "hint" });
  let has = "", timer = 0, closed = false;
  main.replaceChildren(el("div", { class: "head" }, el("h1", {}, text("machines")), count), cards, links);
  document.title = `${text("machines")} · jobctl`;

  async function read() {
    const { nodes } = await get("/v1/nodes", { now: 1 });
    const now = JSON.stringify(nodes, (k, v) => (k === "last_seen" ? undefined : v));
    if (now !== has) {
      cards.replaceChildren(...nodes.map(card));
      links.replaceChildren(...nodes.filter((n) => n.pairs?.length).map(linkPanel));
    }
    has = now;
    const gpus = nodes.reduce((n, m) => n + (m.gpus?.length ?? 0), 0);
    put(count, `${text(nodes.length === 1 ? "machine1" : "machinesN", nodes.length)}, ${text(gpus === 1 ? "gpu1" : "gpusN", gpus)}`);
    main.setAttribute("data-ready", "1");
  }

  /* Loads change without events: asked for while somebody looks. */
  async function again() {
    if (!document.hidden && has) await context.read(read);
    if (!closed) timer = setTimeout(again, AGAIN_MS);
  }
  timer = setTimeout(again, AGAIN_MS);
  return { read, close: () => { closed = true; clearTimeout(timer); } };
}
