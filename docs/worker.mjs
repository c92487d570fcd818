// A worker for lanes that are marked external: MAYFLY_TOKEN=… node worker.mjs
const { MAYFLY_URL = "http://127.0.0.1:8321", MAYFLY_TOKEN, MAYFLY_LANE = "images" } = process.env;
const LEASE = 60; // seconds; renewed while a job takes longer

const handlers = {
  resize: async ({ image, width }) => ({ image, width, height: Math.round(width * 0.75) }),
};

async function say(path, body) {
  const headers = { Authorization: `Bearer ${MAYFLY_TOKEN}`, "Content-Type": "application/json" };
  const answer = await fetch(`${MAYFLY_URL}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.status === 409) return null; // too late: the job is somebody else's
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

async function work({ id, type, payload, claim }) {
  const renew = setInterval(() => say(`/jobs/${id}/extend`, { claim, lease: LEASE }).catch(console.error), LEASE * 400);
  const [verb, said] = await new Promise((resolve) => resolve(handlers[type](payload)))
    .then((result) => ["done", { claim, result }], (error) => ["fail", { claim, error: String(error) }])
    .finally(() => clearInterval(renew));
  await say(`/jobs/${id}/${verb}`, said);
}

process.on("SIGTERM", () => process.exit(0)); // what it holds then comes back when its lease runs out
for (;;) {
  const pulled = await say("/pull", { lanes: [MAYFLY_LANE], lease: LEASE, wait: 20 }).catch(console.error);
  for (const job of pulled?.jobs ?? []) await work(job).catch(console.error);
  if (!pulled) await new Promise((resolve) => setTimeout(resolve, 1000)); // the API is away: it will be back
}
