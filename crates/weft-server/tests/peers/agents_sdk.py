"""An agent of a server, used as the model of an agent of `openai-agents`: `agents_sdk.py BASE_URL [TOKEN]`. Needs the
server with `peers.toml`."""

import asyncio
import sys

import openai
import requests
from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled

DSL = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["LLM:A"]},
        "LLM:A": {
            "obj": {
                "component_name": "LLM",
                "params": {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]},
            },
            "downstream": ["Message:M"],
        },
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{LLM:A@content}"]}}},
    }
}


async def conversation(base, token, agent_id):
    client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=token, max_retries=0)
    agent = Agent(name="Peer", model=OpenAIResponsesModel(model=agent_id, openai_client=client))
    first = await Runner.run(agent, "q1")
    assert first.final_output == "at once", first.final_output
    # With the whole history in the input, which is its default …
    second = await Runner.run(agent, first.to_input_list() + [{"role": "user", "content": "q2"}])
    assert second.final_output == "at once", second.final_output
    # … and with the id of the previous response.
    third = await Runner.run(agent, "q3", previous_response_id=second.last_response_id)
    assert third.final_output == "at once", third.final_output
    streamed = Runner.run_streamed(agent, "q4", previous_response_id=third.last_response_id)
    said = ""
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            said += event.data.delta
    assert said == "at once" == streamed.final_output, (said, streamed.final_output)


def main():
    base, token = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
    set_tracing_disabled(True)
    headers = {"Authorization": f"Bearer {token}"}
    body = {"title": "agents sdk", "dsl": DSL}
    made = requests.post(f"{base}/api/v1/agents", json=body, headers=headers, timeout=30).json()
    assert made["code"] == 0, made
    asyncio.run(conversation(base, token, made["data"]["id"]))
    print("openai-agents: an agent of the server answers as a model")


main()
