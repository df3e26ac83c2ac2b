# Follows `guest.py`, `files.py` and `threads.py` in one text: a Python of the system that has imported what the operator names, and runs every
# program in a fork of its own. It runs no program itself.
#
#   argument       JSON: the modules, the filter of system calls of a program in base64, and after how many seconds
#                  without a program it ends
#   descriptor 0   stays open as long as anybody wants programs to run
#   descriptor 1   one line of JSON: {"ready": ...} or {"unable": ...}
#   descriptor 3   a listening socket; every connection brings one program as a line of JSON, and takes lines of JSON
#                  that the program's process has written, and last one of its guard
import base64
import ctypes
import gc
import importlib
import mimetypes
import mmap
import os
import resource
import select
import signal
import subprocess

LISTENER = 3
DESCRIPTORS_MAX = 256
REQUEST_MAX = 256 << 20
# Bytes that a program may use beside its values, for what the interpreter itself makes.
SLACK = 4 << 20
# Address space for libraries that a program imports; what they write counts as memory.
LIBRARIES = 2 << 30
OWN_SECONDS = 2
FILES_MAX, FILES_BYTES_MAX = 10, 10 << 20

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2

libc = ctypes.CDLL(None, use_errno=True)
first_main = sys.modules["__main__"]
plain_of_guest = plain


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def control(what, *values):
    values = [value if isinstance(value, ctypes.Structure) else ctypes.c_ulong(value) for value in values]
    values = [ctypes.byref(value) if isinstance(value, ctypes.Structure) else value for value in values]
    values += [ctypes.c_ulong(0)] * (4 - len(values))
    if libc.prctl(ctypes.c_int(what), *values) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def taken(limit):
    """Bytes that this process has of what `limit` counts. There is no /proc to read it from, so it is tried out."""
    before = resource.getrlimit(limit)
    low, high = 0, 1 << 47
    while high - low > mmap.PAGESIZE:
        middle = (low + high) // 2
        try:
            resource.setrlimit(limit, (middle, before[1]))
            mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
            high = middle
        except (OSError, MemoryError):
            low = middle
    resource.setrlimit(limit, before)
    return high


def serve():
    config = json.loads(sys.argv[1])
    steps = base64.b64decode(config["filter"])
    # Before anything else is imported: libraries hold what they find then. What they write when they are imported, such as
    # a list of fonts, is in the memory of every fork.
    install(True)
    # Lists of the system, which are seen and cannot be read.
    mimetypes.knownfiles.clear()
    try:
        for name in config["modules"]:
            importlib.import_module(name)
        if "matplotlib" in sys.modules:
            # It looks for fonts, which takes longer than a program has.
            name = "matplotlib.pyplot"
            importlib.import_module(name)
    except BaseException as error:
        say({"unable": shortened(f"cannot import {name!r}: {type(error).__name__}: {error}")})
        return
    gc.collect()
    gc.freeze()
    bases = {limit: taken(limit) for limit in (resource.RLIMIT_DATA, resource.RLIMIT_AS)}
    listener = socket.socket(fileno=LISTENER)
    # Nobody waits for guards.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    say({"ready": sys.version.partition(" ")[0]})
    poller = select.poll()
    poller.register(LISTENER, select.POLLIN)
    poller.register(0, 0)
    poller.register(1, 0)
    while True:
        events = poller.poll(config["idle_seconds"] * 1000)
        if any(fd != LISTENER for fd, _ in events):
            return
        if not events:
            if not has_guards():
                return
            continue
        connection, _ = listener.accept()
        if os.fork() == 0:
            try:
                guard(connection, steps, bases)
            finally:
                os._exit(0)
        connection.close()


def has_guards():
    """Whether a program still runs. Those that have ended leave nothing to wait for."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def say(message):
    os.write(1, json.dumps(message).encode() + b"\n")


def guard(connection, steps, bases):
    """Has one program run in a process of its own, and ends it: when its time is up, or nobody wants it any more."""
    control(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile("rb") as lines:
        request = json.loads(lines.readline(REQUEST_MAX))
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            program(request, writing, steps, bases)
        finally:
            os._exit(1)
    os.close(writing)
    late = False
    try:
        late = not relayed(connection, reading, time.monotonic() + request["seconds"])
    finally:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    ended = "late" if late else "signal" if os.WIFSIGNALED(status) else "exit"
    if ended == "signal" and os.WTERMSIG(status) == signal.SIGXCPU:
        ended = "late"
    connection.sendall(b"\n" + json.dumps({"ended": ended}).encode() + b"\n")


def relayed(connection, reading, until):
    """Hands on what the program's process writes, to its end; whether that came in time."""
    poller = select.poll()
    poller.register(connection, 0)
    poller.register(reading, select.POLLIN)
    while True:
        left = until - time.monotonic()
        events = poller.poll(left * 1000) if left > 0 else []
        if not events:
            return False
        if any(fd != reading for fd, _ in events):
            raise ConnectionError
        piece = os.read(reading, 1 << 16)
        if not piece:
            return True
        connection.settimeout(max(until - time.monotonic(), 1))
        connection.sendall(piece)


def program(request, pipe, steps, bases):
    """The process of one program. What it says is only about itself, so that nothing here has to be safe from it."""
    control(PR_SET_PDEATHSIG, signal.SIGKILL)
    control(PR_SET_DUMPABLE, 0)
    os.dup2(pipe, LISTENER)
    os.dup2(2, 0)
    os.dup2(2, 1)
    os.closerange(LISTENER + 1, DESCRIPTORS_MAX)
    prepared(request["printed_bytes"])
    memory = request["memory_bytes"] + SLACK
    limits = {
        resource.RLIMIT_CPU: int(request["seconds"]) + OWN_SECONDS,
        resource.RLIMIT_DATA: bases[resource.RLIMIT_DATA] + memory,
        resource.RLIMIT_AS: bases[resource.RLIMIT_AS] + memory + LIBRARIES,
    }
    for limit, most in limits.items():
        resource.setrlimit(limit, (most, most))
    memory = ctypes.create_string_buffer(steps, len(steps))
    control(PR_SET_NO_NEW_PRIVS, 1)
    control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, Filter(len(steps) // 8, ctypes.addressof(memory)))
    try:
        told = outcome(request)
    except MemoryError:
        told = b'{"memory": true}\n'
    write(told)
    os._exit(0)


def outcome(request):
    try:
        result = run(request["source"], request["arguments"])
    except Failed as failed:
        if isinstance(failed.__context__, MemoryError):
            return b'{"memory": true}\n'
        return frame({"failed": str(failed), "line": failed.line})
    if len(result.encode()) > request["output_bytes"]:
        return b'{"output": true}\n'
    return frame({"result": result})


def frame(told, dumps=json.dumps):
    return dumps(told).encode() + b"\n"


def write(told, os_write=os.write):
    while told:
        told = told[os_write(LISTENER, told):]


def prepared(printed_bytes):
    """What a program finds, beside what is imported."""
    left = printed_bytes

    def show(error, text):
        nonlocal left
        Printed.any = True
        kept = text.encode()[:max(left, 0)].decode(errors="ignore")
        left -= len(kept.encode())
        write(frame({"error" if error else "out": kept}))
        if len(kept) < len(text):
            left = 0
            write(frame({"cut": True}))

    kept_files = []

    def keep(name, content):
        kept_files.append(len(content))
        if len(kept_files) > FILES_MAX:
            raise Failed(f"it leaves more than {FILES_MAX} files; the file `{name}` is one too many")
        if sum(kept_files) > FILES_BYTES_MAX:
            raise Failed(f"its files have more than {FILES_BYTES_MAX >> 20} MiB together; the file `{name}` is too large")
        write(frame({"file": name, "base64": base64.b64encode(content).decode()}))
        return True

    Files.keep = keep
    globals()["plain"] = plain_of_packages
    sys.stdout, sys.stderr, sys.stdin = Stream(show, "<stdout>"), Stream(show, "<stderr>"), io.StringIO()
    sys.argv = [FILE]
    install_threads()
    refuse_outside()
    # What has been drawn before the fork would be the same in every run.
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    asyncio.new_event_loop = asyncio.events.new_event_loop = Loop


def plain_of_packages(value):
    """A value of numpy and pandas in the words of JSON: rows of a table as objects."""
    package, kind = type(value).__module__.partition(".")[0], type(value).__name__
    if package == "pandas":
        if kind == "DataFrame":
            return rows_of(value)
        if kind == "Series":
            return members_of(value)
        if kind in ("NaTType", "NAType"):
            return None
        if kind in ("Period", "Interval"):
            return str(value)
    if package in ("numpy", "pandas") and hasattr(value, "tolist"):
        return value.tolist()
    return plain_of_guest(value)


def members_of(series):
    """The values of a column: a list when they are only numbered, else an object by their labels."""
    if type(series.index).__name__ == "RangeIndex":
        return series.tolist()
    if not series.index.is_unique:
        # An object has no two members of a name.
        return rows_of(series.to_frame("value" if series.name is None else series.name))
    return dict(zip(unlike([name_of(label) for label in series.index]), series.tolist()))


def rows_of(table):
    """The rows of a table as objects; what names them comes first, and numbers of rows are no names."""
    index = table.index
    numbered = index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"
    names = [] if numbered else [f"level_{place}" if name is None and index.nlevels > 1 else name_of(name, "index")
                                 for place, name in enumerate(index.names)]
    names = unlike(names + [name_of(name) for name in table.columns])
    rows = table.itertuples(index=False, name=None)
    if numbered:
        return [dict(zip(names, row)) for row in rows]
    labels = (label if index.nlevels > 1 else (label,) for label in index)
    return [dict(zip(names, (*label, *row))) for label, row in zip(labels, rows)]


def name_of(label, otherwise=None):
    """A label as a name; those of several levels in one."""
    if isinstance(label, tuple):
        return "_".join(part for part in map(name_of, label) if part)
    if label is None and otherwise:
        return otherwise
    return label.isoformat() if isinstance(label, (datetime.date, datetime.time)) else str(label)


def unlike(names):
    """The names, each of them once: those that were there before have a number."""
    taken = set()
    for place, name in enumerate(names):
        number = 2
        while names[place] in taken:
            names[place] = f"{name}_{number}"
            number += 1
        taken.add(names[place])
    return names


serve()
