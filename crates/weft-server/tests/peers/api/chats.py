"""Chat assistants, their sessions and their answers."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

from asking import Api, Exactly, Raw, refused
from datasets import MALFORMED, made
from documents import read, uploaded

ALL = "/chats"
NO_ACCESS = Exactly("no authorization")
SAID = [{"role": "user", "content": "q"}]


def chat(api: Api, **fields) -> str:
    return api.data("POST", ALL, {"name": f"c-{uuid.uuid4().hex[:12]}", "dataset_ids": [], **fields})["id"]


def assistants(api: Api) -> None:
    api.data("DELETE", ALL, {"ids": None, "delete_all": True})
    empty, dataset = made(api)["id"], made(api)["id"]
    read(api, dataset, uploaded(api, dataset, "a.txt"))
    new = lambda **fields: {"name": f"n-{uuid.uuid4().hex[:12]}", "dataset_ids": [], **fields}  # noqa: E731
    post = lambda what, sent, code, expected: (what, "POST", ALL, sent, code, expected)  # noqa: E731
    prompt = lambda **fields: new(prompt_config=fields)  # noqa: E731
    rows = [
        post("a name", new(name="valid"), 0, {"name": "valid", "description": "A helpful Assistant"}),
        post("the same name", new(name="valid"), 102, Exactly("duplicated chat name in creating chat")),
        post("the same in capitals", new(name="VALID"), 102, Exactly("duplicated chat name in creating chat")),
        *[post(f"the name {name!r}", {"name": name, "dataset_ids": []}, 102, Exactly("`name` is required")) for name in ("", " ", None)],
        post("no name", {"dataset_ids": []}, 102, Exactly("`name` is required")),
        post("a number as name", new(name=1), 102, Exactly("chat name must be a string")),
        post("a name too long", new(name="a" * 256), 102, Exactly("chat name length is 256 which is larger than 255")),
        post("a dataset", new(dataset_ids=[dataset]), 0, {"dataset_ids": [dataset]}),
        post("a dataset without chunks", new(dataset_ids=[empty]), 102, "doesn't own parsed file"),
        post("an unknown dataset", new(dataset_ids=["none"]), 102, Exactly("You don't own the dataset none")),
        post("a text as datasets", new(dataset_ids="none"), 102, Exactly("`dataset_ids` should be a list.")),
        post("an icon", new(icon="data:image/png;base64,AAAA"), 0, {"icon": "data:image/png;base64,AAAA"}),
        post("an unknown reranker", new(rerank_id="unknown"), 102, Exactly("`rerank_id` unknown doesn't exist")),
        post("somebody's tenant", new(tenant_id="x"), 102, Exactly("`tenant_id` must not be provided")),
        post("no way to answer", new(), 0, {"llm_setting": {}}),
        *[post(f"{key} {value!r}", new(llm_setting={key: value}), 0, {"llm_setting": {key: value}})
          for key in ("temperature", "top_p", "presence_penalty", "frequency_penalty", "max_token", "unknown")
          for value in (0, 1, -1, 10, "a")],
        post("a text as way to answer", new(llm_setting="x"), 102, Exactly("`llm_setting` should be an object.")),
        post("a text as prompt", new(prompt_config="x"), 102, Exactly("`prompt_config` should be an object.")),
        post("what a search is like", new(), 0, {"similarity_threshold": 0.1, "vector_similarity_weight": 0.3, "top_n": 6, "rerank_id": ""}),
        *[post(f"the {key} {value}", new(**{key: value}), 0, {key: value})
          for key in ("similarity_threshold", "vector_similarity_weight") for value in (0, 0.5, 1)],
        *[post(f"top_n {value}", new(top_n=value), 0, {"top_n": value}) for value in (0, 1, 10)],
        *[post(f"the {key} {value!r}", prompt(**{key: value}), 0, {"prompt_config": {key: value}})
          for key in ("empty_response", "prologue", "system") for value in ("Hello", "", "!@#$%^&*()", "中文测试", " ")],
        *[post(f"quote {value}", prompt(quote=value), 0, {"prompt_config": {"quote": value}}) for value in (True, False)],
        post("no variables", prompt(parameters=[]), 0, {"prompt_config": {"parameters": []}}),
        post("a prompt with what is found", prompt(system="x {knowledge}"), 0,
             {"prompt_config": {"parameters": [{"key": "knowledge", "optional": False}]}}),
        post("a variable that is not used", prompt(system="x", parameters=[{"key": "knowledge", "optional": False}]), 0, None),
        post("a variable twice", prompt(parameters=[{"key": "a"}, {"key": "a"}]), 102, "duplicate key: a"),
        post("an unknown field of the prompt", prompt(unknown="x"), 0, {"prompt_config": {"unknown": "x"}}),
        post("an unknown field", new(unknown="x"), 0, None),
    ]
    api.rows("create", rows)
    one, other = chat(api, name="one"), chat(api, name="other")
    path = f"{ALL}/{one}"
    patch = lambda what, sent, code, expected: (what, "PATCH", path, sent, code, expected)  # noqa: E731
    api.rows("change", [
        ("one", "GET", path, None, 0, {"id": one}),
        ("an unknown one", "GET", f"{ALL}/unknown", None, 109, NO_ACCESS),
        patch("a name", {"name": "renamed"}, 0, {"name": "renamed"}),
        patch("a name that is taken", {"name": "OTHER"}, 102, Exactly("duplicated chat name")),
        patch("an empty name", {"name": ""}, 102, Exactly("`name` cannot be empty")),
        patch("a number as name", {"name": 1}, 102, Exactly("chat name must be a string")),
        patch("datasets", {"dataset_ids": [dataset]}, 0, {"dataset_ids": [dataset]}),
        patch("no datasets", {"dataset_ids": []}, 0, {"dataset_ids": []}),
        patch("an unknown dataset", {"dataset_ids": ["none"]}, 102, Exactly("You don't own the dataset none")),
        patch("a part of the prompt", {"prompt_config": {"quote": False}}, 0, {"prompt_config": {"quote": False}}),
        patch("an unknown reranker", {"rerank_id": "unknown"}, 102, Exactly("`rerank_id` unknown doesn't exist")),
        ("the older way", "PUT", path, {"name": "put"}, 0, {"name": "put"}),
        ("an unknown one", "PATCH", f"{ALL}/unknown", {"name": "x"}, 109, NO_ACCESS),
        ("removed", "DELETE", f"{ALL}/{other}", None, 0, True),
        ("removed again", "DELETE", f"{ALL}/{other}", None, 109, NO_ACCESS),
    ])


def lists(api: Api) -> None:
    api.data("DELETE", ALL, {"ids": None, "delete_all": True})
    names = [f"chat_{place}" for place in range(5)]
    ids = [chat(api, name=name) for name in names]
    latest = names[::-1]
    listed = lambda wanted: lambda data: [one["name"] for one in data["chats"]] == wanted  # noqa: E731
    count = lambda wanted: lambda data: (len(data["chats"]), data["total"]) == (wanted, 5)  # noqa: E731
    get = lambda what, sent, code, expected: (what, "GET", ALL, sent, code, expected)  # noqa: E731
    api.rows("list", [
        get("all", None, 0, listed(latest)),
        *[get(f"page {page}", {"page": page, "page_size": 2}, 0, count(size))
          for page, size in ((1, 2), (2, 2), (3, 1), ("3", 1), (0, 5), (-1, 5), ("a", 5))],
        *[get(f"size {size} and no page", {"page_size": size}, 0, count(5)) for size in (0, 1, 6, "1", -1, "a")],
        get("by change", {"orderby": "update_time"}, 0, listed(latest)),
        get("by name", {"orderby": "name", "desc": "False"}, 0, listed(names)),
        get("by what there is not", {"orderby": "unknown"}, 101, Exactly("invalid orderby field: unknown")),
        *[get(f"desc {value}", {"desc": value}, 0, listed(latest)) for value in ("true", "True", True, "unknown")],
        *[get(f"desc {value}", {"desc": value}, 0, listed(names)) for value in ("false", "False", False)],
        get("of a word", {"keywords": "chat_1"}, 0, listed(["chat_1"])),
        get("of an unknown word", {"keywords": "unknown"}, 0, listed([])),
        get("of an id", {"id": ids[0]}, 0, listed(["chat_0"])),
        get("of an unknown id", {"id": "unknown"}, 0, listed([])),
        get("of a name", {"name": "chat_2"}, 0, listed(["chat_2"])),
        get("of foreign owners", {"owner_ids": "somebody"}, 103, Exactly("Only authorized owner_ids can be queried.")),
    ])
    delete = lambda what, sent, code, expected: (what, "DELETE", ALL, sent, code, expected)  # noqa: E731
    api.rows("remove", [
        delete("nothing", None, 0, {}),
        delete("no ids", {"ids": []}, 0, {}),
        delete("one", {"ids": ids[:1]}, 0, {"success_count": 1}),
        delete("one and an unknown one", {"ids": [ids[1], "x"]}, 0, {"success_count": 1, "errors": ["Chat(x) not found."]}),
        delete("one twice", {"ids": [ids[2]] * 2}, 0, {"success_count": 1, "errors": [f"Duplicate chat ids: {ids[2]}"]}),
        delete("unknown ones", {"ids": ["x", "y"]}, 102, Exactly("Chat(x) not found.; Chat(y) not found.")),
        delete("all", {"delete_all": True}, 0, {"success_count": 2}),
    ])


def sessions(api: Api) -> None:
    one = chat(api)
    path = f"{ALL}/{one}/sessions"
    post = lambda what, sent, code, expected: (what, "POST", path, sent, code, expected)  # noqa: E731
    empty = Exactly("`name` can not be empty")
    api.rows("sessions", [
        post("a name", {"name": "valid"}, 0, {"name": "valid", "chat_id": one}),
        post("the same name", {"name": "valid"}, 0, {"name": "valid"}),
        post("a name too long", {"name": "a" * 256}, 0, {"name": "a" * 255}),
        *[post(f"the name {name!r}", {"name": name}, 102, empty) for name in ("", " ", 1)],
        ("of an unknown chat", "POST", f"{ALL}/unknown/sessions", {"name": "x"}, 109, NO_ACCESS),
        ("of no chat", "POST", f"{ALL}//sessions", {"name": "x"}, 100, Exactly("<MethodNotAllowed '405: Method Not Allowed'>")),
    ])
    api.data("DELETE", path, {"delete_all": True})
    names = [f"session_{place}" for place in range(5)]
    ids = [api.data("POST", path, {"name": name})["id"] for name in names]
    latest = names[::-1]
    listed = lambda wanted: lambda data: [one["name"] for one in data] == wanted  # noqa: E731
    count = lambda wanted: lambda data: len(data) == wanted  # noqa: E731
    get = lambda what, sent, code, expected: (what, "GET", path, sent, code, expected)  # noqa: E731
    api.rows("sessions, listed", [
        get("all", None, 0, listed(latest)),
        *[get(f"page {page}", {"page": page, "page_size": 2}, 0, count(size))
          for page, size in ((0, 2), (2, 2), (3, 1), ("3", 1), (-1, 2), ("a", 2))],
        *[get(f"size {size}", {"page_size": size}, 0, count(number)) for size, number in ((0, 0), (1, 1), (6, 5), (-1, 5), ("a", 5))],
        get("by name", {"orderby": "name", "desc": "False"}, 0, listed(names)),
        get("by change", {"orderby": "update_time"}, 0, listed(latest)),
        get("the oldest first", {"desc": "false"}, 0, listed(names)),
        get("by what there is not", {"orderby": "unknown"}, 101, "invalid orderby field"),
        get("an id", {"id": ids[0]}, 0, listed(names[:1])),
        get("an unknown id", {"id": "unknown"}, 0, []),
        get("a name", {"name": names[1]}, 0, listed(names[1:2])),
        get("an unknown name", {"name": "unknown"}, 0, []),
        get("an id and another name", {"id": ids[0], "name": "x"}, 0, []),
        ("of an unknown chat", "GET", f"{ALL}/unknown/sessions", None, 109, NO_ACCESS),
    ])
    first = f"{path}/{ids[0]}"
    patch = lambda what, sent, code, expected: (what, "PATCH", first, sent, code, expected)  # noqa: E731
    not_found = Exactly("Session not found!")
    delete = lambda what, sent, code, expected: (what, "DELETE", path, sent, code, expected)  # noqa: E731
    foreign = "The chat doesn't own the session"
    api.rows("sessions, changed", [
        patch("a name", {"name": "renamed"}, 0, {"name": "renamed", "id": ids[0]}),
        patch("an empty name", {"name": ""}, 102, empty),
        patch("a number as name", {"name": 1}, 102, empty),
        patch("nothing", {}, 0, {"id": ids[0]}),
        patch("no body", None, 0, {"id": ids[0]}),
        patch("messages", {"messages": []}, 102, Exactly("`messages` cannot be changed")),
        patch("references", {"reference": []}, 102, Exactly("`reference` cannot be changed")),
        ("an unknown one", "PATCH", f"{path}/unknown", {"name": "x"}, 102, not_found),
        ("none", "PATCH", f"{path}/", {"name": "x"}, 100, Exactly("<MethodNotAllowed '405: Method Not Allowed'>")),
        ("an unknown one", "GET", f"{path}/unknown", None, 102, not_found),
        delete("nothing", None, 0, {}),
        delete("no ids", {"ids": []}, 0, {}),
        delete("no JSON", Raw(b"not json"), 101, MALFORMED),
        delete("an unknown one", {"ids": ["x"]}, 102, Exactly(f"{foreign} x")),
        delete("one", {"ids": ids[:1]}, 0, True),
        delete("the same again", {"ids": ids[:1]}, 102, f"{foreign} {ids[0]}"),
        delete("one and an unknown one", {"ids": [ids[1], "x"]}, 0, {"success_count": 1, "errors": [f"{foreign} x"]}),
        delete("one twice", {"ids": [ids[2]] * 2}, 0, {"success_count": 1, "errors": [f"Duplicate session ids: {ids[2]}"]}),
        delete("all", {"delete_all": True}, 0, True),
        get("none is left", None, 0, []),
    ])
    with ThreadPoolExecutor(5) as pool:
        codes = {answer.code for answer in pool.map(lambda place: api.ask("POST", path, {"name": f"s{place}"}), range(20))}
    api.holds("twenty at once are made", codes == {0} and len(api.data("GET", path, {"page_size": 30})) == 20)


def completions(api: Api) -> None:
    one = chat(api)
    session = api.data("POST", f"{ALL}/{one}/sessions", {"name": "s"})["id"]
    path = "/chat/completions"
    post = lambda what, sent, code, expected: (what, "POST", path, {"stream": False, **sent}, code, expected)  # noqa: E731
    has = lambda **fields: lambda data: all(data[key] == value for key, value in fields.items()) and bool(data["answer"])  # noqa: E731
    role = lambda name: [{"role": name, "content": "q"}]  # noqa: E731
    api.rows("ask", [
        post("in a session", {"chat_id": one, "session_id": session, "messages": SAID}, 0, has(session_id=session, chat_id=one)),
        post("without a session", {"chat_id": one, "messages": SAID}, 0, lambda data: data["session_id"] and data["answer"]),
        post("a model alone", {"messages": SAID}, 0, lambda data: data["answer"]),
        post("nothing", {"chat_id": one}, 101, Exactly("required argument are missing: messages")),
        post("no messages", {"chat_id": one, "messages": []}, 101, Exactly("`messages` must be a non-empty list.")),
        post("a message that is none", {"chat_id": one, "messages": ["x"]}, 101, Exactly("Every item in `messages` must be an object.")),
        post("a message without text", {"chat_id": one, "messages": [{"role": "user"}]}, 101, "must include `role` and `content`"),
        post("no question", {"chat_id": one, "messages": role("assistant")}, 101, Exactly("`messages` must contain a user message.")),
        post("an answer at the end", {"chat_id": one, "messages": [*SAID, *role("assistant")]}, 101, Exactly("The last message must be from user.")),
        post("a session without a chat", {"session_id": session, "messages": SAID}, 102,
             Exactly("`chat_id` is required when `session_id` is provided.")),
        post("an unknown session", {"chat_id": one, "session_id": "x", "messages": SAID}, 102, "Session not found!"),
        post("an unknown chat", {"chat_id": "x", "session_id": "x", "messages": SAID}, 109, NO_ACCESS),
        post("nothing kept of half", {"chat_id": one, "messages": SAID, "store_history_messages": False}, 102,
             "`pass_all_history_messages` must be true"),
        ("related questions without a question", "POST", "/chat/recommendation", {}, 101, "question is required"),
    ])
    stream(api, f"{ALL}/{one}/completions", {"question": "q"}, lambda last: json.loads(last)["data"] is True)
    stream(api, path, {"chat_id": one, "messages": SAID, "stream": True}, lambda last: json.loads(last)["data"] is True)
    openai = f"/openai/{one}/chat/completions"
    stream(api, openai, {"model": "model", "messages": SAID, "stream": True}, lambda last: last.strip() == "[DONE]")
    for what, extra, words in (
        ("a text as extra body", {"extra_body": "x"}, "extra_body must be an object."),
        ("a text as metadata", {"extra_body": {"reference_metadata": "x"}}, "reference_metadata must be an object."),
        ("a text as fields", {"extra_body": {"reference_metadata": {"fields": "x"}}}, "reference_metadata.fields must be an array."),
        ("a text as condition", {"extra_body": {"metadata_condition": "x"}}, "metadata_condition must be an object."),
        ("no messages", {"messages": []}, "You have to provide messages."),
        ("an answer at the end", {"messages": role("assistant")}, "The last content of this conversation is not from user."),
    ):
        answer = api.ask("POST", openai, {"model": "model", "messages": SAID, **extra})
        api.holds(f"{what} in OpenAI's shape: {answer.whole}", (answer.code, answer.message) == (102, words))
    unknown = api.ask("POST", "/openai/unknown/chat/completions", {"model": "model", "messages": SAID})
    api.holds("an unknown chat in OpenAI's shape", unknown.code == 102 and "don't own the chat" in unknown.message)
    extra = {"reference": True, "reference_metadata": {"include": True, "fields": ["author"]}}
    whole = api.ask("POST", openai, {"model": "model", "messages": SAID, "extra_body": extra}).whole
    choice, usage = whole["choices"][0], whole["usage"]
    api.holds("an answer in OpenAI's shape", (whole["object"], choice["finish_reason"]) == ("chat.completion", "stop"))
    api.holds("with sources when they are asked for", isinstance(choice["message"]["reference"], list))
    api.holds("with what it took", usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0)


def stream(api: Api, path: str, sent: dict, ends) -> None:
    got = api.send("POST", path, sent)
    frames = [line[5:] for line in got.text.splitlines() if line.startswith("data:")]
    kind = got.headers.get("Content-Type", "")
    api.holds(f"{path} is a stream: {kind}", kind.startswith("text/event-stream") and "charset=utf-8" in kind)
    api.holds(f"{path} ends as clients know it: {frames[-1:]}", frames and ends(frames[-1]))
    api.holds(f"{path} answers", len(frames) > 1 and all(json.loads(frame) for frame in frames[:-1]))


def deletion_of_datasets(api: Api) -> None:
    dataset = made(api)["id"]
    read(api, dataset, uploaded(api, dataset, "a.txt"))
    one = chat(api, dataset_ids=[dataset])
    api.data("DELETE", "/datasets", {"ids": [dataset]})
    api.holds("an assistant outlives its dataset", api.data("GET", f"{ALL}/{one}")["dataset_ids"] == [])


def tokens(api: Api) -> None:
    refused(api, [
        ("GET", ALL), ("POST", ALL), ("DELETE", ALL), ("GET", f"{ALL}/x"), ("PATCH", f"{ALL}/x"), ("GET", f"{ALL}/x/sessions"),
        ("POST", f"{ALL}/x/sessions"), ("DELETE", f"{ALL}/x/sessions"), ("PATCH", f"{ALL}/x/sessions/y"), ("POST", "/chat/completions"),
        ("POST", "/openai/x/chat/completions"),
    ])


def cases(api: Api) -> None:
    for part in (assistants, lists, sessions, completions, deletion_of_datasets, tokens):
        part(api)
