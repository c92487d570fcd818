// A worker for external lanes: MAYFLY_TOKEN=… node worker.mjs
import { hostname } from "node:os";
const { MAYFLY_URL = "http://127.0.0.1:8321", MAYFLY_TOKEN, MAYFLY_LANE = "images" } = process.env;
const WORKER = `${hostname()}-${process.pid}`, LEASE = 60; // seconds; extended while a job runs
const handlers = {
  resize: async ({ image, width }) => ({ image, width, height: Math.round(width * 0.75) }),
};

async function post(path, body) {
  const headers = { Authorization: `Bearer ${MAYFLY_TOKEN}`, "Mayfly-Worker": WORKER, "Content-Type": "application/json" };
  const response = await fetch(`${MAYFLY_URL}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (response.status === 409) return null; // the claim is no longer valid: another worker may have the job
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

async function run({ id, type, payload, claim }) {
  const tick = setInterval(() => post(`/jobs/${id}/extend`, { claim, lease: LEASE }).catch(console.error), LEASE * 400);
  const [verb, outcome] = await new Promise((resolve) => resolve(handlers[type](payload)))
    .then((result) => ["done", { claim, result }], (error) => ["fail", { claim, error: String(error) }])
    .finally(() => clearInterval(tick));
  await post(`/jobs/${id}/${verb}`, outcome);
}

process.on("SIGTERM", () => process.exit(0)); // a job in progress is redelivered when its lease expires
for (;;) {
  const pulled = await post("/pull", { lanes: [MAYFLY_LANE], lease: LEASE, wait: 20 }).catch(console.error);
  for (const job of pulled?.jobs ?? []) await run(job).catch(console.error);
  if (!pulled) await new Promise((resolve) => setTimeout(resolve, 1000)); // the API is unavailable: retry
}
