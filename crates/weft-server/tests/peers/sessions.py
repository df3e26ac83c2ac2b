"""Consecutive questions through ragflow-sdk: `sessions.py BASE_URL [TOKEN]`. Needs the server with `peers.toml`, whose
model takes a minute for `long` questions and answers all others at once. Old and new versions of the SDK behave
differently here: those up to 0.23 stop reading at the end of the message."""

import sys
import time

import requests
from ragflow_sdk import Agent, RAGFlow

QUESTIONS = 50

# Waiting for the end of one abandoned answer would take a minute.
SECONDS_MAX = 60


def component(name, params, downstream):
    return {"obj": {"component_name": name, "params": params}, "downstream": downstream, "upstream": []}


DSL = {
    "components": {
        "begin": component("Begin", {}, ["LLM:A"]),
        "LLM:A": component(
            "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:M"]
        ),
        "Message:M": component("Message", {"content": ["{LLM:A@content}"]}, []),
    }
}


def session_of(base, token, title):
    headers = {"Authorization": f"Bearer {token}"}
    body = {"title": title, "dsl": DSL}
    made = requests.post(f"{base}/api/v1/agents", json=body, headers=headers, timeout=30).json()
    assert made["code"] == 0, made
    agent = Agent(RAGFlow(token, base), {"id": made["data"]["id"], "title": title})
    return agent.create_session()


def text(messages):
    return "".join(message.content for message in messages)


def in_a_row(base, token):
    session = session_of(base, token, "in a row")
    for number in range(QUESTIONS):
        said = text(session.ask(f"q{number}", stream=True))
        assert said == "at once", (number, said)


def left_early(base, token):
    session = session_of(base, token, "left early")
    begun = time.monotonic()
    for number in range(QUESTIONS):
        for message in session.ask(f"long {number}", stream=True):
            # Old versions also return messages without content, such as the end of a node.
            if message.content:
                break
        assert message.content.startswith("So"), message.content
        said = text(session.ask(f"q{number}", stream=True))
        assert said == "at once", (number, said)
    took = time.monotonic() - begun
    assert took < SECONDS_MAX, f"{QUESTIONS} answers were left in {took:.1f} s"


def main():
    base, token = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
    in_a_row(base, token)
    left_early(base, token)
    print(f"ragflow-sdk: {QUESTIONS} questions in a row and {QUESTIONS} left early, none refused")


if __name__ == "__main__":
    main()
