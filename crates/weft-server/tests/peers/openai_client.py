"""Agents behind OpenAI's chat completions API, through the `openai` package: `openai_client.py BASE_URL [TOKEN]`. Needs
the server with `peers.toml`."""

import sys

import openai
import requests

from sessions import DSL


def client_of(base, token, title):
    headers = {"Authorization": f"Bearer {token}"}
    made = requests.post(
        f"{base}/api/v1/agents", json={"title": title, "dsl": DSL}, headers=headers, timeout=30
    ).json()
    assert made["code"] == 0, made
    agent = made["data"]["id"]
    return openai.OpenAI(base_url=f"{base}/api/v1/agents_openai/{agent}", api_key=token, max_retries=0)


def question(text):
    return [{"role": "user", "content": text}]


def in_one_piece(client):
    answer = client.chat.completions.create(model="any", messages=question("q1"))
    assert answer.choices[0].message.content == "at once", answer
    assert answer.choices[0].finish_reason == "stop", answer
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, answer


def streamed(client):
    chunks = list(client.chat.completions.create(model="any", messages=question("q2"), stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "at once", text
    assert len({chunk.id for chunk in chunks}) == 1, chunks
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop", chunks


def left_early(client):
    with client.chat.completions.create(model="any", messages=question("long"), stream=True) as stream:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
    in_one_piece(client)


def refused(base, token, client):
    try:
        client.chat.completions.create(model="any", messages=[])
    except openai.APIStatusError as error:
        assert error.status_code in (400, 422), error
    else:
        raise AssertionError("a request without messages was accepted")
    nobody = openai.OpenAI(base_url=f"{base}/api/v1/agents_openai/nosuch", api_key=token, max_retries=0)
    try:
        nobody.chat.completions.create(model="any", messages=question("q"))
    except openai.APIStatusError as error:
        assert "nosuch" in str(error) or error.status_code == 404, error
    else:
        raise AssertionError("a request to a missing agent was accepted")


def main():
    base, token = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
    client = client_of(base, token, "openai")
    in_one_piece(client)
    streamed(client)
    left_early(client)
    refused(base, token, client)
    print(f"openai {openai.__version__}: answers, streams and refusals are as its users expect")


main()
