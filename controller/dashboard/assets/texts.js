/* SPDX-License-Identifier: Apache-2.0 */
/* texts.js - every word of the page, by key, so that a second language is a second table */
const english = {
  jobs: "Jobs", skip: "Skip to content", pages: "Pages",
  live: "live", stale: "not live", theme: "Light or dark",
  all: "all", active: "active", pending: "pending", held: "held", starting: "starting", running: "running",
  recovering: "recovering", stopping: "stopping", done: "done", succeeded: "succeeded", failed: "failed",
  cancelled: "cancelled",
  search: "Search", searchHint: "Search: name, id or reason", filter: "Filter by state",
  state: "State", job: "Job", progress: "Progress", loss: "Loss", speed: "Speed", goodput: "Goodput", left: "Left",
  select: "Select", more: "Show older jobs", none: "No job yet",
  noneHint: "Submit one from a terminal of this machine; it appears here by itself.",
  noMatch: "No job matches.",
  lost: "The daemon does not answer since {0}. Training goes on without it; what you see is as it was then. If the daemon was " +
    "stopped or restarted, run jobctl dashboard in a terminal for a new link.",
  ended: "This page is not logged in. Run jobctl dashboard in a terminal and open its link.",
  why: "Why", evidence: "Evidence", events: "What happened", logs: "Log", rank: "Rank", follow: "Follow the end",
  time: "Where the time went", step: "Step", took: "took", unknownJob: "There is no such job: {0}",
  gradNorm: "Gradient norm", lr: "Learning rate", noPoints: "No numbers yet.",
  cancel: "Cancel", hold: "Hold", release: "Release", retry: "Retry", checkpoint: "Checkpoint now", back: "Back",
  sureCancel: "Cancel {0}? Its ranks are stopped; a training job writes a checkpoint first. It cannot be continued, only retried.",
  sureHold: "Hold {0}? It does not start until it is released.",
  sureRelease: "Release {0}? It starts when there is room.",
  sureRetry: "Retry {0}? A new job with the same spec begins; it continues from the last good checkpoint.",
  sureCheckpoint: "Write a checkpoint of {0} now?",
  sureMany: "{0} jobs", selected: "{0} selected", notDone: "{0}: {1}",
  keys: "j k move · Enter opens · x selects · / searches",
  bucket_productive: "productive", bucket_replayed: "made again", bucket_init: "starting", bucket_data: "data",
  bucket_checkpoint: "checkpoint", bucket_disk: "disk full", bucket_hang: "hang", bucket_restart: "restart",
  bucket_queued: "queued", bucket_paused: "paused", sum: "sum, rank time",
};

export function text(key, ...values) {
  return (english[key] ?? key).replace(/\{(\d)\}/g, (_, i) => values[i]);
}
