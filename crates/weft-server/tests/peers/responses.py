"""Agents behind OpenAI's Responses API, through the `openai` package: `responses.py BASE_URL [TOKEN]`. Needs the server
with `peers.toml`."""

import json
import sys

import openai
import requests

from sessions import DSL

FORM = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["UserFillUp:F"]},
        "UserFillUp:F": {
            "obj": {
                "component_name": "UserFillUp",
                "params": {"tips": "Which colour?", "inputs": {"colour": {"name": "Colour", "type": "line"}}},
            },
            "downstream": ["Message:M"],
        },
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{UserFillUp:F@colour} it is"]}}},
    }
}


def stored(base, token, title, dsl):
    headers = {"Authorization": f"Bearer {token}"}
    body = {"title": title, "dsl": dsl}
    made = requests.post(f"{base}/api/v1/agents", json=body, headers=headers, timeout=30).json()
    assert made["code"] == 0, made
    return made["data"]["id"]


def in_one_piece(client, agent):
    response = client.responses.create(model=agent, input="q1", metadata={"from": "peer"})
    assert response.status == "completed" and response.output_text == "at once", response
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens, response
    assert response.usage.output_tokens_details.reasoning_tokens == 0, response
    again = client.responses.retrieve(response.id)
    assert again == response, (again, response)
    items = client.responses.input_items.list(response.id)
    assert items.data[0].content[0].text == "q1", items
    return response


def goes_on(client, agent, first):
    second = client.responses.create(input="q2", previous_response_id=first.id, model=agent)
    assert second.conversation.id == first.conversation.id, second
    try:
        client.responses.create(model=agent, input="q3", previous_response_id=first.id)
    except openai.ConflictError as error:
        assert second.id in str(error), error
    else:
        raise AssertionError("a response continued from one that was not the latest")
    named = client.responses.create(model=agent, input="q", conversation="peers")
    assert named.conversation.id == "peers", named


def streamed(client, agent):
    events = list(client.responses.create(model=agent, input="q4", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    assert events[0].type == "response.created" and events[-1].type == "response.completed", events
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == "at once" == events[-1].response.output_text, events
    # The stream helper of the client gives the same result.
    with client.responses.stream(model=agent, input="q5") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "at once"
    resumed = list(client.responses.retrieve(events[-1].response.id, stream=True, starting_after=4))
    assert [event.sequence_number for event in resumed] == list(range(5, len(events))), resumed


def answered(client, form):
    waiting = client.responses.create(model=form, input="q")
    call = waiting.output[-1]
    assert call.type == "function_call" and "colour" in call.arguments, waiting
    output = {"type": "function_call_output", "call_id": call.call_id, "output": json.dumps({"colour": "red"})}
    response = client.responses.create(model=form, input=[output], previous_response_id=waiting.id)
    assert response.output_text == "red it is", response


def stopped(client, agent):
    begun = client.responses.create(model=agent, input="long", background=True)
    assert begun.status == "in_progress", begun
    assert client.responses.cancel(begun.id).status == "cancelled"
    client.responses.delete(begun.id)
    try:
        client.responses.retrieve(begun.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a removed response was found")


def refused(client, agent):
    for error, wrong in [
        (openai.NotFoundError, {"model": "nosuch", "input": "q"}),
        (openai.BadRequestError, {"model": agent, "input": "q", "temperature": 0.1}),
        (openai.NotFoundError, {"model": agent, "input": "q", "previous_response_id": "resp_nosuch"}),
    ]:
        try:
            client.responses.create(**wrong)
        except error:
            continue
        raise AssertionError(f"{wrong} was accepted")


def main():
    base, token = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
    agent, form = stored(base, token, "responses", DSL), stored(base, token, "responses form", FORM)
    for path in ["/v1", "/api/v1"]:
        client = openai.OpenAI(base_url=base + path, api_key=token, max_retries=0)
        first = in_one_piece(client, agent)
        if path == "/v1":
            goes_on(client, agent, first)
        streamed(client, agent)
        answered(client, form)
        stopped(client, agent)
        refused(client, agent)
    print(f"openai {openai.__version__}: responses, their streams and refusals are as its users expect")


main()
