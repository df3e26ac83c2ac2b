"""Memories and their messages. The server of this suite has no embedder: messages are stored, and found by their words."""

import time
import uuid

from asking import Api, Exactly, refused

ALL = "/memories"
TYPES = ("raw", "semantic", "episodic", "procedural")


def new(**fields) -> dict:
    return {"name": f"m-{uuid.uuid4().hex[:12]}", "memory_type": ["raw"], "embd_id": "", "llm_id": "", **fields}


def memories(api: Api) -> None:
    for one in api.data("GET", ALL, {"page_size": 1000})["memory_list"]:
        api.data("DELETE", f"{ALL}/{one['id']}")
    post = lambda what, sent, code, expected: (what, "POST", ALL, sent, code, expected)  # noqa: E731
    blank = "Memory name cannot be empty or whitespace."
    long, longest = "a" * 129, "a" * 128
    api.rows("memories", [
        post("a name", new(name="memory"), 0, {"name": "memory", "memory_type": ["raw"], "storage_type": "table"}),
        post("the same name", new(name="memory"), 0, lambda data: data["name"] != "memory"),
        post("the longest name", new(name=longest), 0, None),
        *[post(f"types {list(types)}", new(memory_type=list(types)), 0, lambda data, types=types: sorted(data["memory_type"]) == sorted(types))
          for types in (TYPES[:1], TYPES[:2], TYPES)],
        *[post(f"the name {name!r}", new(name=name), 101, blank) for name in ("", " ")],
        post("a name too long", new(name=long), 101, Exactly(f"Memory name '{long}' exceeds limit of 128.")),
        post("a text as types", new(memory_type="raw"), 101, Exactly("Memory type must be a list.")),
        post("an unknown type", new(memory_type=["something"]), 101, Exactly("Memory type '{'something'}' is not supported.")),
    ])
    one = api.data("POST", ALL, new())["id"]
    put = lambda what, sent, code, expected: (what, "PUT", f"{ALL}/{one}", sent, code, expected)  # noqa: E731
    unknown = Exactly("Memory 'unknown' not found.")
    renamed = f"renamed {uuid.uuid4().hex[:8]}"
    api.rows("memories, changed", [
        put("a name", {"name": renamed}, 0, {"name": renamed}),
        put("an empty name", {"name": ""}, 101, blank),
        put("a name too long", {"name": long}, 101, "exceeds limit of 128."),
        put("a description", {"description": "d"}, 0, {"description": "d"}),
        put("a permission", {"permissions": "team"}, 0, {"permissions": "team"}),
        put("an unknown permission", {"permissions": "x"}, 101, Exactly("Unknown permission 'x'.")),
        put("a size", {"memory_size": 4096}, 0, {"memory_size": 4096}),
        *[put(f"the size {size}", {"memory_size": size}, 101, "Memory size should be in range (0, ") for size in (0, 100 * 1024 * 1024)],
        put("a temperature", {"temperature": 0.7}, 0, {"temperature": 0.7}),
        *[put(f"the temperature {value}", {"temperature": value}, 101, Exactly("Temperature should be in range [0, 1].")) for value in (-1, 2)],
        put("a policy", {"forgetting_policy": "FIFO"}, 0, {"forgetting_policy": "FIFO"}),
        put("an unknown policy", {"forgetting_policy": "LRU"}, 101, Exactly("Forgetting policy 'LRU' is not supported.")),
        put("prompts", {"system_prompt": "s", "user_prompt": "u"}, 0, {"system_prompt": "s", "user_prompt": "u"}),
        put("other types while it is empty", {"memory_type": ["raw", "semantic"]}, 0, None),
        ("its settings", "GET", f"{ALL}/{one}/config", None, 0, {"name": renamed}),
        ("settings of an unknown one", "GET", f"{ALL}/unknown/config", None, 404, unknown),
        ("an unknown one changed", "PUT", f"{ALL}/unknown", {"name": "x"}, 404, unknown),
        ("an unknown one removed", "DELETE", f"{ALL}/unknown", None, 404, unknown),
        ("removed", "DELETE", f"{ALL}/{one}", None, 0, None),
        ("removed again", "DELETE", f"{ALL}/{one}", None, 404, None),
    ])
    marked = f"find-{uuid.uuid4().hex[:8]}"
    for place in range(3):
        api.data("POST", ALL, new(name=f"{marked} {place}", memory_type=["raw", "semantic"] if place else ["raw"]))
    count = lambda wanted: lambda data: len(data["memory_list"]) == wanted  # noqa: E731
    get = lambda what, sent, expected: (what, "GET", ALL, {"keywords": marked, **sent}, 0, expected)  # noqa: E731
    api.rows("memories, listed", [
        get("a word", {}, {"total_count": 3}),
        get("a page", {"page": 1, "page_size": 2}, count(2)),
        get("the last page", {"page": 2, "page_size": 2}, count(1)),
        get("behind it", {"page": 5, "page_size": 2}, count(0)),
        get("a type", {"memory_type": "semantic"}, count(2)),
        get("two types", {"memory_type": ["raw", "semantic"]}, count(3)),
        get("an unknown type", {"memory_type": "procedural"}, count(0)),
        get("a storage", {"storage_type": "table"}, count(3)),
        get("another storage", {"storage_type": "graph"}, count(0)),
    ])


def messages(api: Api) -> None:
    one = api.data("POST", ALL, new())["id"]
    add = {"memory_id": [one], "agent_id": "agent", "session_id": "session", "user_id": "user",
           "user_input": "what is coriander", "agent_response": "a herb"}
    api.rows("messages", [
        ("added", "POST", "/messages", add, 0, None),
        ("half of one", "POST", "/messages", {"memory_id": [one]}, 101, "required argument are missing"),
        ("to an unknown memory", "POST", "/messages", {**add, "memory_id": ["unknown"]}, 500, "Memory 'unknown' not found."),
    ])
    api.data("POST", "/messages", {**add, "session_id": "other", "user_input": "another question"})
    until = time.monotonic() + 20
    while api.data("GET", f"{ALL}/{one}")["messages"]["total_count"] < 2 and time.monotonic() < until:
        time.sleep(0.1)
    listed = api.data("GET", f"{ALL}/{one}")["messages"]["message_list"]
    number = listed[0]["message_id"]
    path = f"/messages/{one}:{number}"
    count = lambda wanted: lambda data: data["messages"]["total_count"] == wanted  # noqa: E731
    sessions = {"agent_id": "agent", "session_id": "session", "memory_id": one}
    api.rows("messages, kept", [
        ("of an agent", "GET", f"{ALL}/{one}", {"agent_id": "agent"}, 0, count(2)),
        ("of another agent", "GET", f"{ALL}/{one}", {"agent_id": "x"}, 0, count(0)),
        ("of a session", "GET", f"{ALL}/{one}", {"keywords": "other"}, 0, count(1)),
        ("a page", "GET", f"{ALL}/{one}", {"page": 1, "page_size": 1}, 0, lambda data: len(data["messages"]["message_list"]) == 1),
        ("of an unknown memory", "GET", f"{ALL}/unknown", None, 404, None),
        ("the latest", "GET", "/messages", sessions, 0, lambda data: len(data) == 1),
        ("one of them", "GET", "/messages", {"memory_id": one, "limit": 1}, 0, lambda data: len(data) == 1),
        ("of no memory", "GET", "/messages", None, 101, Exactly("memory_ids is required")),
        ("searched", "GET", "/messages/search", {"query": "coriander", "memory_id": one}, 0, lambda data: "coriander" in data[0]["content"]),
        ("searched of an agent", "GET", "/messages/search", {"query": "coriander", "memory_id": one, "agent_id": "x"}, 0, []),
        ("its text", "GET", f"{path}/content", None, 0, lambda data: data["content"]),
        ("the text of an unknown one", "GET", f"/messages/{one}:999999/content", None, 404, None),
        ("hidden", "PUT", path, {"status": False}, 0, None),
        ("no state", "PUT", path, {"status": "False"}, 101, Exactly("Status must be a boolean.")),
        ("an unknown one hidden", "PUT", f"/messages/{one}:999999", {"status": False}, 404, None),
        ("forgotten", "DELETE", path, None, 0, None),
        ("an unknown one forgotten", "DELETE", f"/messages/{one}:999999", None, 404, None),
    ])
    shown = api.data("GET", f"{ALL}/{one}")["messages"]["message_list"]
    api.holds("a forgotten message is in no list", number not in [message["message_id"] for message in shown])


def halves(api: Api) -> None:
    half = {"name": "half", "memory_type": ["raw"]}
    api.rows("halves", [("without models", "POST", ALL, half, 101, "required argument are missing: embd_id,llm_id")])


def tokens(api: Api) -> None:
    refused(api, [("GET", ALL), ("POST", ALL), ("PUT", f"{ALL}/x"), ("DELETE", f"{ALL}/x"), ("GET", f"{ALL}/x"),
                  ("POST", "/messages"), ("GET", "/messages"), ("GET", "/messages/search")])


def cases(api: Api) -> None:
    for part in (memories, messages, halves, tokens):
        part(api)
