/* SPDX-License-Identifier: Apache-2.0 */
/* machines.js - the page of machines: GPUs with load, memory and temperature, who uses them, health, links */
import { get } from "./api.js";
import { el, put, svg } from "./dom.js";
import { bytes, bytesOf, icon, known, number } from "./figures.js";
import { text } from "./texts.js";

const AGAIN_MS = 3000, CELL = 28, EDGE = 34;

function meter(value, most, words, label) {
  return el("span", { class: "mt" }, el("progress", { max: most, value: value ?? 0, "aria-label": label, class: label === text("load") ? "" : "rest" }), el("span", { class: "num" }, words));
}

/* ---- who uses a GPU ---- */

function usersOf(node, gpu) {
  if (gpu.job) return [el("a", { class: "link", href: `#/job/${gpu.job}`, title: gpu.job_name }, text("jobN", gpu.job), ` ${gpu.job_name}`)];
  const mine = (node.users ?? []).filter((u) => u.state === "holds" && Array.isArray(u.gpus) && u.gpus.some((g) => g.uuid === gpu.uuid || g.index === gpu.index));
  if (mine.length) return mine.map((u) => (u.mine && u.job ? el("a", { class: "link", href: `#/job/${encodeURIComponent(u.job)}` }, u.job) : el("span", {}, u.text || u.user)));
  const others = gpu.now?.processes ?? gpu.processes ?? [], say = (p) => text(p.jobctl ? "byRank" : "byProcess", p.pid, p.name || "?");
  return others.length ? [el("span", { title: others.map(say).join("\n") }, others.map(say).join(", "))] : [el("span", { class: "dim" }, text("freeGpu"))];
}

/* What is wrong with a GPU, by the driver; null: nothing. */
function troubleOf(gpu) {
  if (gpu.now?.lost) return text("gpuLost");
  if (gpu.healthy === false) return gpu.note || text("unhealthy");
  if (gpu.recovery && gpu.recovery !== "none") return text("recovery", gpu.recovery);
  if (gpu.remap?.failed || gpu.remap?.pending) return text("remap");
  return gpu.xids?.length ? text("xids", gpu.xids.join(", ")) : null;
}

function gpuRow(node, gpu) {
  const trouble = troubleOf(gpu), now = gpu.now ?? {}, used = now.memory_used_bytes ?? gpu.memory_used_bytes, all = gpu.memory_bytes;
  const warning = trouble ? el("li", { class: "out" }, el("span", {}, String(gpu.index)), el("span", { class: "say" }, icon("warn"), el("span", { class: "cut", title: trouble }, trouble))) : null;
  if (gpu.healthy === false || now.lost) return [warning];
  return [warning, el("li", {}, el("span", {}, String(gpu.index)), meter(now.load, 100, known(now.load) ? `${now.load}\u00a0%` : "—", text("load")),
    meter(used, all || 1, known(used) ? (all ? bytesOf(used, all) : bytes(used)) : "—", text("memory")), el("span", { class: "num temp", title: known(now.watts) ? text("watts", number(now.watts)) : null }, known(now.celsius) ? String(now.celsius) : "—"),
    el("span", { class: "who cut" }, ...usersOf(node, gpu)))].filter(Boolean);
}

/* ---- links: each pair of GPUs is a cell, framed where NCCL uses it; arrows go from cell to cell ---- */

function linkOf(pair) {
  if (pair.nvlinks > 0) return ["nv", text(pair.through === "switch" ? "nvSwitch" : "nvDirect", pair.nvlinks)];
  if (pair.path === "SYS" || pair.path === "NODE") return ["host", text("pcieFar", pair.path)];
  return ["pcie", text("pcieNear", pair.path ?? "")];
}

function sayLink(a, b, pair, taken) {
  const speed = known(pair.copy_gb_per_s) ? `, ${text("copies", number(pair.copy_gb_per_s))}` : "";
  const nccl = taken.map((t) => `. ${text("ncclTook", t.words, t.job)}`).join("");
  return `GPU ${a} – GPU ${b}: ${linkOf(pair)[1]}${pair.p2p && pair.p2p !== "ok" ? `, ${pair.p2p}` : ""}${speed}${nccl}`;
}

/* Both orders of each pair lead to the list of what was found for it. */
function byPair(rows) {
  const found = new Map();
  for (const r of rows) for (const key of [`${r.a}-${r.b}`, `${r.b}-${r.a}`]) found.set(key, [...(found.get(key) ?? []), r]);
  return found;
}

function drawCell(picture, a, b, x, y, pair, taken) {
  const look = a === b ? "self" : pair ? linkOf(pair)[0] : "", box = (edge, kind) => svg("rect", { x: x + edge, y: y + edge, width: CELL - 2 - 2 * edge, height: CELL - 2 - 2 * edge, rx: 3, class: kind });
  const cell = box(0, `cell ${look}`);
  picture.append(cell);
  if (pair?.nvlinks) picture.append(svg("text", { x: x + CELL / 2 - 1, y: y + CELL / 2, class: "inv" }, String(pair.nvlinks)));
  if (taken.length) picture.append(box(2, `took ${taken[0].way}`));
  return cell;
}

function matrix(pairs, taken, saying) {
  const gpus = [...new Set(pairs.flatMap((p) => [p.a, p.b]))].sort((a, b) => a - b), at = byPair(pairs), took = byPair(taken);
  const size = EDGE + gpus.length * CELL, cells = [];
  const label = (x, y, words) => svg("text", { x, y }, words);
  const picture = svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "matrix", tabindex: "0", role: "img", "aria-label": text("links"), onkeydown: move });
  gpus.forEach((a, i) => {
    picture.append(label(EDGE + i * CELL + CELL / 2, EDGE / 2, String(a)), label(EDGE / 2, EDGE + i * CELL + CELL / 2, String(a)));
    gpus.forEach((b, j) => {
      const pair = at.get(`${a}-${b}`)?.[0], used = took.get(`${a}-${b}`) ?? [], cell = drawCell(picture, a, b, EDGE + j * CELL, EDGE + i * CELL, pair, used);
      cell.words = a === b ? `GPU ${a}` : pair ? sayLink(a, b, pair, used) : "—";
      cell.addEventListener("pointerenter", () => put(saying, cell.words));
      cells.push(cell);
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

function legend(pairs, taken) {
  const kinds = [...new Set(pairs.map((p) => linkOf(p)[0]))], ways = [...new Set(taken.map((t) => t.way))];
  const key = (kind, words, look = "cell") => el("li", {}, svg("svg", { viewBox: "0 0 14 14", class: "key", "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 12, height: 12, rx: 2, class: `${look} ${kind}` })), words);
  return el("ul", { class: "legend" }, ...["nv", "pcie", "host"].filter((k) => kinds.includes(k)).map((k) => key(k, text(`link_${k}`))),
    ...["p2p", "shm", "net"].filter((w) => ways.includes(w)).map((w) => key(w, text(`took_${w}`), "took")));
}

/* reports: [{job, text, expected, pairs}], what NCCL told of the jobs that run here */
function linkPanel(node, reports) {
  const saying = el("p", { class: "saying", role: "status" }, text("linksHint")), taken = reports.flatMap((r) => (r.pairs ?? []).map((p) => ({ ...p, job: r.job })));
  const told = reports.map((r) => el("li", { class: r.expected === false ? "say" : "" }, r.expected === false ? icon("warn") : null,
    el("span", {}, el("b", {}, text(r.expected === false ? "ncclUnlike" : "ncclAsPlanned", r.job)), ` ${r.text ?? ""}`)));
  return el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("linksOf", node.name))), el("div", { class: "body" }, matrix(node.pairs, taken, saying), saying, legend(node.pairs, taken)),
    told.length ? el("div", { class: "body nccl" }, el("h3", {}, text("nccl")), el("ul", {}, ...told)) : null);
}

/* Of each job of this user that holds GPUs here: asked for once per job, and again when the page is opened. */
async function askNccl(node, known_) {
  const jobs = [...new Set((node.users ?? []).filter((u) => u.mine && u.job && u.state === "holds" && u.gpus?.length).map((u) => u.job))];
  return (await Promise.all(jobs.map(async (job) => {
    if (!known_.has(job)) known_.set(job, (await get(`/v1/jobs/${encodeURIComponent(job)}`).catch(() => ({}))).attempts?.at(-1)?.plan?.nccl ?? null);
    const nccl = known_.get(job);
    if (!nccl) known_.delete(job);
    return nccl ? { job, ...nccl } : null;
  }))).filter(Boolean);
}

/* ---- a machine ---- */

function subOf(node) {
  const models = new Map();
  for (const g of (node.gpus ?? []).filter((one) => one.name)) models.set(g.name, (models.get(g.name) ?? 0) + 1);
  return [...[...models].map(([model, n]) => `${n} × ${model}`), node.drained ? text("drainedFor", node.drained) : null, node.error ? node.error : null,
    node.failures ? text("failures", node.failures) : null, node.last_seen ? text("seenAt", new Date(node.last_seen).toLocaleTimeString("en-GB")) : null].filter(Boolean);
}

/* Jobs that wait, with what they wait for: below the first machine. */
const queueOf = (jobs) => (jobs.length ? [el("h3", { class: "body" }, text("queue")), el("ul", { class: "small" }, ...jobs.map((j) => el("li", {},
  el("a", { class: "link", href: `#/job/${j.id}` }, text("jobN", j.id), ` ${j.name}`), ` ${j.reason ?? ""}`)))] : []);

function card(node, queue) {
  const cpus = known(node.cpus) ? text("cpusFree", node.cpus_free, node.cpus) : node.job ? text("usedBy", node.job) : "";
  const gpus = node.gpus ?? [], head = el("li", { class: "cols", "aria-hidden": "true" }, ...["gpu", "load", "memory", "celsius", "usedByHead"].map((k) => el("span", {}, text(k))));
  const waiting = (node.users ?? []).filter((u) => u.state === "waits" || !Array.isArray(u.gpus) || !u.gpus.length);
  return el("section", { class: "panel node", "aria-label": node.name }, el("header", {}, el("h2", {}, node.name), el("span", { class: `state ${node.state}` }, icon(node.state), text(`node_${node.state}`)), el("span", { class: "hint" }, cpus)),
    el("div", { class: "sub" }, ...subOf(node).map((s) => el("span", {}, s))), gpus.length ? el("ol", { class: "gpus" }, head, ...gpus.flatMap((g) => gpuRow(node, g))) : known(node.cpus) ? el("p", { class: "body hint" }, text("noGpu")) : null,
    waiting.length ? el("ul", { class: "small" }, ...waiting.map((u) => el("li", {}, u.text || `${u.user} ${u.state}`))) : null, ...queueOf(queue));
}

export function machinesPage(main, name, context) {
  const cards = el("div", { class: "flow" }), links = el("div", { class: "flow" }), count = el("span", { class: "hint" });
  const nccl = new Map();
  let has = "", linked = "", timer = 0, closed = false;
  main.replaceChildren(el("div", { class: "head" }, el("h1", {}, text("machines")), count), el("div", { class: "nodes" }, cards, links));
  document.title = `${text("machines")} · jobctl`;

  async function read() {
    const [{ nodes }, { jobs }] = await Promise.all([get("/v1/nodes", { now: 1 }), get("/v1/jobs", { states: "pending", limit: 10 })]);
    const now = JSON.stringify([nodes, jobs.map((j) => [j.id, j.reason])], (k, v) => (k === "last_seen" ? undefined : v));
    if (now !== has) cards.replaceChildren(...nodes.map((n, i) => card(n, i ? [] : jobs)));
    has = now;
    const joined = await Promise.all(nodes.filter((n) => n.pairs?.length).map(async (n) => [n, await askNccl(n, nccl)]));
    const drawn = JSON.stringify(joined.map(([n, reports]) => [n.name, n.pairs, reports]));
    if (drawn !== linked) links.replaceChildren(...joined.map(([n, reports]) => linkPanel(n, reports)));
    linked = drawn;
    const gpus = nodes.reduce((n, m) => n + (m.gpus?.length ?? 0), 0);
    put(count, [text(nodes.length === 1 ? "machine1" : "machinesN", nodes.length), gpus ? text(gpus === 1 ? "gpu1" : "gpusN", gpus) : null].filter(Boolean).join(", "));
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
