"""What happens between a program and its interpreter: its `main` is found and called, its result becomes JSON, and
whatever it raises becomes a message and a line of its text.

`files.py` and `threads.py` follow in one text. Nothing here is a boundary. A program may change all of it, and changes only
what is left of its own run.
"""

import ast
import asyncio
import builtins
import codecs
import dataclasses
import datetime
import decimal
import enum
import errno
import fractions
import inspect
import io
import json
import linecache
import math
import os
import pathlib
import random
import socket
import sys
import time
import types
import uuid

FILE = "program.py"
# What a program calls another that it runs itself, as one does which runs scripts.
SCRIPT = "script.py"
MESSAGE_MAX = 2_000
NAMES_MAX = 20
# Of the causes of an error: how deep they are told, how many of each, and how long each is.
CAUSE_LEVELS_MAX, CAUSES_MAX, CAUSE_MAX = 3, 5, 300
# What is left of a message that has causes, so that there is room for them.
MESSAGE_OF_CAUSES_MAX = 1_000

# Modules that a program may expect and that cannot be here.
ABSENT = {
    "bz2": "its interpreter cannot compress in this way",
    "compression.zstd": "its interpreter cannot compress in this way",
    "ctypes": "it has no libraries of the system",
    "http.client": "it has no network",
    "lzma": "its interpreter cannot compress in this way",
    "multiprocessing": "it has no other processes",
    "sqlite3": "it has no databases",
    "ssl": "it has no network",
    "urllib.request": "it has no network",
}


class Failed(Exception):
    """Why there is no result: a message, and the line of the program."""

    def __init__(self, message, line=None):
        super().__init__(message)
        self.line = line


class Stuck(BaseException):
    """What is waited for never comes. No `except Exception` of a program goes on after it."""


class Stream(io.TextIOBase):
    """A stream of what is printed, kept by the host."""

    def __init__(self, show, name):
        self.show = show
        self.name = name
        self.buffer = StreamOfBytes(self)

    encoding = "utf-8"
    errors = "replace"

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.show(self.name == "<stderr>", whole(text))
        return len(text)


class StreamOfBytes(io.BufferedIOBase):
    """The same for bytes, which are shown as the text that they are."""

    def __init__(self, shown):
        self.shown = shown
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self):
        return True

    def write(self, data):
        data = bytes(memoryview(data))
        # A character may come in two pieces.
        if text := self.decoder.decode(data):
            self.shown.write(text)
        return len(data)


class Loop(asyncio.BaseEventLoop):
    """An event loop with nothing outside that could happen: tasks and timers."""

    def __init__(self):
        super().__init__()
        self._selector = self

    def select(self, timeout):
        if timeout is None:
            raise Failed("`main` waits for something that never happens")
        if timeout > 0:
            time.sleep(timeout)
        return []

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


def prepare(show, sleep, keep):
    """Sets up what a program finds beside its text. `show` keeps what it prints, `sleep` waits, `keep` keeps a file."""
    Files.keep = keep
    install(False)
    install_threads()
    sys.stdout = Stream(show, "<stdout>")
    sys.stderr = Stream(show, "<stderr>")
    sys.stdin = io.StringIO()
    sys.argv = [FILE]
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.meta_path.append(Missing)
    # The state that was there when the interpreter was built is the same in every run.
    random.seed()

    def wait(seconds, /):
        if not isinstance(seconds, (int, float)):
            seconds = float(seconds)
        if math.isnan(seconds):
            raise ValueError("Invalid value NaN (not a number)")
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        sleep(float(seconds))

    time.sleep = wait
    refuse_outside()
    asyncio.new_event_loop = asyncio.events.new_event_loop = Loop


def offline(*_, **__):
    raise OSError("a program has no network")


def alone(*_, **__):
    raise OSError("a program has no other processes")


def refuse_outside():
    """Says why there is no network and no other process, where the system would only say that it has no such call."""
    socket.socket.__init__ = offline
    for name in ("getaddrinfo", "getnameinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "socketpair"):
        if hasattr(socket, name):
            setattr(socket, name, offline)
    if "subprocess" in sys.modules:
        sys.modules["subprocess"].Popen.__init__ = alone
    for name in dir(os):
        if name in ("fork", "forkpty", "system") or name.startswith(("exec", "posix_spawn", "spawn")):
            setattr(os, name, alone)


class Missing:
    """Says why a module is not there."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        reason = ABSENT.get(name)
        if reason is None and name.partition(".")[0] in sys.stdlib_module_names:
            reason = "its interpreter does not have this module"
        reason = reason or "it has the standard library and no packages"
        raise ModuleNotFoundError(f"No module named {name!r}: a program runs alone, {reason}", name=name)


def run(source, arguments):
    """Runs a program; its result as JSON."""
    given = json.loads(arguments)
    try:
        result = as_json(value_of(source, given))
        Files.hand_over()
        return result
    except Failed:
        raise
    except BaseException as error:
        raise failed(error) from None


def value_of(source, given):
    tree = compile(source, FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
    has_main, last, ends_in_result = defines_main(tree), None, assigns_result(tree)
    if has_main:
        if given:
            # These call it with something else than what it is given here.
            while tree.body and only_calls_main(tree.body[-1]):
                tree.body.pop()
        tree = ast.fix_missing_locations(Recorded().visit(tree))
    elif tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    # What stands under `if __name__ == "__main__"` calls a `main` that is called here.
    module = types.ModuleType("program" if has_main else "__main__")
    module.__file__ = FILE
    sys.modules[module.__name__] = module
    names = module.__dict__
    calls = Calls(names)
    names[RECORDED] = calls.recorded
    try:
        exec(compile(tree, FILE, "exec", dont_inherit=True), names)
    except SystemExit as ended:
        # `sys.exit(main())`
        if calls.gave is None or ended.code not in (None, 0):
            raise
    calls.over = True
    main = names.get("main")
    if callable(main):
        if calls.gave is not None and not given:
            return settled(calls.gave[0])
        if calls.left is not None and not given and inspect.getcoroutinestate(calls.left) == inspect.CORO_CREATED:
            return settled(calls.left)
        return settled(call(main, given))
    if last is not None:
        return settled(eval(compile(last, FILE, "eval", dont_inherit=True), names))
    if "result" in names and (ends_in_result or not Printed.any):
        return settled(names["result"])
    if Printed.any:
        return None
    raise Failed("it defines no function `main`, does not end in an expression or a variable `result`, and prints nothing")


# What calls of `main` go through. With two underscores it would be another name within a class.
RECORDED = "_recorded_main"


class Recorded(ast.NodeTransformer):
    """Lets calls of `main` be known."""

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "main":
            recorded = ast.Call(ast.Name(RECORDED, ast.Load()), [node.func], [])
            node.func = ast.copy_location(recorded, node.func)
        return node


class Calls:
    """What calls of `main` gave that the program makes itself, before it would be called."""

    def __init__(self, names):
        self.names, self.over, self.gave = names, False, None
        # The last that has to be waited for, which the program may have forgotten.
        self.left = None

    def recorded(self, main):
        if self.over or main is not self.names.get("main"):
            return main

        def called(*given, **named):
            value = main(*given, **named)
            if inspect.iscoroutine(value):
                self.left = self.awaited(value)
                return self.left
            # What can be gone through once has been, and would be empty.
            if not hasattr(value, "__next__") and not hasattr(value, "__anext__"):
                self.gave = (value,)
            return value

        return called

    async def awaited(self, value):
        value = await value
        self.gave = (value,)
        return value


def calls_main(node):
    return any(isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "main"
               for part in ast.walk(node))


def only_calls_main(node):
    """`main()`, `print(main())`, `asyncio.run(main())` and the like."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="main"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="print" | "exit") | ast.Attribute(
            value=ast.Name(id="asyncio" | "sys"), attr="run" | "exit"), args=arguments)):
            return any(calls_main(argument) for argument in arguments)
    return False


def assigns_result(tree):
    """Whether it ends in `result = ...`."""
    match tree.body[-1:]:
        case [ast.Assign(targets=targets)]:
            return any(isinstance(target, ast.Name) and target.id == "result" for target in targets)
        case [ast.AnnAssign(target=ast.Name(id="result")) | ast.AugAssign(target=ast.Name(id="result"))]:
            return True
    return False


class Printed:
    """Whether the program has printed."""

    any = False


def defines_main(tree):
    for node in tree.body:
        match node:
            case ast.FunctionDef(name="main") | ast.AsyncFunctionDef(name="main") | ast.ClassDef(name="main"):
                return True
            case ast.Assign(targets=targets) if any(isinstance(t, ast.Name) and t.id == "main" for t in targets):
                return True
            case ast.AnnAssign(target=ast.Name(id="main")):
                return True
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                if any((alias.asname or alias.name) == "main" for alias in aliases):
                    return True
    return False


def call(main, given):
    """Calls `main` with the arguments by name, or with all of them as one dict if that is what it takes."""
    # Not within what catches: it would be told as a cause of what `main` raises.
    return main(given) if takes_all_as_one(main, given) else main(**given)


def takes_all_as_one(main, given):
    try:
        signature = inspect.signature(main)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(**given)
        return False
    except TypeError as error:
        parameters = list(signature.parameters.values())
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        required = [p for p in positional if p.default is p.empty]
        alone = len(positional) == 1 or len(required) == 1
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if positional and alone and not keywords and positional[0].name not in given:
            return True
        if any(p.kind is p.VAR_POSITIONAL for p in parameters) and not required:
            return True
        names = ", ".join(f"`{name}`" for name in list(given)[:NAMES_MAX]) or "none"
        raise Failed(f"`main` cannot be called: {error}; the arguments of the program are: {names}") from None


def settled(value):
    """What an awaitable comes to, and a list of what an asynchronous generator gives."""
    if inspect.isawaitable(value) or hasattr(value, "__anext__"):
        async def wait():
            came = await value if inspect.isawaitable(value) else value
            return [item async for item in came] if hasattr(came, "__anext__") else came

        with asyncio.Runner(loop_factory=Loop) as runner:
            return runner.run(wait())
    return value


def as_json(value):
    try:
        return dumped(value, plain)
    except ValueError as error:
        if "JSON compliant" not in str(error):
            raise Failed(f"what the program returns is not JSON: {error}") from None
    except TypeError as error:
        if not str(error).startswith("keys must be"):
            raise Failed(f"what the program returns is not JSON: {error}") from None
    try:
        return dumped(in_words(value), lambda value: in_words(plain(value)))
    except (TypeError, ValueError) as error:
        raise Failed(f"what the program returns is not JSON: {error}") from None


def dumped(value, default):
    return whole(json.dumps(value, allow_nan=False, ensure_ascii=False, default=default))


def in_words(value):
    """The same with null for numbers that JSON has no word for, and with names for keys that are no texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name_of(key): in_words(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_words(item) for item in value]
    return value


def name_of(key):
    """The key of a dict as JSON may have it: a date, for example, as it is written."""
    if isinstance(key, float) and not math.isfinite(key):
        return str(key)
    simple = (str, int, float, bool, type(None))
    if isinstance(key, simple):
        return key
    try:
        named = plain(key)
    except TypeError:
        named = key
    if not isinstance(named, simple):
        raise TypeError(f"keys must be str, int, float, bool or None, not {type(key).__name__}")
    return named


def plain(value):
    """A value of the standard library in the words of JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if isinstance(value, fractions.Fraction):
        return float(value)
    if isinstance(value, (uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            raise TypeError("bytes that are no text; give them as base64, for example") from None
    if isinstance(value, types.MappingProxyType) or hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {key: value[key] for key in value.keys()}
    if isinstance(value, (range, types.GeneratorType, type({}.keys()), type({}.values()), type({}.items()))) \
            or hasattr(value, "__next__") or type(value).__name__ == "deque":
        return list(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def failed(error):
    """What a program raised, as a message and a line of its text."""
    if isinstance(error, RecursionError):
        return Failed("RecursionError: it calls itself too deeply", line_of(error))
    if isinstance(error, Stuck):
        return Failed(str(error), line_of(error))
    if isinstance(error, SystemExit):
        code = "" if error.code is None else str(error.code)
        return Failed(shortened(f"it ended itself with exit({code}); it has to return its result"), line_of(error))
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return Failed(shortened(f"{name}: {error.msg}"), error.lineno or None)
    notes = getattr(error, "__notes__", None) or []
    text = "\n".join([said(error), *[str(note) for note in notes][:NAMES_MAX]])
    if isinstance(error, OSError) and error.errno == errno.ENOSYS:
        text += " (a program has no network and no other processes)"
    causes = "".join(f"\n{line}" for line in causes_of(error))
    if causes:
        text = shortened(text, MESSAGE_OF_CAUSES_MAX)
    return Failed(shortened(text + causes), line_of(error))


def said(error):
    name = type(error).__name__
    try:
        message = str(error)
    except BaseException:
        message = ""
    return f"{name}: {message}" if message else name


def causes_of(error, level=1):
    """What an error came from, a line each: the members of a group, and what it was raised from or after."""
    if level > CAUSE_LEVELS_MAX:
        return
    indent = "  " * level
    try:
        members = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    except Exception:
        members = []
    for member in members[:CAUSES_MAX]:
        yield f"{indent}- {told_shortly(member)}"
        yield from causes_of(member, level + 1)
    if len(members) > CAUSES_MAX:
        yield f"{indent}- and {len(members) - CAUSES_MAX} more"
    before, how = error.__cause__, "caused by"
    if before is None and not error.__suppress_context__ and place_of(error.__context__) is not None:
        # What a library has caught itself has no line of the program, and says nothing to who reads this.
        before, how = error.__context__, "while handling"
    if before is not None and not isinstance(before, (Failed, Stuck)):
        yield f"{indent}{how} {told_shortly(before)}"
        yield from causes_of(before, level + 1)


def told_shortly(error):
    line = place_of(error)
    text = shortened(" ".join(said(error).split()), CAUSE_MAX)
    return text if line is None else f"{text} (line {line})"


def place_of(error):
    """The innermost line of what the program is about: of a script that it runs, or of itself."""
    if error is None:
        return None
    line = line_of(error, SCRIPT)
    return line_of(error) if line is None else line


def line_of(error, file=FILE):
    """The innermost line of the program on the way to where it was raised."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def whole(text):
    """A text without halves of characters, which have no bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shortened(text, most=MESSAGE_MAX):
    text = whole(text)
    return text if len(text) <= most else text[:most] + "…"
