/* SPDX-License-Identifier: Apache-2.0 */
/* api.js - requests to the daemon and streams from it, with the key of this session */
const KEY = "jobctl.key";
const SILENT_MS = 40000, FIRST_MS = 500, LAST_MS = 10000;

export class Refused extends Error {
  constructor(status, message, document) { super(message); this.status = status; this.document = document; }
}

/* In a frame of another site nothing is stored: the key is in memory and ends with the frame, and no cookie is needed. */
const framed = location.pathname === "/frame", memory = new Map();

export function recall(name) { return framed ? memory.get(name) ?? null : localStorage.getItem(name); }
export function remember(name, value) { if (framed) memory.set(name, value); else localStorage.setItem(name, value); }

const headersOf = (more = {}) => ({ "X-Jobctl-Key": recall(KEY) ?? "", ...(framed ? { "X-Jobctl-Frame": "1" } : {}), ...more });

/* The key of a tab is in the storage of this port, which pages of other ports cannot read; its cookie comes by itself. */
async function ask(path, options) {
  const answer = await fetch(path, { ...options, headers: headersOf(), credentials: "same-origin", cache: "no-store" });
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, document.error?.text ?? String(answer.status), document);
  return document;
}

export function get(path, query = {}, signal = undefined) {
  const text = new URLSearchParams(query).toString();
  return ask(text ? `${path}?${text}` : path, { signal });
}

export function post(path, body = {}, signal = undefined) {
  return ask(path, { method: "POST", body: JSON.stringify(body), signal });
}

/* A file that is no JSON, such as a picture. */
export async function getBlob(path) {
  const answer = await fetch(path, { headers: headersOf(), credentials: "same-origin" });
  if (!answer.ok) throw new Refused(answer.status, String(answer.status), {});
  return answer.blob();
}

export function loggedIn() { return recall(KEY) !== null; }

/* The token of a link is used and taken out of the address at once. */
export async function logIn() {
  const token = /^#token=([0-9a-f]{64})$/.exec(location.hash);
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  const { key } = await post("/v1/session", { token: token[1] });
  remember(KEY, key);
}

/* ---- streams ---- */

function takeMessage(part, stream) {
  const fields = {};
  for (const line of part.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  if (fields.id !== undefined) stream.last = fields.id;
  if (fields.event) stream.take(fields.event, JSON.parse(fields.data));
}

async function readMessages(stream, reader, alive) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = parts.pop();
    for (const part of parts) takeMessage(part, stream);
    stream.painted?.();
  }
}

/* One connection, until it breaks; EventSource cannot send the header with the key. */
async function connect(stream) {
  const breaker = new AbortController();
  let timer = 0;
  const alive = () => { clearTimeout(timer); timer = setTimeout(() => breaker.abort(), SILENT_MS); };
  stream.abort = () => breaker.abort();
  alive();
  try {
    const headers = headersOf(stream.last === null ? {} : { "Last-Event-ID": stream.last });
    const answer = await fetch(stream.path, { headers, credentials: "same-origin", cache: "no-store", signal: breaker.signal });
    if (!answer.ok) {
      const document = await answer.json().catch(() => ({}));
      throw new Refused(answer.status, document.error?.text ?? String(answer.status), document);
    }
    stream.wait = FIRST_MS;
    stream.opened();
    await readMessages(stream, answer.body.getReader(), alive);
  } finally {
    clearTimeout(timer);
    breaker.abort();
  }
}

/* Messages of `path` until close(); after a break it connects again and gets what it missed. `on`: take(kind, data),
 * opened(), lost(error), and painted() after some messages. A refusal (401, 404) ends it. */
export function listen(path, on, last = null) {
  const stream = { path, last, wait: FIRST_MS, closed: false, timer: 0, abort: () => {}, ...on };
  async function run() {
    let problem = null;
    try { await connect(stream); } catch (e) { problem = e; }
    if (stream.closed) return;
    stream.lost(problem);
    if (problem instanceof Refused && (problem.status === 401 || problem.status === 404)) return;
    stream.timer = setTimeout(run, stream.wait);
    stream.wait = Math.min(LAST_MS, stream.wait * 2);
  }
  stream.close = () => {
    stream.closed = true;
    clearTimeout(stream.timer);
    stream.abort();
    return stream.last;
  };
  run();
  return stream;
}
