# Follows `guest.py` in one text: the files of a program. They are in its memory, in two folders that only it sees: the one
# that it begins in, whose files are kept for whoever asked for the program, and one for what is of no use later. What
# has been there before, such as the files of libraries, is read as the interpreter can.
import errno
import os
import posixpath
import shutil
import sys
import stat
import tempfile

# Where a program begins, and what others who run such programs hand over.
HOME, ARTIFACTS = "/program", "/program/artifacts"
TEMPORARY = "/tmp"
# Files and folders at the same time.
ENTRIES_MAX = 1_000
# Descriptors of such files; the system's own are far below.
DESCRIPTORS_FROM = 1 << 20


class Node:
    """A file: its bytes, or whoever writes it."""

    def __init__(self):
        self.bytes = b""
        self.writer = None
        self.mode = 0o600
        self.changed = time.time()

    def content(self):
        return self.bytes if self.writer is None else self.writer.getvalue()


class Files:
    """What the program has written, by its path."""

    keep = None
    # Files by their paths; for folders there is None.
    nodes = {HOME: None, ARTIFACTS: None, TEMPORARY: None}
    cwd = HOME
    # Files by the numbers that `os.open` has given.
    descriptors = {}
    # What the interpreter does by itself, by name. Empty where it has no files at all.
    system = {}

    @classmethod
    def hand_over(cls):
        taken = set()
        # Those that lie the least deep have the plain names.
        for path, node in sorted(cls.nodes.items(), key=lambda item: item[0].count("/")):
            parts = path.removeprefix(HOME + "/").split("/")
            if node is None or not path.startswith(HOME + "/") or any(part.startswith(".") for part in parts):
                continue
            name = parts[-1] if parts[-1] not in taken else "-".join(parts)
            taken.add(name)
            if not cls.keep(name, node.content()):
                raise Failed(f"the file {name!r} cannot be kept: it is one too many, too large, or has no plain name")

    @classmethod
    def add(cls, path, node):
        """Takes a new file or folder into its folder."""
        folder = posixpath.dirname(path)
        if folder == ARTIFACTS and folder not in cls.nodes:
            cls.add(folder, None)
        if cls.nodes.get(folder, cls) is not None:
            if folder in cls.nodes:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            raise missing(path)
        if len(cls.nodes) >= ENTRIES_MAX:
            raise OSError(errno.ENOSPC, f"a program has no more than {ENTRIES_MAX} files and folders", path)
        cls.nodes[path] = node

    @classmethod
    def below(cls, folder):
        """The names in a folder."""
        start = folder.rstrip("/") + "/"
        return [path[len(start):] for path in cls.nodes if path.startswith(start) and "/" not in path[len(start):]]


class Stored(io.BytesIO):
    """A file that is open: a part of the memory, and whether it may be read and written."""

    def __init__(self, name, node, reads, writes):
        super().__init__(node.content())
        self.name, self.node, self.reads, self.writes = name, node, reads, writes
        self.appends = False
        if writes:
            node.writer = self

    def readable(self):
        return self.reads

    def writable(self):
        return self.writes

    def read(self, *size):
        return super().read(*self.allowed(self.reads, "readable", size))

    def readline(self, *size):
        return super().readline(*self.allowed(self.reads, "readable", size))

    def readinto(self, *buffer):
        return super().readinto(*self.allowed(self.reads, "readable", buffer))

    def write(self, *data):
        self.allowed(self.writes, "writable", data)
        if self.appends:
            self.seek(0, io.SEEK_END)
        self.node.changed = time.time()
        return super().write(*data)

    def truncate(self, *size):
        return super().truncate(*self.allowed(self.writes, "writable", size))

    @staticmethod
    def allowed(may, what, values):
        if not may:
            raise io.UnsupportedOperation(f"not {what}")
        return values

    def close(self):
        if not self.closed and self.node.writer is self:
            self.node.bytes, self.node.writer = self.getvalue(), None
        super().close()


def missing(path):
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def placed(path):
    """The path from the root, without detours."""
    text = os.fsdecode(path)
    if "\0" in text:
        raise ValueError("embedded null byte")
    if not text:
        raise missing(text)
    return "/" + posixpath.normpath(posixpath.join(Files.cwd, text)).lstrip("/")


def is_own(path):
    return any(path == folder or path.startswith(folder + "/") for folder in (HOME, TEMPORARY))


def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    """`open` of a program."""
    kinds = [kind for kind in mode if kind in "rwax"] if isinstance(mode, str) else []
    if len(kinds) != 1 or set(mode) - set("rwaxbt+") or ("b" in mode and "t" in mode):
        raise ValueError(f"invalid mode: {mode!r}")
    reads, writes = kinds == ["r"] or "+" in mode, kinds != ["r"] or "+" in mode
    flags = (os.O_RDWR if reads and writes else os.O_WRONLY if writes else os.O_RDONLY)
    flags |= {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}[kinds[0]]
    if opener is not None and not isinstance(file, int):
        file = opener(file, flags)
    if isinstance(file, int):
        raw = Files.descriptors.pop(file, None) if closefd else Files.descriptors.get(file)
        if raw is None:
            raise OSError(errno.EBADF, "a program has no files that somebody else has opened")
    else:
        try:
            raw = opened_raw(file, flags)
        except FileNotFoundError:
            if writes or "open" not in Files.system:
                raise
            return Files.system["open"](file, mode, buffering, encoding, errors, newline)
    raw.mode = mode
    if "b" in mode:
        return raw
    return io.TextIOWrapper(raw, encoding or "utf-8", errors, newline, write_through=True)


def opened_raw(file, flags):
    path = placed(file)
    node = Files.nodes.get(path, Files)
    if node is None:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(file))
    # They are numbers on some systems, and bits of their own on others.
    access = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    writes = access in (os.O_WRONLY, os.O_RDWR)
    if node is Files:
        if not flags & os.O_CREAT:
            raise missing(os.fspath(file))
        if not is_own(path):
            raise PermissionError(errno.EACCES, f"a program writes into its own folder and {TEMPORARY} only", os.fspath(file))
        node = Node()
        Files.add(path, node)
    elif flags & os.O_EXCL:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(file))
    elif writes and flags & os.O_TRUNC:
        node.bytes, node.writer = b"", None
    raw = Stored(os.fspath(file), node, access != os.O_WRONLY, writes)
    raw.appends = bool(flags & os.O_APPEND)
    if raw.appends:
        raw.seek(0, io.SEEK_END)
    return raw


def own(name):
    """Makes a function that does what `name` of `os` does, with the files of the program; with others the system does it."""

    def replaced(function):
        system = getattr(os, name, None)

        def done(path, *rest, **more):
            if isinstance(path, int):
                place, mine = path, path in Files.descriptors
            elif more.get("dir_fd") is not None:
                place, mine = path, False
            else:
                place = placed(path)
                makes = name in MAKES and (name != "open" or rest and rest[0] & os.O_CREAT)
                mine = place in Files.nodes or makes and is_own(place)
            if mine:
                return function(place, *rest, **more)
            if Files.system and system is not None:
                return system(path, *rest, **more)
            if isinstance(path, int):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            if name in MAKES:
                raise PermissionError(errno.EACCES, f"a program writes into its own folder and {TEMPORARY} only", path)
            raise missing(os.fspath(path))

        done.__name__ = name
        Replaced[name] = done
        return function

    return replaced


# What makes something where there was nothing.
MAKES = {"mkdir", "open"}
Replaced = {}


def told(node, path):
    kind = stat.S_IFDIR | 0o700 if node is None else stat.S_IFREG | node.mode
    size = 0 if node is None else len(node.content())
    changed = Start.time if node is None else node.changed
    whole = (kind, hash(path) & 0x7FFFFFFF, 0, 1, 0, 0, size, *[int(changed)] * 3)
    times = {f"st_{which}time{ns}": int(changed * 10**9) if ns else changed for which in "amc" for ns in ("", "_ns")}
    return os.stat_result(whole, times)


class Start:
    time = time.time()


@own("stat")
def stat_of(path, *, dir_fd=None, follow_symlinks=True):
    return fstat_of(path) if isinstance(path, int) else told(Files.nodes[path], path)


@own("lstat")
def lstat_of(path, *, dir_fd=None):
    return told(Files.nodes[path], path)


@own("fstat")
def fstat_of(descriptor):
    raw = Files.descriptors[descriptor]
    return told(raw.node, raw.name)


@own("access")
def may(path, mode, **_):
    return True


@own("listdir")
def names_in(path="."):
    if Files.nodes[path] is not None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return Files.below(path)


class Entry:
    """What `os.scandir` gives of a file or folder."""

    def __init__(self, folder, name):
        self.name, self.path = name, posixpath.join(folder, name)

    def node(self):
        return Files.nodes.get(placed(self.path), Files)

    def is_dir(self, *, follow_symlinks=True):
        return self.node() is None

    def is_file(self, *, follow_symlinks=True):
        return self.node() not in (None, Files)

    def is_symlink(self):
        return False

    is_junction = is_symlink

    def stat(self, *, follow_symlinks=True):
        return os.stat(self.path)

    def inode(self):
        return self.stat().st_ino

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return f"<DirEntry {self.name!r}>"


class Entries:
    def __init__(self, folder, names):
        self.left = iter([Entry(folder, name) for name in names])

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.left)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.left = iter(())


def scanned(path="."):
    if not isinstance(path, int) and placed(path) in Files.nodes:
        return Entries(os.fsdecode(path), names_in(placed(path)))
    if "scandir" in Files.system:
        return Files.system["scandir"](path)
    raise missing(path)


@own("mkdir")
def made(path, mode=0o777, *, dir_fd=None):
    if path in Files.nodes:
        # It is there for every program, whether it has been made or not.
        if path == ARTIFACTS and Files.nodes[path] is None:
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    Files.add(path, None)


@own("rmdir")
def folder_removed(path, *, dir_fd=None):
    if Files.nodes[path] is not None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if Files.below(path) or path in (HOME, TEMPORARY):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
    del Files.nodes[path]


@own("unlink")
def removed(path, *, dir_fd=None):
    if Files.nodes[path] is None:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    del Files.nodes[path]


own("remove")(removed)


@own("rename")
def renamed(path, target, **_):
    target = placed(target)
    if not is_own(target) or path in (HOME, TEMPORARY):
        raise PermissionError(errno.EACCES, f"a program writes into its own folder and {TEMPORARY} only", target)
    if target == path:
        return
    if target.startswith(path + "/"):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), target)
    there = Files.nodes.get(target, Files)
    if there is None:
        if Files.nodes[path] is not None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        folder_removed(target)
    elif there is not Files:
        removed(target)
    moved = [name for name in Files.nodes if name == path or name.startswith(path + "/")]
    nodes = [Files.nodes.pop(name) for name in moved]
    for name, node in zip(moved, nodes):
        Files.add(target + name[len(path):], node)


own("replace")(renamed)


@own("chmod")
def mode_set(path, mode, **_):
    if Files.nodes[path] is not None:
        Files.nodes[path].mode = stat.S_IMODE(mode)


@own("utime")
def time_set(path, times=None, *, ns=None, **_):
    if not isinstance(path, int) and Files.nodes[path] is not None:
        seconds = ns[1] / 10**9 if ns else times[1] if times else time.time()
        Files.nodes[path].changed = seconds


@own("truncate")
def cut(path, length):
    raw = Files.descriptors[path] if isinstance(path, int) else opened_raw(path, os.O_RDWR)
    raw.truncate(length)
    if not isinstance(path, int):
        raw.close()


own("ftruncate")(cut)


@own("listxattr")
def nothing_listed(path, *_, **__):
    return []


@own("chdir")
def moved_to(path):
    if Files.nodes[path] is not None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    Files.cwd = path


@own("open")
def descriptor_of(path, flags, mode=0o777, *, dir_fd=None):
    if Files.nodes.get(path, Files) is None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), path)
    raw = opened_raw(path, flags)
    number = max(Files.descriptors, default=DESCRIPTORS_FROM) + 1
    Files.descriptors[number] = raw
    return number


@own("close")
def descriptor_closed(number):
    Files.descriptors.pop(number).close()


@own("read")
def read_from(number, count):
    return Files.descriptors[number].read(count)


@own("write")
def written_to(number, data):
    return Files.descriptors[number].write(data)


@own("lseek")
def moved_in(number, where, how=0):
    return Files.descriptors[number].seek(where, how)


@own("fsync")
def nothing_pending(number):
    return None


def tree_removed(path, ignore_errors=False, onerror=None, *, onexc=None, dir_fd=None):
    whole = placed(path)
    if whole not in Files.nodes:
        if ignore_errors:
            return
        if Files.system:
            return Files.system["rmtree"](path, ignore_errors, onerror)
        raise missing(path)
    if Files.nodes[whole] is not None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    for name in [name for name in Files.nodes if name.startswith(whole + "/")]:
        del Files.nodes[name]
    if whole not in (HOME, TEMPORARY):
        del Files.nodes[whole]


def install(system):
    """Puts these in the place of what the interpreter has, which goes on with files that are not the program's where it
    has any (`system`)."""
    if system:
        Files.system = {"open": builtins.open, "scandir": os.scandir, "rmtree": shutil.rmtree}
    unlink = os.unlink
    for name, function in Replaced.items():
        if hasattr(os, name):
            setattr(os, name, function)
    listdir = os.listdir
    os.listdir = lambda path=".": listdir(path)
    os.scandir = scanned
    os.getcwd = lambda: Files.cwd
    os.getcwdb = lambda: os.fsencode(Files.cwd)
    shutil.rmtree = tree_removed
    builtins.open = io.open = opened
    # These took it under a name of their own when they were read.
    for module, name in (("tarfile", "bltn_open"), ("bz2", "_builtin_open"), ("tokenize", "_builtin_open")):
        if module in sys.modules:
            setattr(sys.modules[module], name, opened)
    tempfile.tempdir = TEMPORARY
    # What holds what there was when the module was read; Debian's has one more than others.
    if hasattr(tempfile, "_rmtree"):
        tempfile._rmtree = tree_removed
    for name in ("close", "cleanup"):
        function = getattr(tempfile._TemporaryFileCloser, name, None)
        if function is not None and function.__defaults__:
            function.__defaults__ = tuple(os.unlink if value is unlink else value for value in function.__defaults__)


