"""Runs tables of requests and expectations.

A row is `(what, method, path, sent, code, expected)`. What is sent is JSON, the parameters of a GET, `Raw` bytes or
`Files`. What is expected is a part of the message, the whole of it (`Exactly`), a part of the data as an object, or a
function of the data."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import requests

TIMEOUT_S = 60


class Exactly(str):
    """The whole message."""


class Raw(bytes):
    """A raw body."""


class Files(list):
    """Names and contents of the `file` parts of a form."""


@dataclass
class Answer:
    status: int
    code: int
    message: str
    data: Any
    whole: Any


@dataclass
class Api:
    base: str
    token: str | None
    held: int = 0
    failed: list[str] = field(default_factory=list)

    def with_token(self, token: str | None) -> "Api":
        return Api(self.base, token, 0, self.failed)

    def send(self, method: str, path: str, sent: Any = None, stream: bool = False) -> requests.Response:
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        given: dict[str, Any] = {}
        if isinstance(sent, Files):
            given["files"] = [("file", one) for one in sent]
        elif isinstance(sent, Raw):
            headers["Content-Type"] = "application/json"
            given["data"] = bytes(sent)
        elif method == "GET":
            given["params"] = sent
        elif sent is not None:
            given["json"] = sent
        url = f"{self.base}/api/v1{path}"
        return requests.request(method, url, headers=headers, timeout=TIMEOUT_S, stream=stream, **given)

    def ask(self, method: str, path: str, sent: Any = None) -> Answer:
        got = self.send(method, path, sent)
        try:
            whole = got.json()
        except ValueError:
            whole = {"code": -1, "message": got.text[:400]}
        if not isinstance(whole, dict):
            whole = {"code": -1, "message": str(whole)[:400]}
        return Answer(got.status_code, whole.get("code", -1), str(whole.get("message", "")), whole.get("data"), whole)

    def data(self, method: str, path: str, sent: Any = None) -> Any:
        """A request that must succeed for the rows after it."""
        answer = self.ask(method, path, sent)
        assert answer.code == 0, (method, path, sent, answer.whole)
        return answer.data

    def note(self, what: str, problem: str) -> None:
        if problem:
            self.failed.append(f"{what}: {problem}")
        else:
            self.held += 1

    def holds(self, what: str, truth: Any) -> None:
        self.note(what, "" if truth else "does not hold")

    def rows(self, group: str, rows: list[tuple]) -> None:
        for what, method, path, sent, code, expected in rows:
            try:
                problem = differs(self.ask(method, path, sent), code, expected)
            except requests.RequestException as error:
                problem = f"no answer: {error}"
            self.note(f"{group}: {what}", problem and f"{method} {path} {str(sent)[:200]}: {problem}")

    def group(self, name: str, cases: Callable[["Api"], None]) -> None:
        """Runs the groups in order; a failing group does not stop the others."""
        before, wrong = self.held, len(self.failed)
        try:
            cases(self)
        except Exception:  # noqa: BLE001 - anything that stops a group is told with the rest
            self.failed.append(f"{name} stopped: {traceback.format_exc()}")
        print(f"{name}: {self.held - before} hold, {len(self.failed) - wrong} do not", flush=True)


def differs(answer: Answer, code: int, expected: Any) -> str:
    if answer.code != code:
        return f"expected code {code}, got {answer.status} {str(answer.whole)[:400]}"
    if isinstance(expected, Exactly) and answer.message != str(expected):
        return f"expected the message {str(expected)!r}, got {answer.message!r}"
    if isinstance(expected, str):
        return "" if expected in answer.message else f"expected {expected!r} in {answer.message!r}"
    if callable(expected):
        return "" if expected(answer.data) else f"the data does not fit: {str(answer.data)[:400]}"
    return "" if expected is None else lacks("data", answer.data, expected)


def lacks(place: str, got: Any, expected: Any) -> str:
    if callable(expected):
        return "" if expected(got) else f"{place} does not fit: {str(got)[:300]}"
    if isinstance(expected, dict) and isinstance(got, dict):
        problems = [lacks(f"{place}.{key}", got.get(key), value) for key, value in expected.items()]
        return next((problem for problem in problems if problem), "")
    return "" if got == expected else f"{place} is {str(got)[:300]}, expected {str(expected)[:300]}"


def refused(api: Api, rows: list[tuple[str, str]]) -> None:
    """Without a token, and with an unknown one."""
    for token in (None, "no-such-token"):
        stranger = api.with_token(token)
        for method, path in rows:
            answer = stranger.ask(method, path, None if method == "GET" else {})
            right = (answer.status, answer.code) == (401, 401)
            api.note(f"{method} {path} with token {token}", "" if right else f"got {answer.status} {answer.whole}")
