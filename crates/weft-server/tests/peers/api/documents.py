"""Documents: uploaded, listed, changed, parsed, removed, and their metadata."""

import json
import time
import uuid

from asking import Api, Exactly, Files, Raw, refused
from datasets import made

TEXT = b"The quick brown fox jumps over the lazy dog.\n"
UNKNOWN = "0f0e0d0c0b0a11ee8000000000000001"


def uploaded(api: Api, dataset: str, *names: str, text: bytes = TEXT) -> list[str]:
    files = Files((name, text) for name in names)
    return [one["id"] for one in api.data("POST", f"/datasets/{dataset}/documents", files)]


def read(api: Api, dataset: str, ids: list[str]) -> None:
    api.data("POST", f"/datasets/{dataset}/chunks", {"document_ids": ids})
    until = time.monotonic() + 120
    while time.monotonic() < until:
        docs = api.data("GET", f"/datasets/{dataset}/documents", {"page_size": 1000})["docs"]
        states = {one["run"] for one in docs if one["id"] in ids}
        if states == {"DONE"}:
            return
        assert not states & {"FAIL", "CANCEL"}, docs
        time.sleep(0.1)
    raise AssertionError("documents are not parsed in time")


def uploads(api: Api) -> None:
    dataset = made(api)["id"]
    path = f"/datasets/{dataset}/documents"
    post = lambda what, sent, code, expected: (what, "POST", path, sent, code, expected)  # noqa: E731
    file = lambda name, text=TEXT: Files([(name, text)])  # noqa: E731
    first = lambda key, value: lambda data: data[0][key] == value  # noqa: E731
    api.rows("upload", [
        post("a text", file("a.txt"), 0, first("run", "UNSTART")),
        post("the same name", file("a.txt"), 0, first("name", "a(1).txt")),
        post("the same name again", file("a.txt"), 0, first("name", "a(2).txt")),
        post("two at once", Files([("b.txt", TEXT), ("c.md", TEXT)]), 0, lambda data: [one["name"] for one in data] == ["b.txt", "c.md"]),
        post("an empty file", file("empty.txt", b""), 0, first("size", 0)),
        post("letters of several scripts", file("说明 ÄÖ.txt"), 0, first("name", "说明 ÄÖ.txt")),
        post("odd letters", file("a!@#$%^&()_+=[]{};',.txt"), 0, first("name", "a!@#$%^&()_+=[]{};',.txt")),
        post("the longest name", file("a" * 251 + ".txt"), 0, None),
        post("a name too long", file("a" * 252 + ".txt"), 101, Exactly("File name must be 255 bytes or less.")),
        post("an unknown kind", file("a.exe"), 500, Exactly("a.exe: This type of file has not been supported yet!")),
        post("no file", {}, 101, Exactly("No file part!")),
        post("a name that is none", file(""), 101, Exactly("No file selected!")),
        ("an unknown dataset", "POST", f"/datasets/{UNKNOWN}/documents", file("a.txt"), 102, UNKNOWN),
        *[post(f"a file {ending}", file(f"of.{ending}"), 0, None)
          for ending in ("docx", "xlsx", "pptx", "pdf", "jpg", "png", "md", "txt", "json", "eml", "html", "csv")],
    ])
    listed = api.data("GET", path, {"page_size": 100})
    api.holds("nothing of a refused upload is kept", not [one for one in listed["docs"] if "exe" in one["name"]])


def lists(api: Api) -> None:
    dataset = made(api)["id"]
    path = f"/datasets/{dataset}/documents"
    names = [f"file_{place}.txt" for place in range(5)]
    ids = []
    for name in names:
        ids += uploaded(api, dataset, name)
        time.sleep(0.005)
    latest = names[::-1]
    listed = lambda wanted: lambda data: [one["name"] for one in data["docs"]] == wanted  # noqa: E731
    count = lambda wanted: lambda data: len(data["docs"]) == wanted  # noqa: E731
    get = lambda what, sent, code, expected: (what, "GET", path, sent, code, expected)  # noqa: E731
    api.rows("list", [
        get("all", None, 0, listed(latest)),
        ("of an unknown dataset", "GET", f"/datasets/{UNKNOWN}/documents", None, 102, f"You don't own the dataset {UNKNOWN}."),
        *[get(f"page {page}", {"page": page, "page_size": 2}, 0, count(size))
          for page, size in ((1, 2), (2, 2), (3, 1), ("3", 1), (4, 0), (0, 2), (-1, 2), ("a", 2))],
        *[get(f"size {size}", {"page_size": size}, 0, count(number))
          for size, number in ((1, 1), ("1", 1), (6, 5), (0, 5), (-1, 5), ("a", 5))],
        get("by time, the oldest first", {"orderby": "create_time", "desc": "false"}, 0, listed(names)),
        get("by name", {"orderby": "name", "desc": "false"}, 0, listed(names)),
        get("by change", {"orderby": "update_time"}, 0, count(5)),
        get("of a word", {"keywords": "file_1"}, 0, listed(["file_1.txt"])),
        get("of a common word", {"keywords": "file"}, 0, count(5)),
        get("of an unknown word", {"keywords": "unknown"}, 0, count(0)),
        get("of a name", {"name": "file_0.txt"}, 0, listed(["file_0.txt"])),
        get("of an unknown name", {"name": "none.txt"}, 102, Exactly("you don't own the document none.txt.")),
        get("of an id", {"id": ids[0]}, 0, listed(["file_0.txt"])),
        get("of an empty id", {"id": ""}, 0, count(5)),
        get("of an unknown id", {"id": "none"}, 102, Exactly("you don't own the document none.")),
        get("of an id and its name", {"id": ids[0], "name": "file_0.txt"}, 0, count(1)),
        get("of an id and another name", {"id": ids[0], "name": "file_1.txt"}, 0, count(0)),
        get("of a kind", {"suffix": "txt"}, 0, count(5)),
        get("of another kind", {"suffix": "pdf"}, 0, count(0)),
        get("that wait", {"run": "UNSTART"}, 0, count(5)),
        get("that wait, as a number", {"run": "0"}, 0, count(5)),
        get("that are done", {"run": "DONE"}, 0, count(0)),
        get("with a state that there is none", {"run": "odd"}, 102, "Invalid filter run status conditions: odd"),
        get("since the beginning", {"create_time_from": 0}, 0, count(5)),
        get("an unknown parameter", {"unknown": 1}, 0, count(5)),
        get("a condition that is no JSON", {"metadata_condition": "{"}, 102, Exactly("metadata_condition must be valid JSON.")),
        get("a condition that nothing fits",
            {"metadata_condition": json.dumps({"conditions": [{"name": "author", "comparison_operator": "is", "value": "x"}]})},
            0, count(0)),
    ])
    shown = api.data("GET", path)["docs"][0]
    for key in ("id", "name", "dataset_id", "type", "size", "run", "progress", "chunk_count", "chunk_method",
                "parser_config", "thumbnail", "source_type", "created_by", "process_duration", "meta_fields"):
        api.holds(f"a document has {key}", key in shown)


def changes(api: Api) -> None:
    dataset = made(api)["id"]
    one, other = uploaded(api, dataset, "one.txt", "other.txt")
    path = f"/datasets/{dataset}/documents/{one}"
    patch = lambda what, sent, code, expected: (what, "PATCH", path, sent, code, expected)  # noqa: E731
    api.rows("change", [
        patch("a name", {"name": "renamed.txt"}, 0, {"name": "renamed.txt"}),
        patch("its own name", {"name": "renamed.txt"}, 0, None),
        patch("the longest name", {"name": "a" * 251 + ".txt"}, 0, None),
        patch("a name too long", {"name": "a" * 252 + ".txt"}, 101, Exactly("File name must be 255 bytes or less.")),
        patch("another ending", {"name": "renamed"}, 101, Exactly("The extension of file can't be changed")),
        patch("a name that is taken", {"name": "other.txt"}, 102, Exactly("Duplicated document name in the same dataset.")),
        patch("a number as name", {"name": 0}, 102, "name"),
        *[patch(f"the method {one}", {"chunk_method": one}, 0, {"chunk_method": one})
          for one in ("manual", "qa", "table", "paper", "book", "laws", "presentation", "picture", "one", "email", "tag", "naive")],
        patch("another method", {"chunk_method": "unknown"}, 102, "`chunk_method` unknown doesn't exist"),
        patch("settings", {"parser_config": {"chunk_token_num": 64}}, 0, {"parser_config": {"chunk_token_num": 64}}),
        patch("settings out of range", {"parser_config": {"chunk_token_num": -1}}, 102, "chunk_token_num"),
        patch("metadata", {"meta_fields": {"author": "Ada", "year": 1843}}, 0, {"meta_fields": {"author": "Ada", "year": 1843}}),
        patch("metadata that is none", {"meta_fields": "x"}, 102, "Input should be a valid dictionary"),
        patch("hidden", {"enabled": 0}, 0, {"status": "0"}),
        patch("found", {"enabled": True}, 0, {"status": "1"}),
        *[patch(f"{key} as it is not", {key: value}, 102, Exactly(f"can't change `{key}`"))
          for key, value in (("chunk_count", 7), ("token_count", 7), ("progress", 0.5))],
        patch("a token count of 0", {"token_count": 0}, 0, None),
        ("an unknown document", "PATCH", f"/datasets/{dataset}/documents/none", {"name": "x.txt"}, 102, "the dataset doesn't own the document"),
        ("an unknown dataset", "PATCH", f"/datasets/{UNKNOWN}/documents/{one}", {"name": "x.txt"}, 102, "you don't own the dataset"),
        ("a file of an unknown dataset", "GET", f"/datasets/{UNKNOWN}/documents/{other}", None, 102, "document not found"),
    ])
    got = api.send("GET", f"/datasets/{dataset}/documents/{other}")
    api.holds("the file is as it was sent", got.status_code == 200 and got.content == TEXT)


def reading(api: Api) -> None:
    dataset = made(api)["id"]
    ids = uploaded(api, dataset, "a.txt", "b.txt", "c.txt")
    chunks, parse = f"/datasets/{dataset}/chunks", f"/datasets/{dataset}/documents/parse"
    stop = f"/datasets/{dataset}/documents/stop"
    missing = lambda *ids: Exactly(f"Documents not found: {list(ids)}")  # noqa: E731
    api.rows("read", [
        ("nothing", "POST", chunks, {}, 102, Exactly("`document_ids` is required")),
        ("no ids", "POST", chunks, {"document_ids": []}, 102, Exactly("`document_ids` is required")),
        ("a text", "POST", chunks, Raw(b'"x"'), 100, "object has no attribute"),
        ("an unknown document", "POST", chunks, {"document_ids": ["none"]}, 102, missing("none")),
        ("one of them unknown", "POST", chunks, {"document_ids": ["none", ids[0]]}, 102, missing("none")),
        ("an unknown dataset", "POST", f"/datasets/{UNKNOWN}/chunks", {"document_ids": ids}, 102, f"You don't own the dataset {UNKNOWN}."),
        ("one twice", "POST", chunks, {"document_ids": [ids[1], ids[1]]}, 0,
         {"success_count": 1, "errors": [f"Duplicate document ids: {ids[1]}"]}),
        ("on the newer route", "POST", parse, {"document_ids": [ids[2]]}, 0, {"success_count": 1}),
        ("nothing, on the newer route", "POST", parse, {"document_ids": []}, 102, Exactly("`document_ids` is required")),
    ])
    read(api, dataset, ids)
    shown = api.data("GET", f"/datasets/{dataset}/documents", {"id": ids[0]})["docs"][0]
    right = shown["progress"] == 1.0 and shown["chunk_count"] > 0 and shown["process_duration"] >= 0
    api.holds("parsed documents have their final state", right)
    over = "Can't stop parsing document that has not started or already completed"
    api.rows("stop", [
        ("nothing", "DELETE", chunks, {}, 102, Exactly("`document_ids` is required")),
        ("a parsed document", "DELETE", chunks, {"document_ids": [ids[0]]}, 102, over),
        ("an unknown document", "DELETE", chunks, {"document_ids": ["none"]}, 102, "you don't own the document none"),
        ("a parsed document, on the newer route", "POST", stop, {"document_ids": [ids[0]]}, 0, None),
        ("an unknown document, on the newer route", "POST", stop, {"document_ids": ["none"]}, 102, missing("none")),
    ])
    many = uploaded(api, dataset, *[f"many_{place}.txt" for place in range(30)])
    read(api, dataset, many)
    api.holds("thirty documents are read", True)


def removal(api: Api) -> None:
    dataset = made(api)["id"]
    ids = uploaded(api, dataset, "a.txt", "b.txt", "c.txt", "d.txt")
    path = f"/datasets/{dataset}/documents"
    delete = lambda what, sent, code, expected: (what, "DELETE", path, sent, code, expected)  # noqa: E731
    count = lambda wanted: ("how many", "GET", path, None, 0, {"total": wanted})  # noqa: E731
    foreign = "These documents do not belong to dataset"
    api.rows("remove", [
        delete("nothing", None, 102, "should either provide doc ids or set delete_all(true)"),
        delete("no ids", {"ids": []}, 102, "should either provide doc ids or set delete_all(true)"),
        delete("an unknown id", {"ids": ["none"]}, 102, foreign),
        delete("an unknown id among others", {"ids": [*ids, "none"]}, 102, foreign),
        delete("an id twice", {"ids": [ids[0], ids[0]]}, 101, "Duplicate ids"),
        count(4),
        delete("one", {"ids": ids[:1]}, 0, {"deleted": 1}),
        delete("the same again", {"ids": ids[:1]}, 102, foreign),
        count(3),
        delete("all", {"delete_all": True}, 0, {"deleted": 3}),
        count(0),
        ("of an unknown dataset", "DELETE", f"/datasets/{UNKNOWN}/documents", {"ids": ids}, 102, UNKNOWN),
    ])


def metadata(api: Api) -> None:
    dataset = made(api)["id"]
    ids = uploaded(api, dataset, "a.txt", "b.txt")
    path = f"/datasets/{dataset}/documents/metadatas"
    patch = lambda what, sent, code, expected: (what, "PATCH", path, sent, code, expected)  # noqa: E731
    summary = f"/datasets/{dataset}/metadata/summary"
    api.rows("metadata", [
        patch("of both", {"selector": {"document_ids": ids}, "updates": [{"key": "author", "value": "Ada"}]}, 0,
              {"updated": 2, "matched_docs": 2}),
        ("metadata is summarized", "GET", summary, None, 0, {"summary": {"author": {"type": "string", "values": [["Ada", 2]]}}}),
        patch("is gone", {"selector": {"document_ids": [ids[0]]}, "deletes": [{"key": "author"}]}, 0, {"updated": 1}),
        patch("no list", {"updates": {}}, 102, Exactly("updates and deletes must be lists.")),
        patch("no key", {"updates": [{"value": "x"}]}, 102, Exactly("Each update requires key and value.")),
        patch("no key to remove", {"deletes": [{}]}, 102, Exactly("Each delete requires key.")),
        patch("a selector that is none", {"selector": [1]}, 102, Exactly("selector must be an object.")),
        patch("ids that are none", {"selector": {"document_ids": "x"}}, 102, Exactly("document_ids must be a list.")),
        patch("a foreign document", {"selector": {"document_ids": [uuid.uuid1().hex]}, "updates": []}, 102, "do not belong to dataset"),
        ("of an unknown dataset", "PATCH", f"/datasets/{UNKNOWN}/documents/metadatas", {"updates": []}, 102, "You don't own the dataset"),
    ])


def addresses(api: Api) -> None:
    dataset = made(api)["id"]
    one = uploaded(api, dataset, "a.txt")[0]
    api.holds("the file by its id alone", api.send("GET", f"/documents/{one}").headers["content-disposition"].startswith("attachment"))
    api.rows("addresses", [
        ("an unknown document", "GET", "/documents/invalid_document_id", None, 102, Exactly("document not found")),
        ("a picture", "GET", "/documents/images/not-a-valid-image-id", None, 102, Exactly("Image not found.")),
        ("a program", "GET", "/documents/artifact/not-an-artifact.exe", None, 102, Exactly("invalid file type")),
        ("no artifact", "GET", "/documents/artifact/not-an-artifact.txt", None, 102, Exactly("Artifact not found.")),
        ("no dataset in the address", "POST", "/datasets//documents/parse", {"document_ids": [one]}, 100, "Method Not Allowed"),
        ("a method of documents alone", "PATCH", f"/datasets/{dataset}/documents/{one}", {"chunk_method": "knowledge_graph"}, 0,
         {"chunk_method": "knowledge_graph"}),
        ("an empty file of an unknown kind", "POST", f"/datasets/{dataset}/documents", Files([("a.unknown", b"")]), 500,
         Exactly("a.unknown: This type of file has not been supported yet!")),
    ])
    refused(api, [("GET", f"/documents/{one}"), ("GET", "/documents/images/x"), ("GET", "/documents/d/thumbnail"),
                  ("GET", "/documents/artifact/x.txt")])


def tokens(api: Api) -> None:
    dataset = made(api)["id"]
    path = f"/datasets/{dataset}/documents"
    one = uploaded(api, dataset, "a.txt")[0]
    refused(api, [
        ("GET", path), ("POST", path), ("DELETE", path), ("PATCH", f"{path}/{one}"), ("GET", f"{path}/{one}"),
        ("POST", f"/datasets/{dataset}/chunks"), ("DELETE", f"/datasets/{dataset}/chunks"),
    ])


def cases(api: Api) -> None:
    for part in (uploads, lists, changes, reading, removal, metadata, addresses, tokens):
        part(api)
