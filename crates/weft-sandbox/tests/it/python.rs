//! Python programs as people and models write them.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::{Failure, Limits, Program};
use weft_core::{ErrorKind, TenantId};
use weft_sandbox::LIMITS;

use crate::kit::{failed, python, run_python, sandbox, sandbox_of_python};

async fn result(source: &str) -> Result<Json, Failure> {
    run_python(source, LIMITS).await.result
}

async fn given(source: &str, arguments: Json) -> Result<Json, Failure> {
    let arguments = arguments.as_object().unwrap().clone();
    let program = Program { arguments, ..python(source, LIMITS) };
    sandbox_of_python().run(&TenantId::new("t"), program).await.unwrap().result
}

#[tokio::test]
async fn main_accepts_arguments_in_any_style() {
    let arguments = json!({"a": 3, "b": 4});
    for source in [
        "def main(a, b): return a + b",
        "def main(a: int, b: int = 9, c=0) -> int: return a + b + c",
        "def main(**args): return args['a'] + args['b']",
        "def main(a, **rest): return a + rest['b']",
        "def main(args): return args['a'] + args['b']",
        "def main(args: dict = None): return args['a'] + args.get('b')",
        "def main(*args): return args[0]['a'] + args[0]['b']",
        "async def main(a, b): return a + b",
        "import asyncio\nasync def main(a, b):\n  await asyncio.sleep(0.01)\n  return sum(await asyncio.gather(asyncio.sleep(0, a), asyncio.sleep(0, b)))",
        "main = lambda a, b: a + b",
        "from operator import add as main\nmain = (lambda f: lambda a, b: f(a, b))(main)",
        "def helper(x): return x\ndef main(a, b): return helper(a) + b\nif __name__ == '__main__':\n  main()",
        "class main:\n  def __new__(cls, a, b): return a + b",
    ] {
        assert_eq!(given(source, arguments.clone()).await, Ok(json!(7)), "{source}");
    }
    let (message, _) = failed(given("def main(x, y): return x", arguments).await);
    for part in ["missing a required argument: 'x'", "`a`, `b`"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn an_asynchronous_generator_gives_a_list() {
    let check =
        async |source: &str, expected: Json| assert_eq!(result(source).await, Ok(expected), "{source}");
    check("async def main():\n  yield 1\n  yield 2", json!([1, 2])).await;
    check("async def each():\n  yield 1\nasync def main(): return each()", json!([1])).await;
    let twice = "async def main():\n  yield 1\n  yield 2\nmain()";
    check(twice, json!([1, 2])).await;
}

#[tokio::test]
async fn non_string_keys_are_written_like_values() {
    let check =
        async |source: &str, expected: Json| assert_eq!(result(source).await, Ok(expected), "{source}");
    let dated = json!({"2024-01-02": {"2024-01-02T00:00:00": [null]}});
    let source = "from datetime import date, datetime\ndef main():\n  return {date(2024, 1, 2): {datetime(2024, 1, 2): [float('nan')]}}";
    check(source, dated).await;
    check(
        "from decimal import Decimal\ndef main(): return {Decimal('2'): 1, None: 2, 3: 4}",
        json!({"2": 1, "null": 2, "3": 4}),
    )
    .await;
    let (message, _) = failed(result("def main(): return {(1, 2): 3}").await);
    assert!(message.contains("keys must be") && message.contains("not tuple"), "{message}");
}

#[tokio::test]
async fn bytes_written_to_stdout_are_text() {
    let source = "import sys\nprint('a')\nsys.stdout.buffer.write('é\\n'.encode()[:1])\nsys.stdout.buffer.write('é\\n'.encode()[1:])\n\
        sys.stdout.buffer.flush()\nsys.stderr.buffer.write(b'no')\nprint('b')";
    let ran = run_python(source, LIMITS).await;
    assert_eq!((ran.result, ran.stdout.as_str(), ran.stderr.as_str()), (Ok(Json::Null), "a\né\nb\n", "no"));
}

#[tokio::test]
async fn a_program_without_main_returns_its_last_expression() {
    let check =
        async |source: &str, expected: Json| assert_eq!(result(source).await, Ok(expected), "{source}");
    check("x = 6\nx * 7", json!(42)).await;
    check("import math\nmath.sqrt(16)", json!(4.0)).await;
    check("for i in range(3): print(i)", Json::Null).await;
    check("x = 1\nprint(x)", Json::Null).await;
    check("def f():\n  return 7\nif __name__ == '__main__':\n  print(f())", Json::Null).await;
    check("async def f(): return 5\nf()", json!(5)).await;
    let ran = run_python("print('a', 1, [2, 'b'])\nprint('c', end='')", LIMITS).await;
    assert_eq!((ran.result, ran.stdout.as_str()), (Ok(Json::Null), "a 1 [2, 'b']\nc"));
    check("x = 6\nresult = x * 7", json!(42)).await;
    check("print(1)\nresult: int = 7", json!(7)).await;
    check("if True: result = 7", json!(7)).await;
    check("result = 7\nprint(result)", Json::Null).await;
    for source in ["", "x = 1", "# nothing"] {
        assert!(failed(result(source).await).0.contains("no function `main`"), "{source}");
    }
}

#[tokio::test]
async fn results_become_json() {
    let check = async |body: &str, expected: Json| {
        assert_eq!(result(&format!("def main():\n  {body}")).await, Ok(expected), "{body}");
    };
    check("return 60 * 60", json!(3600)).await;
    check("pass", Json::Null).await;
    check(
        "return (1, {2, 1}, frozenset(), range(3), (i for i in 'ab'), {}.keys())",
        json!([1, [1, 2], [], [0, 1, 2], ["a", "b"], []]),
    )
    .await;
    check(
        "return [float('nan'), float('inf'), {'a': (float('-inf'), {float('nan')})}, 0.5]",
        json!([null, null, {"a": [null, [null]]}, 0.5]),
    )
    .await;
    check("import datetime as d; return [d.datetime(2026, 1, 2, 3), d.date(2026, 1, 2), d.timedelta(minutes=1)]", json!(["2026-01-02T03:00:00", "2026-01-02", 60.0]))
        .await;
    check("import decimal, fractions; return [decimal.Decimal('1.5'), decimal.Decimal(10 ** 20), fractions.Fraction(1, 4)]", json!([1.5, "100000000000000000000", 0.25])).await;
    check("import collections; return [collections.Counter('aab'), collections.deque([1]), collections.namedtuple('P', 'x')(1)]", json!([{"a": 2, "b": 1}, [1], [1]]))
        .await;
    check("import dataclasses, enum; E = enum.Enum('E', 'A'); D = dataclasses.make_dataclass('D', ['x', 'e']); return D({1}, E.A)", json!({"x": [1], "e": 1})).await;
    check("from datetime import datetime as dt; from zoneinfo import ZoneInfo; return dt(2026, 7, 1, 12, tzinfo=ZoneInfo('Asia/Tokyo')).astimezone(ZoneInfo('Europe/Berlin'))", json!("2026-07-01T05:00:00+02:00")).await;
    check("import zoneinfo; return ['Asia/Shanghai' in zoneinfo.available_timezones(), len(zoneinfo.available_timezones()) > 400]", json!([true, true])).await;
    check("return {1: 2, None: 3, True: 4, 1.5: 5}", json!({"1": 4, "null": 3, "1.5": 5})).await;
    check("return b'text'", json!("text")).await;
    check("return ['\\ud83d\\ude00', '\\ud800汉😀']", json!(["😀", "\u{fffd}汉😀"])).await;
    check("return 2 ** 53", json!(9_007_199_254_740_992_i64)).await;
}

#[tokio::test]
async fn failures_name_the_line_and_the_exception() {
    let check = async |source: &str, part: &str, line: Option<u32>| {
        let (message, found) = failed(result(source).await);
        assert!(message.contains(part) && found == line, "{source}: {message} {found:?}");
    };
    check("def main():\n  return nothing", "NameError: name 'nothing' is not defined", Some(2)).await;
    check("def main():\n\n  return ]", "SyntaxError: unmatched ']'", Some(3)).await;
    check("def main():\nreturn 1", "IndentationError", Some(2)).await;
    check("def main():\n  f()\ndef f():\n  {}['key']", "KeyError: 'key'", Some(4)).await;
    check("async def main():\n  None.x", "AttributeError: 'NoneType'", Some(2)).await;
    check(
        "import numpy as np",
        "No module named 'numpy': a program runs alone, it has the standard library and no packages",
        Some(1),
    )
    .await;
    check("def main():\n  import requests", "no packages", Some(2)).await;
    check("import smtplib", "its interpreter does not have this module", Some(1)).await;
    check(
        "import socket\nsocket.create_connection(('127.0.0.1', 1))",
        "OSError: a program has no network",
        Some(2),
    )
    .await;
    check("import subprocess\nsubprocess.run(['id'])", "OSError: a program has no other processes", Some(2))
        .await;
    check("def main():\n  open('/etc/passwd')", "FileNotFoundError", Some(2)).await;
    check("import sys\nsys.exit(3)", "ended itself with exit(3)", Some(2)).await;
    check("def main(): return object()", "Object of type object is not JSON serializable", None).await;
    check("def main(): return {(1, 2): 3}", "keys must be str", None).await;
    check("def main():\n  a = []; a.append(a); return a", "Circular", None).await;
    check("def main():\n  a = 1\n  for i in range(200): a = [a]\n  return a", "recursion limit", None).await;
    check("def main(): raise ValueError('x' * 10 ** 6)", "xxx…", Some(1)).await;
    check("class E(Exception):\n  def __str__(self): raise self\ndef main(): raise E", "E", Some(3)).await;
    check("import asyncio\nasync def main(): await asyncio.Future()", "never happens", None).await;
    check("def main(): return input()", "EOFError", Some(1)).await;
    check("main = 7", "no function `main`", None).await;
    check("\0", "", None).await;
}

#[tokio::test]
async fn a_program_that_calls_main_itself_runs_it_once() {
    for source in [
        "def main():\n  print('once')\n  return 7\nmain()",
        "def main():\n  print('once')\n  return 7\nx = main()",
        "def main():\n  print('once')\n  return 7\ndef go():\n  return main()\ngo()",
        "import asyncio\nasync def main():\n  print('once')\n  return 7\nasyncio.run(main())",
        "async def main():\n  print('once')\n  return 7\nmain()",
        "def main(n=1):\n  if n: return main(n - 1) + 3\n  print('once')\n  return 4\nmain()",
    ] {
        let ran = run_python(source, LIMITS).await;
        assert_eq!(
            (ran.result, ran.stdout.as_str(), ran.stderr.as_str()),
            (Ok(json!(7)), "once\n", ""),
            "{source}"
        );
    }
    let ran = run_python("def main():\n  print('once')\n  return 7\nprint(main())", LIMITS).await;
    assert_eq!((ran.result, ran.stdout.as_str()), (Ok(json!(7)), "once\n7\n"));
    let ended = "import sys\ndef main():\n  print('once')\n  return 0\nsys.exit(main())";
    assert_eq!(result(ended).await, Ok(json!(0)));
    let once = "def main():\n  yield 1\nfor n in main(): print(n)";
    assert_eq!(
        result(once).await,
        Ok(json!([1])),
        "a generator can be consumed only once, so it is recreated"
    );
    // With arguments, a final call would have others.
    for last in ["main(1)", "print(main(1))"] {
        let source = format!("seen = []\ndef main(n):\n  seen.append(n)\n  return seen\n{last}");
        assert_eq!(given(&source, json!({"n": 7})).await, Ok(json!([7])), "{source}");
    }
    let (message, line) = failed(result("def main():\n  {}['k']\nmain()").await);
    assert_eq!((message.as_str(), line), ("KeyError: 'k'", Some(2)));
}

/// Programs that wait forever, and the line in which they do.
pub(crate) const WAITING: [(&str, &str, u32); 8] = [
    (
        "import queue, threading\nq = queue.Queue()\ndef consume():\n  print(q.get())\nt = threading.Thread(target=consume)\n\
         t.start()\nq.put(1)\nt.join()\n1",
        "get()",
        4,
    ),
    ("import queue\nqueue.SimpleQueue().get()", "get()", 2),
    ("import queue\nq = queue.Queue(1)\nq.put(1)\nq.put(2)", "put()", 4),
    ("import threading\nthreading.Event().wait()", "wait()", 2),
    ("import threading\nc = threading.Condition()\nwith c: c.wait()", "wait()", 3),
    ("import threading\nlock = threading.Lock()\nwith lock:\n  lock.acquire()", "acquire()", 4),
    (
        "from concurrent.futures import ThreadPoolExecutor\nimport threading\ne = threading.Event()\n\
         try:\n  ThreadPoolExecutor().submit(e.wait).result()\nexcept Exception: pass",
        "submit()",
        5,
    ),
    ("from concurrent.futures import Future\nFuture().result()", "result()", 2),
];

#[tokio::test]
async fn waiting_forever_reports_that_there_is_one_thread() {
    for (source, call, line) in WAITING {
        let (message, found) = failed(result(source).await);
        assert!(message.starts_with(&format!("`{call}` would wait for ever")), "{source}: {message}");
        assert!(message.contains("has one thread") && found == Some(line), "{source}: {message} {found:?}");
    }
    let source = "import queue, threading
q = queue.Queue()
def get():
    try: return q.get(timeout=0.01)
    except queue.Empty: return 'empty'
lock = threading.Lock()
with lock: held = [lock.locked(), lock.acquire(blocking=False), lock.acquire(timeout=0.01)]
condition = threading.Condition()
with condition: met = condition.wait_for(lambda: False, 0.01)
[get(), held, lock.locked(), met, threading.Event().wait(0.01), threading.Semaphore(0).acquire(timeout=0.01)]";
    let expected = json!(["empty", [true, false, false], false, false, false, false]);
    assert_eq!(result(source).await, Ok(expected));
}

/// Programs that fail with a specific reason, and the report.
pub(crate) const CAUSED: [(&str, &str); 5] = [
    (
        "import asyncio\nasync def a(): raise ValueError('a')\nasync def b(): raise KeyError('b')\nasync def main():\n  \
         async with asyncio.TaskGroup() as group:\n    group.create_task(a()); group.create_task(b())",
        "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n  - ValueError: a (line 2)\n  - KeyError: 'b' (line 3)",
    ),
    (
        "try:\n  {}['k']\nexcept KeyError as e:\n  raise RuntimeError('outer') from e",
        "RuntimeError: outer\n  caused by KeyError: 'k' (line 2)",
    ),
    (
        "try:\n  {}['k']\nexcept KeyError:\n  raise RuntimeError('outer')",
        "RuntimeError: outer\n  while handling KeyError: 'k' (line 2)",
    ),
    ("try:\n  {}['k']\nexcept KeyError:\n  raise RuntimeError('outer') from None", "RuntimeError: outer"),
    ("import enum\nclass E(enum.Enum):\n  A = 1\nE(5)", "ValueError: 5 is not a valid E"),
];

#[tokio::test]
async fn failures_include_their_causes() {
    for (source, expected) in CAUSED {
        assert_eq!(failed(result(source).await).0, expected, "{source}");
    }
    let many = "raise ExceptionGroup('g', [ValueError('x' * 1000)] * 8)";
    let (message, _) = failed(result(many).await);
    assert!(message.ends_with("…\n  - and 3 more") && message.len() < 2_100, "{message}");
    let deep = "e = ValueError(1)\nfor n in range(9): e = ExceptionGroup(str(n), [e])\nraise e";
    let (message, _) = failed(result(deep).await);
    assert_eq!(message.lines().count(), 4, "{message}");
    // Errors before `main` is called are no cause of what it raises.
    let message = failed(given("def main(args): raise ValueError('x')", json!({"a": 1, "b": 2})).await).0;
    assert_eq!(message, "ValueError: x");
}

#[tokio::test]
async fn integers_keep_all_digits() {
    let source = "import math\n{'f': math.factorial(25), 'n': -2 ** 64, 'k': 2 ** 63, 's': '1' * 30}";
    let expected = json!({"f": "15511210043330985984000000", "n": "-18446744073709551616", "k": 1_u64 << 63, "s": "1".repeat(30)});
    assert_eq!(result(source).await, Ok(expected));
}

#[tokio::test]
async fn files_that_are_not_kept_are_reported_with_a_reason() {
    let check = async |source: &str, part: &str| {
        let (message, _) = failed(result(source).await);
        assert!(message.contains(part), "{source}: {message}");
    };
    check("for n in range(11): open(f'{n}', 'w').write('x')\n1", "it leaves more than 10 files").await;
    check("open('b.bin', 'wb').write(bytes(11 << 20))\n1", "more than 10 MiB together; the file `b.bin`")
        .await;
    check("open('a:b', 'w').write('x')\n1", "the file name `a:b` is not allowed").await;
}

#[tokio::test]
async fn the_standard_library_is_available() {
    let source = "
import ast, base64, bisect, collections, contextlib, csv, dataclasses, datetime, decimal, enum, functools, hashlib, heapq
import html, io, itertools, json, logging, math, operator, os, pathlib, pickle, random, re, secrets, statistics, string
import sys, textwrap, time, traceback, typing, unicodedata, urllib.parse, uuid, xml.etree.ElementTree as ET, zlib, zoneinfo
from datetime import datetime as dt, timezone
def main():
    began = time.perf_counter()
    time.sleep(0.02)
    waited = time.perf_counter() - began
    buffer = io.StringIO()
    csv.writer(buffer).writerow(['a', 'b,c'])
    logging.warning('careful')
    return {
        'now': abs(dt.now(timezone.utc).timestamp() - time.time()) < 5, 'year': dt.now().year >= 2026,
        'waited': 0.02 <= waited < 5, 'sha': hashlib.sha256(b'x').hexdigest()[:8], 'csv': buffer.getvalue(),
        're': re.findall(r'\\d+', 'a1b22'), 'xml': ET.fromstring('<a><b>1</b></a>').findtext('b'),
        'mean': statistics.mean([1, 2, 3]), 'uuid': len(str(uuid.uuid4())), 'name': unicodedata.name('é'),
        'strptime': dt.strptime('2026-02-03', '%Y-%m-%d').day, 'gbk': '汉'.encode('gbk').hex(),
        'zlib': zlib.decompress(zlib.compress(b'a' * 100)).decode()[:2], 'cpu': os.cpu_count() is None or True,
        'pickle': pickle.loads(pickle.dumps({'a': (1,)}))['a'][0], 'url': urllib.parse.quote('a b'), 'env': dict(os.environ),
    }";
    let ran = run_python(source, LIMITS).await;
    let expected = json!({
        "now": true, "year": true, "waited": true, "sha": "2d711642", "csv": "a,\"b,c\"\r\n", "re": ["1", "22"], "xml": "1",
        "mean": 2, "uuid": 36, "name": "LATIN SMALL LETTER E WITH ACUTE", "strptime": 3, "gbk": "baba", "zlib": "aa", "cpu": true,
        "pickle": 1, "url": "a%20b", "env": {},
    });
    assert_eq!(ran.result, Ok(expected));
    assert_eq!(ran.stderr, "WARNING:root:careful\n");
}

#[tokio::test]
async fn more_of_the_standard_library_is_available() {
    let source = "import gzip, io, tarfile, tomllib, plistlib, wave, shelve, filecmp, fileinput, tempfile, os
from concurrent.futures import ThreadPoolExecutor
import threading
with gzip.open('a.gz', 'wt') as file: file.write('hello')
with tarfile.open('/tmp/a.tar', 'w') as archive: archive.add('a.gz')
with wave.open('/tmp/a.wav', 'wb') as sound:
    sound.setnchannels(1); sound.setsampwidth(2); sound.setframerate(8000); sound.writeframes(bytes(20))
with shelve.open('/tmp/kept') as shelf: shelf['a'] = [1]
thread = threading.Thread(target=lambda: seen.append('thread'))
seen = []
thread.start(); thread.join()
with ThreadPoolExecutor() as pool: squares = list(pool.map(lambda n: n * n, range(3)))
[gzip.open('a.gz', 'rt').read(), tarfile.open('/tmp/a.tar').getnames(), wave.open('/tmp/a.wav').getnframes(),
 dict(shelve.open('/tmp/kept')), tomllib.loads('a = 1'), plistlib.loads(plistlib.dumps({'b': 2})), seen, squares,
 thread.is_alive(), os.path.exists('a.gz'), filecmp.cmp('a.gz', 'a.gz')]";
    let expected = json!(["hello", ["a.gz"], 10, {"a": [1]}, {"a": 1}, {"b": 2}, ["thread"], [0, 1, 4], false, true, true]);
    assert_eq!(result(source).await, Ok(expected));
    let (message, _) = failed(result("import lzma").await);
    assert!(message.contains("cannot compress in this way"), "{message}");
    let source = "import doctest, getpass\n[callable(doctest.testmod), callable(getpass.getpass)]";
    assert_eq!(result(source).await, Ok(json!([true, true])));
}

#[tokio::test]
async fn randomness_differs_between_runs() {
    let source = "import random, secrets, uuid\ndef main(): return [random.random(), secrets.token_hex(8), str(uuid.uuid4())]";
    let (one, other) = (result(source).await.unwrap(), result(source).await.unwrap());
    for at in 0..3 {
        assert_ne!(one[at], other[at]);
    }
    let seeded = "import random\nrandom.seed(7)\ndef main(): return random.random()";
    assert_eq!(result(seeded).await, result(seeded).await);
}

#[tokio::test]
async fn output_before_a_timeout_is_reported() {
    let limits = Limits { time: Duration::from_millis(300), ..LIMITS };
    for wait in ["while True: pass", "import time; time.sleep(3600)"] {
        let ran = run_python(&format!("print('so far')\n{wait}"), limits).await;
        assert_eq!((ran.result, ran.stdout.as_str()), (Err(Failure::Time), "so far\n"), "{wait}");
    }
}

#[tokio::test]
async fn without_an_interpreter_python_programs_are_refused_by_name() {
    let ran = sandbox().run(&TenantId::new("t"), python("1", LIMITS)).await.unwrap();
    assert_eq!(ran.result, Err(Failure::Language(weft_core::seam::sandbox::Language::Python)));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in the way");
    std::fs::write(&file, "x").unwrap();
    let error = sandbox().with_python(file).run(&TenantId::new("t"), python("1", LIMITS)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.full().contains("in the way is writable"), "{}", error.full());
}

/// As two independent processes would.
#[tokio::test]
async fn the_interpreter_is_prepared_once() {
    let folder = tempfile::tempdir().unwrap();
    let sandboxes = [(); 2].map(|()| sandbox().with_python(folder.path().join("deep/python")));
    let tenant = TenantId::new("t");
    let runs =
        sandboxes.iter().flat_map(|sandbox| [(); 2].map(|()| sandbox.run(&tenant, python("6 * 7", LIMITS))));
    for ran in futures::future::join_all(runs).await {
        assert_eq!(ran.unwrap().result, Ok(json!(42)));
    }
    let files = std::fs::read_dir(folder.path().join("deep/python")).unwrap().flatten();
    let code = files.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "cwasm"));
    let [code] = code.collect::<Vec<_>>().try_into().unwrap();
    // An unreadable file is rebuilt. A process that has it in memory continues.
    let other = folder.path().join("other");
    std::fs::write(&other, "no machine code").unwrap();
    std::fs::rename(&other, code.path()).unwrap();
    let new = sandbox().with_python(folder.path().join("deep/python"));
    for sandbox in [&sandboxes[0], &new] {
        assert_eq!(sandbox.run(&tenant, python("1", LIMITS)).await.unwrap().result, Ok(json!(1)));
    }
}
