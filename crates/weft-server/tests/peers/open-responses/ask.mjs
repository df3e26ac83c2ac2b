// Calls an agent through a third-party client of the Responses API: `ask.mjs BASE_URL`. Needs the server with
// `peers.toml`.
import assert from "node:assert/strict";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { generateText, streamText } from "ai";

const base = process.argv[2];
const agent = {
  components: {
    begin: { obj: { component_name: "Begin", params: {} }, downstream: ["LLM:L"] },
    "LLM:L": {
      obj: {
        component_name: "LLM",
        params: { llm_id: "m", sys_prompt: "Answer.", prompts: [{ role: "user", content: "{sys.query}" }], message_history_window_size: 12 },
      },
      downstream: ["Message:M"],
    },
    "Message:M": { obj: { component_name: "Message", params: { content: ["{LLM:L@content}"] } } },
  },
};

const made = await (
  await fetch(`${base}/api/v1/agents`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ title: "open responses", dsl: agent }),
  })
).json();
assert.equal(made.code, 0, JSON.stringify(made));
const provider = createOpenResponses({ name: "weft", url: `${base}/v1/responses` });
const model = provider(made.data.id);

const whole = await generateText({ model, prompt: "q1", maxRetries: 0 });
assert.equal(whole.text, "at once");
assert.ok(whole.usage.inputTokens > 0, JSON.stringify(whole.usage));

// Each request contains the whole history.
const messages = [
  { role: "user", content: "q1" },
  { role: "assistant", content: whole.text },
  { role: "user", content: "q2" },
];
const stream = streamText({ model, messages, maxRetries: 0 });
let said = "";
for await (const piece of stream.textStream) said += piece;
assert.equal(said, "at once");
assert.equal(await stream.finishReason, "stop");

await assert.rejects(generateText({ model: provider("nosuch"), prompt: "q", maxRetries: 0 }), /nosuch/);
console.log("@ai-sdk/open-responses: answers, streams and refusals are as its users expect");
process.exit(0);
