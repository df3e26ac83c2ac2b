"""Chunks, and searches of datasets."""

from concurrent.futures import ThreadPoolExecutor

from asking import Api, Exactly, refused
from datasets import made
from documents import UNKNOWN, read, uploaded

KEYWORDS = ("important_keywords", "questions", "tag_kwd")


def fresh(api: Api) -> tuple[str, str]:
    """A document without chunks, and its path."""
    dataset = made(api)["id"]
    document = uploaded(api, dataset, "chunks.txt")[0]
    return dataset, f"/datasets/{dataset}/documents/{document}/chunks"


def added(api: Api, path: str, count: int) -> list[str]:
    return [api.data("POST", path, {"content": f"chunk test {place}"})["chunk"]["id"] for place in range(count)]


def creation(api: Api) -> None:
    dataset, path = fresh(api)
    document = path.split("/")[4]
    post = lambda what, sent, code, expected: (what, "POST", path, sent, code, expected)  # noqa: E731
    shows = lambda **fields: lambda data: all(data["chunk"][key] == value for key, value in fields.items())  # noqa: E731
    api.rows("add", [
        post("a text", {"content": "a"}, 0, shows(content="a", dataset_id=dataset, document_id=document)),
        post("punctuation", {"content": "\n!?。；！？\"'"}, 0, shows(content="\n!?。；！？\"'")),
        *[post(f"the content {text!r}", {"content": text}, 102, Exactly("`content` is required")) for text in (None, "", " ", "\n\t ")],
        post("no content", {}, 102, Exactly("`content` is required")),
        *[post(f"{key} {value}", {"content": "a", key: value}, 0, shows(**{key: value}))
          for key in KEYWORDS for value in (["a", "b", "c"], ["a", "a"], [])],
        post("an empty keyword", {"content": "a", "important_keywords": [""]}, 0, shows(important_keywords=[""])),
        post("an empty question", {"content": "a", "questions": ["", " q "]}, 0, shows(questions=["q"])),
        *[post(f"{key} {value!r}", {"content": "a", key: value}, 102, Exactly(f"`{key}` is required to be a list"))
          for key in KEYWORDS for value in ("abc", 123)],
        *[post(f"{key} [1]", {"content": "a", key: [1]}, 102, Exactly(f"`{key}` must be a list of strings")) for key in KEYWORDS],
        ("to an unknown dataset", "POST", path.replace(dataset, UNKNOWN), {"content": "a"}, 102, f"You don't own the dataset {UNKNOWN}."),
        ("to an unknown document", "POST", path.replace(document, "none"), {"content": "a"}, 102, "you don't own the document none"),
    ])
    before = api.data("GET", path)["doc"]["chunk_count"]
    with ThreadPoolExecutor(5) as pool:
        codes = {answer.code for answer in pool.map(lambda place: api.ask("POST", path, {"content": f"at once {place}"}), range(50))}
    after = api.data("GET", path)["doc"]["chunk_count"]
    api.holds("fifty at once are added and counted", codes == {0} and after == before + 50)


def lists(api: Api) -> None:
    dataset, path = fresh(api)
    ids = [api.data("POST", path, {"content": "quick fox"})["chunk"]["id"], *added(api, path, 4)]
    count = lambda wanted: lambda data: len(data["chunks"]) == wanted  # noqa: E731
    get = lambda what, sent, code, expected: (what, "GET", path, sent, code, expected)  # noqa: E731
    api.rows("list", [
        get("all", None, 0, {"total": 5}),
        *[get(f"page {page}", {"page": page, "page_size": 2}, 0, count(size))
          for page, size in ((2, 2), (3, 1), ("3", 1), (0, 2), (-1, 2), ("a", 2))],
        *[get(f"size {size}", {"page_size": size}, 0, count(number))
          for size, number in ((1, 1), ("1", 1), (6, 5), (0, 5), (-1, 5), ("a", 5))],
        get("a word", {"keywords": "1"}, 0, {"total": 1}),
        get("a common word", {"keywords": "chunk"}, 0, {"total": 4}),
        get("another word", {"keywords": "fox"}, 0, {"total": 1}),
        get("no word", {"keywords": ""}, 0, {"total": 5}),
        get("an unknown word", {"keywords": "unknown"}, 0, {"total": 0}),
        get("an id", {"id": ids[0]}, 0, lambda data: [one["id"] for one in data["chunks"]] == ids[:1]),
        get("an empty id", {"id": ""}, 0, {"total": 5}),
        get("an unknown id", {"id": "unknown"}, 102, Exactly(f"Chunk not found: {dataset}/unknown")),
        get("an unknown parameter", {"unknown": 1}, 0, {"total": 5}),
        ("one", "GET", f"{path}/{ids[0]}", None, 0, {"id": ids[0], "content": "quick fox", "content_with_weight": "quick fox",
                                                     "doc_id": path.split("/")[4]}),
        ("an unknown one", "GET", f"{path}/unknown", None, 102, Exactly("Chunk not found!")),
    ])
    with ThreadPoolExecutor(5) as pool:
        totals = {answer.data["total"] for answer in pool.map(lambda _: api.ask("GET", path), range(30))}
    api.holds("thirty lists at once agree", totals == {5})


def changes(api: Api) -> None:
    dataset, path = fresh(api)
    ids = added(api, path, 4)
    one = f"{path}/{ids[0]}"
    patch = lambda what, sent, code, expected: (what, "PATCH", one, sent, code, expected)  # noqa: E731
    api.rows("change", [
        patch("a text", {"content": "changed"}, 0, None),
        ("which is shown", "GET", one, None, 0, {"content": "changed"}),
        patch("null as text", {"content": None}, 0, None),
        patch("an empty text", {"content": ""}, 102, Exactly("`content` is required")),
        patch("a blank text", {"content": " "}, 102, Exactly("`content` is required")),
        *[patch(f"available {value!r}", {"available": value}, 0, None) for value in (True, 1, False, 0)],
        *[patch(f"available {value!r}", {"available": value}, 100, "invalid literal for int()") for value in ("True", "False", "x")],
        *[patch(f"{key} {value}", {key: value}, 0, None) for key in KEYWORDS for value in (["a", "b"], [""], ["a", "a"], [])],
        *[patch(f"{key} {value!r}", {key: value}, 102, Exactly(f"`{key}` should be a list")) for key in KEYWORDS for value in ("abc", 123)],
        *[patch(f"{key} [1]", {key: [1]}, 100, "TypeError") for key in KEYWORDS[:2]],
        patch("tags [1]", {"tag_kwd": [1]}, 102, Exactly("`tag_kwd` must be a list of strings")),
        patch("nothing", {}, 0, None),
        patch("an unknown field", {"unknown": 1}, 0, None),
        ("the older way", "PUT", one, {"content": "put"}, 0, None),
        ("an unknown chunk", "PATCH", f"{path}/unknown", {"content": "a"}, 102, Exactly("Can't find this chunk unknown")),
        ("an unknown document", "PATCH", one.replace(path.split("/")[4], "none"), {"content": "a"}, 102, "you don't own the document none"),
        ("switched without ids", "PATCH", path, {"available": True}, 102, Exactly("`chunk_ids` is required.")),
        ("switched without a state", "PATCH", path, {"chunk_ids": ids}, 102, Exactly("`available_int` or `available` is required.")),
        ("switched off", "PATCH", path, {"chunk_ids": ids, "available": False}, 0, True),
        ("switched on", "PATCH", path, {"chunk_ids": ids, "available_int": 1}, 0, True),
    ])
    ask = lambda place: api.ask("PATCH", f"{path}/{ids[place % 4]}", {"content": f"at once {place}"})  # noqa: E731
    with ThreadPoolExecutor(5) as pool:
        codes = [answer.code for answer in pool.map(ask, range(40))]
    api.holds(f"forty changes at once are made: {set(codes)}", set(codes) == {0})


def removal(api: Api) -> None:
    dataset, path = fresh(api)
    ids = added(api, path, 6)
    delete = lambda what, sent, code, expected: (what, "DELETE", path, sent, code, expected)  # noqa: E731
    total = lambda wanted: ("how many", "GET", path, None, 0, {"total": wanted})  # noqa: E731
    api.rows("remove", [
        delete("nothing", None, 0, None),
        delete("no ids", {"chunk_ids": []}, 0, None),
        total(6),
        delete("an unknown one", {"chunk_ids": ["unknown"]}, 102, Exactly("rm_chunk deleted chunks 0, expect 1")),
        delete("one", {"chunk_ids": ids[:1]}, 0, None),
        delete("one and an unknown one", {"chunk_ids": [ids[1], "unknown"]}, 102, Exactly("rm_chunk deleted chunks 1, expect 2")),
        total(4),
        delete("one twice", {"chunk_ids": [ids[2]] * 2}, 0, {"success_count": 1, "errors": [f"Duplicate chunk ids: {ids[2]}"]}),
        delete("the same again", {"chunk_ids": ids[:1]}, 102, Exactly("rm_chunk deleted chunks 0, expect 1")),
        total(3),
        delete("all", {"delete_all": True}, 0, None),
        total(0),
        ("of an unknown document", "DELETE", path.replace(path.split("/")[4], "none"), {"chunk_ids": ids}, 102, "you don't own the document none"),
    ])
    ids = added(api, path, 20)
    with ThreadPoolExecutor(5) as pool:
        codes = {answer.code for answer in pool.map(lambda one: api.ask("DELETE", path, {"chunk_ids": [one]}), ids)}
    api.holds("twenty at once are removed", codes == {0} and api.data("GET", path)["total"] == 0)


def retrieval(api: Api) -> None:
    dataset, empty = made(api)["id"], made(api)["id"]
    document, other = uploaded(api, dataset, "fox.txt", "other.txt")
    read(api, dataset, [document, other])
    path = f"/datasets/{dataset}/documents/{document}/chunks"
    for place in range(4):
        api.data("POST", path, {"content": f"a fox of the kind {place}"})
    api.data("PATCH", f"/datasets/{dataset}/documents/{document}", {"meta_fields": {"author": "Ada"}})
    ask = lambda what, sent, code, expected: (  # noqa: E731
        what, "POST", "/retrieval", {"question": "fox", "dataset_ids": [dataset], "similarity_threshold": 0, **sent}, code, expected)
    count = lambda wanted: lambda data: len(data["chunks"]) == wanted  # noqa: E731
    some = lambda data: len(data["chunks"]) > 0  # noqa: E731
    marked = lambda data: some(data) and all("<em>" in one["highlight"] for one in data["chunks"])  # noqa: E731
    plain = lambda data: some(data) and all("highlight" not in one for one in data["chunks"])  # noqa: E731
    by = lambda **condition: {"metadata_condition": {"conditions": [{"name": "author", "comparison_operator": "is", **condition}]}}  # noqa: E731
    api.rows("retrieve", [
        ask("a word", {}, 0, some),
        ask("in an empty dataset, too", {"dataset_ids": [dataset, empty]}, 0, some),
        ("no datasets", "POST", "/retrieval", {"question": "fox"}, 102, Exactly("`dataset_ids` is required.")),
        ("no question", "POST", "/retrieval", {"dataset_ids": [dataset]}, 102, Exactly("`question` is required.")),
        ask("a text as datasets", {"dataset_ids": "x"}, 102, Exactly("`dataset_ids` should be a list")),
        ask("an unknown dataset", {"dataset_ids": ["none"]}, 102, Exactly("You don't own the dataset none.")),
        ask("a document", {"document_ids": [other]}, 0, lambda data: {one["document_id"] for one in data["chunks"]} == {other}),
        ask("a text as documents", {"document_ids": "x"}, 102, Exactly("`documents` should be a list")),
        ask("an unknown document", {"document_ids": ["none"]}, 102, Exactly("The datasets don't own the document none")),
        *[ask(f"page {page}", {"page": page, "page_size": 2}, 0, count(2)) for page in (0, 1, 2, "2", -1)],
        *[ask(f"size {size!r}", {"page_size": size}, 0, count(1)) for size in (1, "1")],
        *[ask(f"{key} null", {key: None}, 100, "TypeError") for key in ("page", "page_size")],
        *[ask(f"{key} a", {key: "a"}, 100, "invalid literal for int() with base 10: 'a'") for key in ("page", "page_size", "top_k")],
        *[ask(f"weight {weight}", {"vector_similarity_weight": weight}, 0, some) for weight in (0, 0.5, 1)],
        ask("a weight out of range", {"vector_similarity_weight": 10}, 0, None),
        ask("a text as weight", {"vector_similarity_weight": "a"}, 100, "could not convert string to float"),
        ask("a text as threshold", {"similarity_threshold": "a"}, 100, "could not convert string to float"),
        *[ask(f"top_k {top_k}", {"top_k": top_k}, 0, some) for top_k in (1, 10, 1024)],
        *[ask(f"top_k {top_k}", {"top_k": top_k}, 102, Exactly("`top_k` must be greater than 0")) for top_k in (0, -1)],
        *[ask(f"highlight {value!r}", {"highlight": value}, 0, marked) for value in (True, "True")],
        *[ask(f"highlight {value!r}", {"highlight": value}, 0, plain) for value in (False, "False", None)],
        ask("another highlight", {"highlight": "odd"}, 102, Exactly("`highlight` should be a boolean")),
        *[ask(f"keyword {value!r}", {"keyword": value}, 0, some) for value in (False, "False", None)],
        ask("a reranker that there is not", {"rerank_id": "none"}, 102, "none"),
        ask("by metadata", by(value="Ada"), 0, lambda data: {one["document_id"] for one in data["chunks"]} == {document}),
        ask("by metadata that nothing has", by(value="none"), 0, count(0)),
        ask("an unknown field", {"unknown": 1}, 0, some),
    ])
    hit = api.data("POST", "/retrieval", {"question": "fox", "dataset_ids": [dataset]})["chunks"][0]
    for key in ("id", "content", "document_id", "document_keyword", "dataset_id", "similarity", "vector_similarity",
                "term_similarity", "positions", "important_keywords", "image_id", "content_ltks"):
        api.holds(f"a hit has {key}", key in hit)
    with ThreadPoolExecutor(5) as pool:
        sent = {"question": "fox", "dataset_ids": [dataset]}
        codes = {answer.code for answer in pool.map(lambda _: api.ask("POST", "/retrieval", sent), range(50))}
    api.holds("fifty questions at once are answered", codes == {0})


def deleted(api: Api) -> None:
    """Removed chunks are no longer found."""
    dataset, path = fresh(api)
    word = "unmistakable"
    asked = {"question": word, "dataset_ids": [dataset], "similarity_threshold": 0}
    found = lambda: {one["id"] for one in api.data("POST", "/retrieval", asked)["chunks"]}  # noqa: E731
    ids = [api.data("POST", path, {"content": f"{word} {place}"})["chunk"]["id"] for place in range(3)]
    api.holds("added chunks are found", found() == set(ids))
    api.data("DELETE", path, {"chunk_ids": ids[:1]})
    api.holds("removed chunks are not found", found() == set(ids[1:]))
    api.data("PATCH", f"{path}/{ids[1]}", {"available": 0})
    api.holds("hidden chunks are not found", found() == set(ids[2:]))
    api.data("DELETE", path, {"chunk_ids": ids[1:]})
    api.holds("nothing is left", found() == set())


def tokens(api: Api) -> None:
    _, path = fresh(api)
    refused(api, [("GET", path), ("POST", path), ("PATCH", path), ("DELETE", path), ("PATCH", f"{path}/x"), ("POST", "/retrieval")])


def cases(api: Api) -> None:
    for part in (creation, lists, changes, removal, retrieval, deleted, tokens):
        part(api)
