/* SPDX-License-Identifier: Apache-2.0 */
/* api.js - requests to the daemon, with the key of this session */
const KEY = "jobctl.key";

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

/* The key is in the storage of this port, which pages of other ports cannot read; the cookie comes by itself. */
async function ask(path, options) {
  const headers = { "X-Jobctl-Key": localStorage.getItem(KEY) ?? "" };
  const answer = await fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store" });
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, document.error?.text ?? String(answer.status));
  return document;
}

export function get(path, query = {}, signal = undefined) {
  const text = new URLSearchParams(query).toString();
  return ask(text ? `${path}?${text}` : path, { signal });
}

export function post(path, body = {}) {
  return ask(path, { method: "POST", body: JSON.stringify(body) });
}

export function loggedIn() { return localStorage.getItem(KEY) !== null; }

/* The token of a link is used and taken out of the address at once. */
export async function logIn() {
  const token = /^#token=([0-9a-f]{64})$/.exec(location.hash);
  if (!token) return;
  history.replaceState(null, "", "/");
  const { key } = await post("/v1/session", { token: token[1] });
  localStorage.setItem(KEY, key);
}
