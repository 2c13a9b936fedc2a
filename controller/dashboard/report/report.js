/* SPDX-License-Identifier: Apache-2.0 */
/* report.js - the page of a job in a file without a server: its modules and its data are in elements of the file */
const [modules, saved] = ["modules", "saved"].map((id) => JSON.parse(document.getElementById(id).textContent)), urls = new Map();
const now = Date.parse(saved.at);
Date.now = () => now;

/* A module of a file has no address that another could name: it gets one, after those that it imports. */
function addressOf(name) {
  if (!urls.has(name)) {
    const code = modules[name === "api.js" ? "saved.js" : name].replace(/"\.\/(\w+\.js)"/g, (_, other) => `"${addressOf(other)}"`);
    urls.set(name, URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  }
  return urls.get(name);
}

async function show() {
  const { jobPage } = await import(addressOf("job.js"));
  const page = jobPage(document.getElementById("main"), saved.all.job.id, { say: () => {}, read: (what) => what() });
  page.take("job", saved.all.job);
  for (const event of saved.events) page.take("event", event.kind === "sample" && !saved.samples[event.body?.step] ? { ...event, body: {} } : event);
  await page.read();
}
show();
