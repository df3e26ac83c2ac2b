"""Datasets."""

import uuid
from concurrent.futures import ThreadPoolExecutor

from asking import Api, Exactly, Raw, refused

ALL = "/datasets"
MALFORMED = Exactly("Malformed JSON syntax: Missing commas/brackets or invalid encoding")
ONE_LETTER = "String should have at least 1 character"
METHODS = ("naive", "book", "email", "laws", "manual", "one", "paper", "picture", "presentation", "qa", "table", "tag")
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def field(name: str, message: str) -> str:
    return f"Field: <{name}> - Message: <{message}>"


def wrong_settings() -> list[tuple[dict, str, str]]:
    """Settings of a chunk method that are refused, with the field and the message."""
    rows = []
    for key, low, high in (
        ("auto_keywords", -1, 33), ("auto_questions", -1, 11), ("chunk_token_num", 0, 2049), ("topn_tags", 0, 11),
    ):
        for value, words in ((low, "greater than or equal to"), (high, "less than or equal to"), ("text", "valid integer")):
            rows.append(({key: value}, f"parser_config.{key}", words))
        rows.append(({key: 3.14}, f"parser_config.{key}", "integer"))
    rows += [
        ({"delimiter": ""}, "parser_config.delimiter", ONE_LETTER),
        ({"html4excel": "text"}, "parser_config.html4excel", "valid boolean"),
        ({"tag_kb_ids": "x"}, "parser_config.tag_kb_ids", "valid list"),
        ({"filename_embd_weight": 1.5}, "parser_config.filename_embd_weight", "less than or equal to 1"),
        ({"filename_embd_weight": -0.1}, "parser_config.filename_embd_weight", "greater than or equal to 0"),
        ({"task_page_size": 0}, "parser_config.task_page_size", "greater than or equal to 1"),
        ({"pages": "x"}, "parser_config.pages", "valid list"),
        ({"raptor": {"use_raptor": "text"}}, "parser_config.raptor.use_raptor", "valid boolean"),
        ({"raptor": {"prompt": ""}}, "parser_config.raptor.prompt", ONE_LETTER),
        ({"raptor": {"max_token": 0}}, "parser_config.raptor.max_token", "greater than or equal to 1"),
        ({"raptor": {"max_token": 2049}}, "parser_config.raptor.max_token", "less than or equal to 2048"),
        ({"raptor": {"threshold": -0.1}}, "parser_config.raptor.threshold", "greater than or equal to 0"),
        ({"raptor": {"threshold": 1.1}}, "parser_config.raptor.threshold", "less than or equal to 1"),
        ({"raptor": {"max_cluster": 0}}, "parser_config.raptor.max_cluster", "greater than or equal to 1"),
        ({"raptor": {"max_cluster": 1025}}, "parser_config.raptor.max_cluster", "less than or equal to 1024"),
        ({"raptor": {"random_seed": -1}}, "parser_config.raptor.random_seed", "greater than or equal to 0"),
        ({"raptor": {"random_seed": 3.14}}, "parser_config.raptor.random_seed", "integer"),
        ({"graphrag": {"use_graphrag": "text"}}, "parser_config.graphrag.use_graphrag", "valid boolean"),
        ({"graphrag": {"entity_types": "1,2"}}, "parser_config.graphrag.entity_types", "valid list"),
        ({"graphrag": {"entity_types": [1]}}, "parser_config.graphrag.entity_types", "valid string"),
        ({"graphrag": {"method": "unknown"}}, "parser_config.graphrag.method", "Input should be"),
        ({"graphrag": {"community": "text"}}, "parser_config.graphrag.community", "valid boolean"),
        ({"graphrag": {"resolution": "text"}}, "parser_config.graphrag.resolution", "valid boolean"),
        ({"invalid": 1}, "parser_config.invalid", "Extra inputs are not permitted"),
    ]
    return rows


RIGHT_SETTINGS = [
    {"auto_keywords": 0}, {"auto_keywords": 32}, {"auto_questions": 10}, {"chunk_token_num": 1},
    {"chunk_token_num": 2048}, {"delimiter": "\t"}, {"delimiter": "`||`"}, {"html4excel": True},
    {"layout_recognize": "DeepDOC"}, {"layout_recognize": "navie"}, {"tag_kb_ids": ["1", "2"]}, {"topn_tags": 10},
    {"filename_embd_weight": 0.5}, {"task_page_size": 1}, {"pages": [[1, 100]]}, {"pages": []},
    {"raptor": {"use_raptor": False, "prompt": "Tell {cluster_content}", "max_token": 2048, "threshold": 0.5,
                "max_cluster": 1024, "random_seed": 0}},
    {"graphrag": {"use_graphrag": True, "entity_types": ["age", "sex"], "method": "light", "community": True}},
    {"graphrag": {"method": "general", "resolution": False}},
]


def made(api: Api, **fields) -> dict:
    return api.data("POST", ALL, {"name": f"d-{uuid.uuid4().hex[:12]}", **fields})


def creation(api: Api) -> None:
    api.data("DELETE", ALL, {"ids": None, "delete_all": True})
    new = lambda **fields: {"name": f"n-{uuid.uuid4().hex[:12]}", **fields}  # noqa: E731
    api.rows("create", [
        ("nothing", "POST", ALL, None, 101, MALFORMED),
        ("broken", "POST", ALL, Raw(b"a"), 101, MALFORMED),
        ("a text", "POST", ALL, Raw(b'"a"'), 101, "Invalid request payload: expected object, got str"),
        ("no name", "POST", ALL, {}, 101, field("name", "Field required")),
        ("null as name", "POST", ALL, {"name": None}, 101, field("name", "Input should be a valid string")),
        ("a number as name", "POST", ALL, {"name": 0}, 101, field("name", "Input should be a valid string")),
        ("empty name", "POST", ALL, {"name": ""}, 101, ONE_LETTER),
        ("blank name", "POST", ALL, {"name": " "}, 101, ONE_LETTER),
        ("long name", "POST", ALL, {"name": "a" * 129}, 101, "String should have at most 128 characters"),
        ("longest name", "POST", ALL, {"name": "a" * 128}, 0, {"name": "a" * 128}),
        ("name with blanks around", "POST", ALL, {"name": "  trimmed "}, 0, {"name": "trimmed"}),
        ("the same again", "POST", ALL, {"name": "trimmed"}, 0, {"name": "trimmed(1)"}),
        ("the same in capitals", "POST", ALL, {"name": "TRIMMED"}, 0, {"name": "TRIMMED(2)"}),
        ("letters of several scripts", "POST", ALL, {"name": "数据集 ÄÖ 🦊"}, 0, {"name": "数据集 ÄÖ 🦊"}),
        ("quotation marks", "POST", ALL, {"name": "a'; DROP TABLE \"x\" --"}, 0, {"name": "a'; DROP TABLE \"x\" --"}),
        ("an avatar", "POST", ALL, new(avatar=PICTURE), 0, {"avatar": PICTURE}),
        ("null as avatar", "POST", ALL, new(avatar=None), 0, {"avatar": None}),
        ("an avatar too long", "POST", ALL, new(avatar="a" * 65536), 101, "String should have at most 65535 characters"),
        ("an avatar without prefix", "POST", ALL, new(avatar="abc"), 101, "missing MIME prefix"),
        ("an avatar with half a prefix", "POST", ALL, new(avatar="image/png;base64,abc"), 101, "invalid MIME prefix format"),
        ("an avatar of a wrong type", "POST", ALL, new(avatar="data:image/gif;base64,abc"), 101, "Unsupported MIME type"),
        ("a description", "POST", ALL, new(description="for people"), 0, {"description": "for people"}),
        ("null as description", "POST", ALL, new(description=None), 0, {"description": None}),
        ("a description too long", "POST", ALL, new(description="a" * 65536), 101, "at most 65535 characters"),
        ("null as model", "POST", ALL, new(embedding_model=None), 0, None),
        ("a model without provider", "POST", ALL, new(embedding_model="m"), 101, "<model_name>@<provider>"),
        ("an empty model", "POST", ALL, new(embedding_model=""), 101, "<model_name>@<provider>"),
        ("a blank model", "POST", ALL, new(embedding_model=" "), 101, "<model_name>@<provider>"),
        ("a model without a name", "POST", ALL, new(embedding_model="@p"), 101, "must be non-empty strings"),
        ("a model of nobody", "POST", ALL, new(embedding_model="m@"), 101, "must be non-empty strings"),
        ("an unknown provider", "POST", ALL, new(embedding_model="m@nobody"), 102, "not found"),
        ("for the team", "POST", ALL, new(permission="team"), 0, {"permission": "team"}),
        ("no permission", "POST", ALL, new(), 0, {"permission": "me"}),
        ("an empty permission", "POST", ALL, new(permission=""), 101, "Input should be 'me' or 'team'"),
        ("another permission", "POST", ALL, new(permission="all"), 101, "Input should be 'me' or 'team'"),
        ("capitals as permission", "POST", ALL, new(permission="ME"), 101, "Input should be 'me' or 'team'"),
        ("a number as permission", "POST", ALL, new(permission=1), 101, "Input should be 'me' or 'team'"),
        ("no method", "POST", ALL, new(), 0, {"chunk_method": "naive", "parser_config": {"chunk_token_num": 512}}),
        ("an empty method", "POST", ALL, new(chunk_method=""), 101, "Input should be 'naive', 'book', 'email'"),
        ("another method", "POST", ALL, new(chunk_method="unknown"), 101, "Input should be 'naive', 'book', 'email'"),
        ("a list as method", "POST", ALL, new(chunk_method=[]), 101, "Input should be 'naive', 'book', 'email'"),
        ("empty settings", "POST", ALL, new(parser_config={}), 0, {"parser_config": {"chunk_token_num": 512}}),
        ("null as settings", "POST", ALL, new(parser_config=None), 0, {"parser_config": {"chunk_token_num": 512}}),
        ("settings too long", "POST", ALL, new(parser_config={"delimiter": "a" * 65536}), 101, "65,535"),
        *[(f"{key} of somebody else", "POST", ALL, new(**{key: "x"}), 101, "Extra inputs are not permitted")
          for key in ("id", "tenant_id", "created_by", "create_date", "token_num", "pagerank", "unknown")],
        *[(f"the method {one}", "POST", ALL, new(chunk_method=one), 0, {"chunk_method": one}) for one in METHODS],
        *[(f"settings {one}", "POST", ALL, new(parser_config=one), 0, {"parser_config": one}) for one in RIGHT_SETTINGS],
        *[(f"settings {one}", "POST", ALL, new(parser_config=one), 101, f"<{place}")
          for one, place, _ in wrong_settings()],
        *[(f"words of {one}", "POST", ALL, new(parser_config=one), 101, words) for one, _, words in wrong_settings()],
    ])
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: api.ask("POST", ALL, {"name": "at once"}), range(20)))
    names = {answer.data["name"] for answer in answers if answer.code == 0}
    api.holds("twenty of one name at once have twenty names", len(names) == 20)


def changes(api: Api) -> None:
    one, _ = made(api, name="changed"), made(api, name="taken")
    path = f"{ALL}/{one['id']}"
    put = lambda what, sent, code, expected: (what, "PUT", path, sent, code, expected)  # noqa: E731
    unknown = uuid.uuid1().hex
    api.rows("change", [
        put("nothing", None, 101, MALFORMED),
        put("a text", Raw(b'"a"'), 101, "Invalid request payload: expected object, got str"),
        put("no field", {}, 102, Exactly("no properties were modified")),
        put("an unknown field", {"unknown": 1}, 101, "Extra inputs are not permitted"),
        put("a name", {"name": " renamed "}, 0, {"name": "renamed"}),
        put("null as name", {"name": None}, 101, field("name", "Input should be a valid string")),
        put("an empty name", {"name": ""}, 101, ONE_LETTER),
        put("a long name", {"name": "a" * 129}, 101, "at most 128 characters"),
        put("a name that is taken", {"name": "taken"}, 102, Exactly("Dataset name 'taken' already exists")),
        put("the same in capitals", {"name": "TAKEN"}, 102, Exactly("Dataset name 'TAKEN' already exists")),
        put("its own name", {"name": "renamed"}, 0, {"name": "renamed"}),
        put("an avatar", {"avatar": PICTURE}, 0, {"avatar": PICTURE}),
        put("no avatar", {"avatar": None}, 0, {"avatar": None}),
        put("a description", {"description": "d"}, 0, {"description": "d"}),
        put("no description", {"description": None}, 0, {"description": None}),
        put("a model without provider", {"embedding_model": "m"}, 101, "<model_name>@<provider>"),
        put("an unknown model", {"embedding_model": "m@nobody"}, 102, "not found"),
        put("for the team", {"permission": "team"}, 0, {"permission": "team"}),
        put("another permission", {"permission": "unknown"}, 101, "Input should be 'me' or 'team'"),
        put("null as permission", {"permission": None}, 101, "Input should be 'me' or 'team'"),
        put("another method", {"chunk_method": "unknown"}, 101, "Input should be 'naive', 'book', 'email'"),
        put("null as method", {"chunk_method": None}, 101, "Input should be 'naive', 'book', 'email'"),
        *[put(f"the rank {rank}", {"pagerank": rank}, 0, {"pagerank": rank}) for rank in (0, 50, 100)],
        put("a rank below", {"pagerank": -1}, 101, "Input should be greater than or equal to 0"),
        put("a rank above", {"pagerank": 101}, 101, "Input should be less than or equal to 100"),
        put("null as rank", {"pagerank": None}, 101, "Input should be a valid integer"),
        *[put(f"the method {one}", {"chunk_method": one}, 0, {"chunk_method": one}) for one in METHODS],
        put("back to naive", {"chunk_method": "naive"}, 0, {"parser_config": {"chunk_token_num": 512}}),
        *[put(f"settings {one}", {"parser_config": one}, 0, {"parser_config": one}) for one in RIGHT_SETTINGS],
        *[put(f"settings {one}", {"parser_config": one}, 101, f"<{place}") for one, place, _ in wrong_settings()],
        put("empty settings", {"parser_config": {}}, 0, {"parser_config": {"chunk_token_num": 512}}),
        put("null as settings", {"parser_config": None}, 0, {"parser_config": {"chunk_token_num": 512}}),
        ("no id", "PUT", f"{ALL}/not_uuid", {"name": "x"}, 101, "Invalid UUID format"),
        ("an unknown id", "PUT", f"{ALL}/{unknown}", {"name": "x"}, 102, "lacks permission for dataset"),
        ("one's own", "GET", path, None, 0, {"id": one["id"]}),
        ("another id", "GET", f"{ALL}/{unknown}", None, 102, "lacks permission for dataset"),
        ("an invalid id", "GET", f"{ALL}/x", None, 102, "lacks permission for dataset"),
    ])
    with ThreadPoolExecutor(5) as pool:
        sent = [{"description": f"at once {place}"} for place in range(20)]
        codes = {answer.code for answer in pool.map(lambda body: api.ask("PUT", path, body), sent)}
    api.holds("twenty changes at once are made", codes == {0})


def lists(api: Api) -> None:
    api.data("DELETE", ALL, {"ids": None, "delete_all": True})
    kept = [made(api, name=f"dataset_{place}") for place in range(5)]
    names = [one["name"] for one in kept]
    latest = names[::-1]
    listed = lambda wanted: lambda data: [one["name"] for one in data] == wanted  # noqa: E731
    count = lambda wanted: lambda data: len(data) == wanted  # noqa: E731
    get = lambda what, sent, code, expected: (what, "GET", ALL, sent, code, expected)  # noqa: E731
    orders, unable = "Input should be 'create_time' or 'update_time'", "Input should be a valid boolean"
    api.rows("list", [
        get("all", None, 0, listed(latest)),
        get("a page", {"page": 2, "page_size": 2}, 0, count(2)),
        get("the last page", {"page": 3, "page_size": 2}, 0, listed(names[:1])),
        get("behind the last page", {"page": 4, "page_size": 2}, 0, count(0)),
        get("a page as text", {"page": "2", "page_size": "2"}, 0, count(2)),
        get("page 0", {"page": 0}, 101, "Input should be greater than or equal to 1"),
        get("page a", {"page": "a"}, 101, "unable to parse string as an integer"),
        get("size 0", {"page_size": 0}, 101, "Input should be greater than or equal to 1"),
        get("size a", {"page_size": "a"}, 101, "unable to parse string as an integer"),
        get("size 1", {"page_size": 1}, 0, count(1)),
        get("size 6", {"page_size": 6}, 0, count(5)),
        get("by time", {"orderby": "create_time"}, 0, listed(latest)),
        get("by change", {"orderby": "update_time"}, 0, listed(latest)),
        get("by nothing", {"orderby": ""}, 101, orders),
        get("by name", {"orderby": "name"}, 101, orders),
        get("by capitals", {"orderby": "CREATE_TIME"}, 101, orders),
        *[get(f"desc {value}", {"desc": value}, 0, listed(latest)) for value in (True, "true", "True", 1, "1", "yes", "y")],
        *[get(f"desc {value}", {"desc": value}, 0, listed(names)) for value in (False, "false", "False", 0, "0", "no", "n")],
        *[get(f"desc {value}", {"desc": value}, 101, unable) for value in (3.14, "unknown")],
        get("of a name", {"name": "dataset_1"}, 0, listed(["dataset_1"])),
        get("of a name that is not there", {"name": "none"}, 102, "lacks permission for dataset 'none'"),
        get("of no name", {"name": ""}, 0, count(5)),
        get("of an id", {"id": kept[0]["id"]}, 0, listed(["dataset_0"])),
        get("of the same id in another shape", {"id": str(uuid.UUID(kept[0]["id"]))}, 0, listed(["dataset_0"])),
        get("of no id", {"id": ""}, 101, "Invalid UUID format"),
        get("with an invalid id", {"id": "not_uuid"}, 101, "Invalid UUID format"),
        get("of an unknown id", {"id": uuid.uuid1().hex}, 102, "lacks permission for dataset"),
        get("of an id and its name", {"id": kept[0]["id"], "name": "dataset_0"}, 0, listed(["dataset_0"])),
        get("of an id and another name", {"id": kept[0]["id"], "name": "dataset_1"}, 0, count(0)),
        get("of an id and an unknown name", {"id": kept[0]["id"], "name": "none"}, 102, "lacks permission"),
        get("by an unknown parameter", {"unknown": "x"}, 101, "Extra inputs are not permitted"),
    ])
    whole = api.ask("GET", ALL, {"page_size": 2}).whole
    api.holds("the total counts all pages", whole["total_datasets"] == 5)


def removal(api: Api) -> None:
    kept = [made(api) for _ in range(4)]
    ids = [one["id"] for one in kept]
    unknown = uuid.uuid1().hex
    delete = lambda what, sent, code, expected: (what, "DELETE", ALL, sent, code, expected)  # noqa: E731
    before = len(api.data("GET", ALL, {"page_size": 100}))
    api.rows("remove", [
        delete("nothing", None, 101, MALFORMED),
        delete("a text", Raw(b'"a"'), 101, "Invalid request payload: expected object, got str"),
        delete("an unknown field", {"unknown": 1}, 101, "Extra inputs are not permitted"),
        delete("ids that are no list", {"ids": "x"}, 101, "Input should be a valid list"),
        delete("an invalid id", {"ids": ["not_uuid"]}, 101, "Invalid UUID format"),
        delete("an id twice", {"ids": [ids[0], ids[0]]}, 101, "Duplicate ids"),
        delete("an unknown id", {"ids": [unknown]}, 102, "lacks permission for dataset"),
        delete("an unknown id among others", {"ids": [*ids, unknown]}, 102, "lacks permission for dataset"),
        delete("no ids", {"ids": []}, 0, None),
        delete("null as ids", {"ids": None}, 0, None),
        ("all are there", "GET", ALL, {"page_size": 100}, 0, lambda data: len(data) == before),
        delete("one", {"ids": ids[:1]}, 0, {"success_count": 1}),
        delete("the same again", {"ids": ids[:1]}, 102, "lacks permission for dataset"),
        delete("several", {"ids": ids[1:]}, 0, {"success_count": 3}),
        delete("all", {"ids": None, "delete_all": True}, 0, None),
        ("none is there", "GET", ALL, None, 0, []),
    ])


def metadata(api: Api) -> None:
    one = made(api)
    unknown = uuid.uuid1().hex
    config = f"{ALL}/{one['id']}/metadata/config"
    fields = [{"key": "author", "type": "string", "description": "who", "enum": None}]
    shown = {"metadata": fields, "built_in_metadata": []}
    api.rows("metadata", [
        ("automatic metadata by default", "GET", config, None, 0, {"metadata": [], "built_in_metadata": []}),
        ("automatic metadata set", "PUT", config, {"metadata": fields, "built_in_metadata": []}, 0, shown),
        ("automatic metadata shown", "GET", config, None, 0, shown),
        ("the older route", "GET", f"{ALL}/{one['id']}/auto_metadata", None, 0, {"enabled": True}),
        ("of an unknown dataset", "GET", f"{ALL}/{unknown}/metadata/config", None, 102, "lacks permission for dataset"),
        ("summary", "GET", f"{ALL}/{one['id']}/metadata/summary", None, 0, {"summary": {}}),
        ("summary of an unknown dataset", "GET", f"{ALL}/{unknown}/metadata/summary", None, 102, "You don't own the dataset"),
    ])


def upkeep(api: Api) -> None:
    one = f"{ALL}/{made(api)['id']}"
    tags, check = f"{one}/tags", f"{one}/embedding/check"
    api.rows("upkeep", [
        ("tags of none", "GET", tags, None, 0, []),
        ("tags of an unknown dataset", "GET", f"{ALL}/invalid_id/tags", None, 102, Exactly("no authorization")),
        ("tags of several", "GET", f"{ALL}/tags/aggregation", {"dataset_ids": one.rsplit("/", 1)[1]}, 0, []),
        ("tags of nothing", "GET", f"{ALL}/tags/aggregation", None, 101, "dataset_ids"),
        ("no tags to remove", "DELETE", tags, {}, 101, "tags"),
        ("tags that are no list", "DELETE", tags, {"tags": "wrong"}, 101, None),
        ("an empty name", "PUT", tags, {"from_tag": "", "to_tag": ""}, 101, None),
        ("a tag renamed", "PUT", tags, {"from_tag": "old", "to_tag": "new"}, 0, None),
        ("the graph removed", "DELETE", f"{one}/graph", None, 0, None),
        ("the summaries removed", "DELETE", f"{one}/raptor", None, 0, None),
        ("no such index", "DELETE", f"{one}/invalid_type", None, 102, "Invalid index type"),
        ("another model without a name", "POST", check, {}, 101, "embd_id"),
        ("the resume method", "PUT", one, {"chunk_method": "resume"}, 0, {"chunk_method": "resume"}),
    ])


def tokens(api: Api) -> None:
    one = made(api)["id"]
    refused(api, [("GET", ALL), ("POST", ALL), ("DELETE", ALL), ("PUT", f"{ALL}/{one}"), ("GET", f"{ALL}/{one}")])


def cases(api: Api) -> None:
    for part in (creation, changes, lists, removal, metadata, upkeep, tokens):
        part(api)
