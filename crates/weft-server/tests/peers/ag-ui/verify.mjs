// Runs every agent of a server through a client of the AG-UI protocol, whose built-in checks reject a stream that
// violates the protocol: `verify.mjs BASE_URL`. Interrupts are answered, and each session gets a second question.
import { HttpAgent, verifyEvents } from "@ag-ui/client";
import { randomUUID } from "node:crypto";

const base = process.argv[2];
const problems = [];
const counts = { runs: 0, events: 0, interrupts: 0, errors: 0 };
const INTERRUPTS_MAX = 5;

// A value that is valid for a form field.
function valueFor(schema) {
  if (schema.enum) return schema.enum[0];
  if (schema.type === "boolean") return true;
  return schema.type === "integer" || schema.type === "number" ? 3 : "Ada";
}

function answer(interrupt) {
  const properties = interrupt.responseSchema?.properties ?? {};
  const decision = interrupt.reason === "tool_call";
  const payload = decision
    ? { decision: "approve" }
    : Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, valueFor(schema)]));
  return { interruptId: interrupt.id, status: "resolved", payload };
}

// Runs the agent once and checks that its events have exactly one end.
async function run(agent, parameters) {
  const seen = [];
  await agent.runAgent(parameters, { onEvent: ({ event }) => void seen.push(event) });
  counts.runs += 1;
  counts.events += seen.length;
  const last = seen.at(-1);
  if (last?.type === "RUN_ERROR") counts.errors += 1;
  if (!["RUN_ERROR", "RUN_FINISHED"].includes(last?.type)) throw new Error(`ends with ${last?.type}`);
  if (seen.filter((event) => ["RUN_ERROR", "RUN_FINISHED"].includes(event.type)).length !== 1) {
    throw new Error("has more than one end");
  }
  return last.outcome?.type === "interrupt" ? last.outcome.interrupts : [];
}

async function conversation(id) {
  const agent = new HttpAgent({ url: `${base}/api/v1/agents/${id}/ag-ui`, threadId: randomUUID() });
  for (const question of ["good morning", "and now?"]) {
    agent.addMessage({ id: randomUUID(), role: "user", content: question });
    let interrupts = await run(agent, {});
    for (let round = 0; interrupts.length > 0 && round < INTERRUPTS_MAX; round += 1) {
      counts.interrupts += interrupts.length;
      interrupts = await run(agent, { resume: interrupts.map(answer) });
    }
    // A waiting run accepts no other question.
    if (interrupts.length > 0) return;
  }
}

if (typeof verifyEvents !== "function") throw new Error("the client has no checks");
const listed = await (await fetch(`${base}/api/v1/agents?page_size=100`)).json();
const agents = listed.data.canvas.map((canvas) => canvas.id);
for (const id of agents) {
  try {
    await conversation(id);
  } catch (error) {
    problems.push(`${id}: ${error?.message ?? error}`);
  }
}
console.log(`ag-ui: ${agents.length} agents`, JSON.stringify(counts));
problems.forEach((problem) => console.error(problem));
process.exit(problems.length > 0 || agents.length === 0 || counts.runs <= agents.length ? 1 : 0);
