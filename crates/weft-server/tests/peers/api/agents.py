"""Agents, their sessions, turns and related routes."""

import json
import uuid

from asking import Api, Exactly, Raw, refused

ALL = "/agents"


def component(name: str, params: dict, up: list[str], down: list[str]) -> dict:
    return {"obj": {"component_name": name, "params": params}, "upstream": up, "downstream": down}


ECHO = {
    "components": {
        "begin": component("Begin", {}, [], ["message"]),
        "message": component("Message", {"content": ["{sys.query}"]}, ["begin"], []),
    },
    "history": [], "retrieval": [], "path": [], "variables": {},
    "globals": {"sys.query": "", "sys.user_id": "", "sys.conversation_turns": 0, "sys.files": []},
}


def agent(api: Api) -> str:
    return api.data("POST", ALL, {"title": f"a-{uuid.uuid4().hex[:12]}", "dsl": ECHO})["id"]


def agents(api: Api) -> None:
    one = agent(api)
    title = api.data("GET", f"{ALL}/{one}")["title"]
    path = f"{ALL}/{one}"
    foreign, owner = "Make sure you have permission to access the agent.", "Only the owner of the agent is authorized"
    api.rows("agents", [
        ("no canvas", "POST", ALL, {"title": "x"}, 101, "No DSL data in request"),
        ("no title", "POST", ALL, {"dsl": ECHO}, 101, "No title in request"),
        ("a title that is taken", "POST", ALL, {"title": title, "dsl": ECHO}, 102, "already exists"),
        ("a text that is not a canvas", "POST", ALL, {"title": "x", "dsl": "{"}, 101, "DSL"),
        ("a canvas as a string", "POST", ALL, {"title": f"t{uuid.uuid4().hex}", "dsl": json.dumps(ECHO)}, 0, None),
        ("no JSON", "POST", ALL, Raw(b"x"), 101, "Malformed JSON syntax"),
        ("one", "GET", path, None, 0, {"id": one}),
        ("an unknown one", "GET", f"{ALL}/unknown", None, 102, "canvas not found."),
        ("changed", "PUT", path, {"title": f"{title}!", "dsl": ECHO}, 0, None),
        ("an unknown one changed", "PUT", f"{ALL}/unknown", {"title": "x", "dsl": ECHO}, 103, foreign),
        ("listed", "GET", ALL, {"title": f"{title}!"}, 0, lambda data: data["total"] >= 1 and "canvas" in data),
        ("none listed", "GET", ALL, {"title": "missing"}, 0, {"total": 0}),
        ("a page", "GET", ALL, {"page_size": 1, "desc": "true"}, 0, lambda data: len(data["canvas"]) == 1),
        ("foreign owners", "GET", ALL, {"owner_ids": "x"}, 103, "Only authorized owner_ids can be queried."),
        ("templates", "GET", f"{ALL}/templates", None, 0, lambda data: isinstance(data, list)),
        ("versions", "GET", f"{path}/versions", None, 0, lambda data: isinstance(data, list) and data),
        ("logs of nothing", "GET", f"{path}/logs/missing", None, 0, {}),
        ("webhook logs", "GET", f"{path}/webhook/logs", {"since_ts": 0}, 0, {"events": [], "finished": False, "next_since_ts": 0}),
        ("an unknown one removed", "DELETE", f"{ALL}/unknown", None, 103, owner),
        ("removed", "DELETE", path, None, 0, True),
    ])


def sessions(api: Api) -> None:
    one = agent(api)
    path = f"{ALL}/{one}/sessions"
    ids = [api.data("POST", path, {"name": f"s{place}"})["id"] for place in range(4)]
    delete = lambda what, sent, code, expected: (what, "DELETE", path, sent, code, expected)  # noqa: E731
    foreign = "The agent doesn't own the session"
    api.rows("sessions", [
        ("listed", "GET", path, None, 0, lambda data: {one["id"] for one in data} == set(ids)),
        ("one", "GET", f"{path}/{ids[0]}", None, 0, {"id": ids[0]}),
        ("an unknown one", "GET", f"{path}/unknown", None, 102, "Session not found!"),
        delete("nothing", None, 0, None),
        delete("no ids", {"ids": []}, 0, None),
        delete("an unknown one", {"ids": ["x"]}, 102, Exactly(f"{foreign} x")),
        delete("one and an unknown one", {"ids": [ids[0], "x"]}, 0, {"success_count": 1, "errors": [f"{foreign} x"]}),
        delete("one twice", {"ids": [ids[1]] * 2}, 0, {"success_count": 1, "errors": [f"Duplicate session ids: {ids[1]}"]}),
        ("one alone", "DELETE", f"{path}/{ids[2]}", None, 0, None),
        ("the sessions that are left", "GET", path, None, 0, lambda data: [one["id"] for one in data] == ids[3:]),
        delete("all", {"delete_all": True}, 0, None),
        ("nothing is left", "GET", path, None, 0, []),
    ])


def turns(api: Api) -> None:
    one = agent(api)
    session = api.data("POST", f"{ALL}/{one}/sessions", {"name": "s"})["id"]
    path, said = f"{ALL}/chat/completions", [{"role": "user", "content": "hello"}]
    ask = lambda what, sent, code, expected: (what, "POST", path, {"stream": False, **sent}, code, expected)  # noqa: E731
    hello = lambda data: data["session_id"] and "hello" in data["data"]["content"]  # noqa: E731
    openai = {"agent_id": one, "openai-compatible": True, "model": "model"}
    api.rows("turns", [
        ask("no agent", {"query": "hello"}, 101, Exactly("`agent_id` is required.")),
        ask("in a session", {"agent_id": one, "query": "hello", "session_id": session}, 0, lambda data: hello(data) and data["session_id"] == session),
        ask("without a session", {"agent_id": one, "query": "hello"}, 0, hello),
        ask("in an unknown session", {"agent_id": one, "query": "hello", "session_id": "x"}, 102, "Session not found!"),
        ask("no message in OpenAI's shape", {**openai, "messages": []}, 102, "at least one message"),
    ])
    whole = api.ask("POST", path, {**openai, "messages": said, "stream": False}).whole
    api.holds("an answer in OpenAI's shape", whole["choices"][0]["message"]["content"] == "hello")
    for sent in ({**openai, "messages": said}, {"agent_id": one, "query": "hello", "session_id": session, "return_trace": True}):
        got = api.send("POST", path, {**sent, "stream": True})
        frames = [line[5:].strip() for line in got.text.splitlines() if line.startswith("data:")]
        right = got.headers["Content-Type"].startswith("text/event-stream") and frames[-1] == "[DONE]" and len(frames) > 1
        api.holds(f"a stream of {sorted(sent)}", right and all(isinstance(json.loads(frame), dict) for frame in frames[:-1]))
    got = api.send("POST", f"{ALL}/{one}/completions", {"question": "hello", "stream": True})
    api.holds("a stream on the older route", got.text.rstrip().endswith("data:[DONE]"))


def others(api: Api) -> None:
    task = "/tasks/missing_task"
    api.rows("others", [
        ("tools of plugins", "GET", "/plugin/tools", None, 0, lambda data: isinstance(data, list)),
        ("a task that is to pause", "PATCH", task, {"action": "pause"}, 101, "Only 'stop' is supported"),
        ("an unknown task cancelled", "POST", f"{task}/cancel", None, 0, lambda data: data is True),
    ])
    refused(api, [("GET", "/plugin/tools"), ("POST", f"{task}/cancel"), ("PATCH", task)])


def tokens(api: Api) -> None:
    one = f"{ALL}/x"
    refused(api, [
        ("GET", ALL), ("POST", ALL), ("GET", one), ("PUT", one), ("DELETE", one), ("GET", f"{one}/sessions"),
        ("POST", f"{one}/sessions"), ("DELETE", f"{one}/sessions"), ("POST", f"{one}/completions"), ("POST", f"{ALL}/chat/completions"),
    ])


def cases(api: Api) -> None:
    for part in (agents, sessions, turns, others, tokens):
        part(api)
