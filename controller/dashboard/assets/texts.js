/* SPDX-License-Identifier: Apache-2.0 */
/* texts.js - every word of the page, by key, so that a second language is a second table */
const english = {
  jobs: "Jobs", machines: "Machines", skip: "Skip to content", pages: "Pages", path: "Path", live: "live", stale: "connection lost", theme: "Light or dark",
  all: "all", pending: "pending", held: "held", starting: "starting", running: "running", recovering: "recovering", stopping: "stopping",
  done: "done", succeeded: "succeeded", failed: "failed", cancelled: "cancelled",
  attention: "Needs attention", attentionHint: "failed since you last looked, or recovering", activeJobs: "Active", activeJobsHint: "{0}",
  waiting: "Waiting", waitingHint: "in the order in which they will start", finished: "Done", finishedHint: "{0}, newest first",
  search: "Search", searchHint: "Search: name, id or reason", filter: "Filter by state",
  state: "State", job: "Job", progress: "Progress", loss: "Loss", speed: "Speed", goodput: "Goodput", left: "Left", step: "Step", took: "Took", tookFor: "took {0}",
  select: "Select", members: "Show members", sweepOf: "sweep of {0}", membersDone: "{0} / {1}", noSteps: "no steps told",
  none: "No job yet", noneHint: "Submit one from a terminal of this machine; it appears here by itself.", noMatch: "No job matches.",
  lost: "The daemon does not answer since {0}. Training goes on without it; what you see is as it was then. If the daemon was " +
    "stopped or restarted, run jobctl dashboard in a terminal for a new link.",
  ended: "This page is not logged in. Run jobctl dashboard in a terminal and open its link.",
  toJobs: "All jobs", unknownJob: "There is no such job: {0}",
  cancel: "Cancel", hold: "Hold", release: "Release", retry: "Retry", checkpoint: "Checkpoint", back: "Back",
  sureCancel: "Cancel {0}? Its ranks are stopped; a training job writes a checkpoint first. It cannot be continued, only retried.",
  sureHold: "Hold {0}? It does not start until it is released.", sureRelease: "Release {0}? It starts when there is room.",
  sureRetry: "Retry {0}? A new job with the same spec begins; it continues from the last good checkpoint.",
  sureCheckpoint: "Write a checkpoint of {0} now?",
  sureMany: "{0} jobs", selected: "{0} selected", notDone: "{0}: {1}", keys: "j k move · Enter opens · x selects · / searches",

  why: "Why", evidence: "Evidence", events: "What happened", jobN: "job {0}", onNodes: "{0} on {1}", submittedAt: "submitted {0}",
  attemptOf: "attempt {0}, generation {1}", planOf: "plan {0}", codeOf: "code {0}", retryOf: "retry of job {0}",
  ofSteps: "of {0} steps", ranFor: "after {0}", msPerStep: "{0} ms per step", ranks: "Ranks",
  story: "The story", span15: "15 min", span60: "1 h", spanAll: "all", queued: "queued", attemptN: "attempt {0}", generationN: "generation {0}", ranks1: "1 rank", ranksN: "{0} ranks", fromStep: "from step {0}",
  lane_attempt: "attempt", lane_generation: "generation", lane_incidents: "incidents", lane_checkpoints: "checkpoints",
  curve_loss: "loss", curve_samples_per_s: "speed", curve_grad_norm: "gradient norm", curve_lr: "learning rate", curve_step_ms: "step time", curve_phases: "phases", phase_data: "data", phase_forward: "forward", phase_backward: "backward", phase_reduce: "reduce", phase_optimizer: "optimizer",
  phasesSay: "phases of a step in ms: {0}",
  unit_loss: "", unit_samples_per_s: "samples/s", unit_grad_norm: "", unit_lr: "", unit_step_ms: "ms",
  curveSays: "{0}: {1} now, between {2} and {3}", noPoints: "No numbers yet.", atStep: "step {0}", checkpointAt: "checkpoint of step {0}: {1}",
  time: "Where the time went", ledgerSays: "{0} of the time of all ranks was productive; the other {1} s are shown larger below",
  bucket_productive: "productive", bucket_replayed: "made again", bucket_init: "starting", bucket_data: "data", bucket_checkpoint: "checkpoint", bucket_disk: "disk full",
  bucket_hang: "hang", bucket_restart: "restart", bucket_queued: "queued", bucket_paused: "paused", sum: "sum, rank time",
  means_productive: "steps made for the first time", means_replayed: "steps made again, or interrupted", means_init: "agent, setup, start of ranks", means_data: "ranks waited for data",
  means_checkpoint: "steps stood still for writing", means_disk: "waited for room on a disk", means_hang: "from the last progress until noticed", means_restart: "from a failure to the next ranks",
  means_queued: "before its turn; not in goodput", means_paused: "held; not in goodput",
  checkpoints: "Checkpoints", attempts: "Attempts", at: "at", size: "size", trust: "trust", digest: "digest", attempt: "attempt", from: "from", toStep: "to step", endedBy: "ended by", fromStart: "the start",
  trust_written: "written", trust_proven: "proven good", trust_removed: "removed", trust_quarantined: "quarantined", noCheckpoints: "No checkpoint yet.", noAttempts: "It has not started.",
  samples: "Samples", sampleStep: "Step of the pictures", sampleOf: "Pictures of step {0}", holdFirst: "hold for the first", before: "first", now: "now",
  specAndPlan: "Spec and plan", spec: "spec", plan: "plan", changes: "changes", code: "code", noPlan: "There is no plan yet.", noChanges: "The plan is that of the first attempt.", changedIn: "What attempt {0} changed",
  noCode: "No version of the code was recorded.", overrides: "--set", note: "note",
  logs: "Logs", rank: "Rank", allRanks: "all", follow: "follow", logHint: "Search, or /regex/", linesFound: "{0} lines",
  ranksByLag: "Ranks by lag", ranksByLagHint: "own work beyond the quickest, in % of a step", slow: "slow", rankN: "rank {0}", rankLags: "rank {0}: {1}",

  newFromThis: "New from this…", newFrom: "New job from job {0}", newFromHint: "A new job, which begins at step 0. Relative paths are of {0}.", submitJob: "Submit", checking: "Checking…", specIsGood: "The spec is good.",
  mistakes: "Mistakes: {0}", redacted: "A value is [redacted]: write what it stands for, or submit from a terminal.",
  compare: "Compare", compareJobs: "Jobs {0}", compareTwo: "Select two jobs in the list to compare them.", compareCurve: "{0} by step, of jobs {1}", specs: "Specs",

  machine1: "1 machine", machinesN: "{0} machines", gpu1: "1 GPU", gpusN: "{0} GPUs", byProcess: "process {0} ({1})", byRank: "a job, process {0} ({1})", recovery: "the driver asks for: {0}",
  remap: "rows of its memory were replaced: a reset is due", xids: "Xid {0} in the kernel log", gpu: "GPU", load: "Load", memory: "Memory", celsius: "°C", usedByHead: "Used by", freeGpu: "free", unhealthy: "not healthy",
  node_up: "up", node_drained: "drained", node_new: "new", node_free: "free", node_busy: "busy", node_failing: "failing",
  cpusFree: "{0} of {1} CPUs free", usedBy: "job {0}", drainedFor: "drained: {0}", failures: "{0} failures", seenAt: "seen {0}",
  links: "Links between GPUs", linksOf: "Links of {0}", linksHint: "Point at a cell, or go there with the arrow keys: what joins the two, and how fast it was measured.",
  nvSwitch: "{0} NVLinks through switches", nvDirect: "{0} NVLinks", pcieNear: "PCIe ({0})", pcieFar: "memory of the host ({0})", copies: "copies {0} GB/s", link_nv: "NVLink, with their number", link_pcie: "PCIe", link_host: "memory of the host",
  took_p2p: "NCCL goes from GPU to GPU", took_shm: "NCCL goes by memory of the host", took_net: "NCCL goes by the network", ncclTook: "NCCL took {0} (job {1})", nccl: "What NCCL took",
  ncclAsPlanned: "Job {0}, as planned:", ncclUnlike: "Job {0}, not as planned:", noGpu: "No GPU was found here. If there is one, jobctl doctor says why.", gpuLost: "it has fallen off the bus", watts: "{0} W",
};

export function text(key, ...values) {
  return (english[key] ?? key).replace(/\{(\d)\}/g, (_, i) => values[i]);
}
