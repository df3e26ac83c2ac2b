//! Python programs that try to escape, or use too much. None of them harms, hangs or outlives its run, and the
//! next run is unaffected.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_core::TenantId;
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::{Failure, Limits, Ran};
use weft_sandbox::{LIMITS, ProcessSandbox};

use crate::kit::{python, run_python, sandbox_of_python};

/// Short limits for tests.
const SHORT: Limits = Limits { time: Duration::from_millis(700), memory_bytes: 16 << 20, ..LIMITS };
/// Concurrent programs: with more, those that should end by memory end by time.
const AT_ONCE: usize = 2;

/// Runs all of them, and checks each.
async fn each(bodies: &[&str], limits: Limits, check: impl Fn(&str, &Ran)) {
    let sandbox: ProcessSandbox = sandbox_of_python();
    let tenant = TenantId::new("t");
    let runs = bodies.iter().map(|body| {
        let source = format!("def main():\n  {}", body.replace('\n', "\n  "));
        let (sandbox, tenant) = (&sandbox, &tenant);
        async move { (body, sandbox.run(tenant, python(&source, limits)).await.unwrap()) }
    });
    let mut runs = futures::stream::iter(runs).buffer_unordered(AT_ONCE);
    while let Some((body, ran)) = runs.next().await {
        check(body, &ran);
    }
    let ran = run_python("def main(): return 6 * 7", LIMITS).await;
    assert_eq!(ran.result, Ok(json!(42)), "the next run is unaffected");
}

/// Attempts to reach the outside.
const OUTWARD: [&str; 71] = [
    // Files.
    "open('/etc/passwd').read()",
    "open('/etc/x', 'w').write('x')",
    "open('/x', 'w')",
    "import os; os.listdir('/')",
    "import os; os.scandir('..')",
    "import os; os.mkdir('/x')",
    "import os; os.makedirs('/x/y')",
    "import os; open('own', 'w').close(); os.rename('own', '/x')",
    "import os; os.remove('/etc/passwd')",
    "import os; os.rename('/etc/passwd', '/etc/x')",
    "import os; os.symlink('/etc/passwd', '/tmp/x')",
    "import os; os.link('/etc/passwd', '/tmp/x')",
    "import os; os.stat('/')",
    "import os; os.chdir('/')",
    "import os; os.open('/dev/mem', os.O_RDWR)",
    "import os; os.open('/proc/self/mem', 0)",
    "open('/proc/self/environ', 'rb').read()",
    "open('../../../../etc/passwd')",
    "import pathlib; pathlib.Path('/etc/passwd').read_text()",
    "import tempfile; tempfile.NamedTemporaryFile(dir='/')",
    "import shutil; shutil.copy('/etc/passwd', '/tmp/x')",
    "import zipfile; zipfile.ZipFile('/x.zip', 'w')",
    "import logging; logging.FileHandler('/x')",
    // Descriptors that the process has.
    "import os; os.write(1, b'{}')",
    "import os; os.read(0, 1)",
    "open(2, 'wb').write(b'x' * 99999)",
    "import os; os.fdopen(3)",
    "import os; os.dup2(1, 5)",
    // Other programs and processes.
    "import os; os.system('id')",
    "import os; os.popen('id')",
    "import os; os.fork()",
    "import os; os.execv('/bin/sh', ['sh'])",
    "import os; os.spawnv(0, '/bin/sh', ['sh'])",
    "import os; os.kill(1, 9)",
    "import os; os.setuid(0)",
    "import os; os.mkfifo('/tmp/x')",
    "import os; os.memfd_create('x')",
    "import os; os.pipe()",
    "import subprocess; subprocess.run(['id'])",
    "import multiprocessing; multiprocessing.Process(target=print).start()",
    "import _thread; _thread.start_new_thread(print, ())",
    "import concurrent.futures as f; f.ProcessPoolExecutor().submit(print).result()",
    "import signal; signal.alarm(1)",
    "import pty; pty.spawn('sh')",
    // The network.
    "import socket; socket.create_connection(('127.0.0.1', 80))",
    "import socket; socket.socket(socket.AF_UNIX)",
    "import _socket; _socket.socket()",
    "import socket; socket.getaddrinfo('localhost', 80)",
    "import _socket; _socket.getaddrinfo('localhost', 80)",
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1')",
    "import http.client; http.client.HTTPConnection('127.0.0.1').connect()",
    "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 80))",
    // The machine.
    "import ctypes; ctypes.CDLL(None).system(b'id')",
    "import mmap; mmap.mmap(-1, 10)",
    "import fcntl; fcntl.ioctl(0, 0)",
    "import resource; resource.setrlimit(0, (0, 0))",
    "import gc; [o for o in gc.get_objects() if type(o).__name__ == 'Popen'][0]",
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen'][0](['id'])",
    "__import__('os').__dict__['sys' + 'tem']('id')",
    "print.__self__.__import__('os').popen('id').read()",
    "(lambda: 0).__globals__['__builtins__'].open('/etc/passwd')",
    "[c for c in object.__subclasses__() if c.__name__ == 'FileIO'][0]('/etc/passwd')",
    "import pickle; pickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')",
    "import sys; sys.modules['guest'].ABSENT.clear(); import numpy",
    "import wit_world; wit_world.show('not a bool', 5, 6)",
    "import wit_world; wit_world.sleep('x')",
    "import componentize_py_runtime as r; r.call_import(None, 10 ** 6, [], 0)",
    // Ending the process.
    "import os; os._exit(0)",
    "import sys; sys.exit(0)",
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
];

#[tokio::test]
async fn files_written_by_a_program_are_returned() {
    let source = "import csv, pathlib\ndef main():\n  with open('a.csv', 'w', newline='') as f: csv.writer(f).writerow([1, 2])\n  \
                  open('./b.png', 'wb').write(b'\\x89PNG')\n  pathlib.Path('c.txt').write_text('é')\n  return open('a.csv').read()";
    let ran = run_python(source, LIMITS).await;
    assert_eq!(ran.result, Ok(json!("1,2\n")), "{ran:?}");
    let files: Vec<_> = ran.files.iter().map(|file| (file.name.as_str(), file.base64.as_str())).collect();
    assert_eq!(files, [("a.csv", "MSwyDQo="), ("b.png", "iVBORw=="), ("c.txt", "w6k=")]);
    for source in [
        "for n in range(11): open(f'{n}', 'w').write('x')",
        "open('a', 'wb').write(bytes(11 << 20))",
        "open('../a', 'w')",
        "open('/a', 'w')",
        "open('a')",
        "open('a/b', 'wb')",
        "open('a', 'w').write('x')\nraise ValueError('no')",
    ] {
        let ran = run_python(&format!("{source}\n1"), LIMITS).await;
        assert!(ran.result.is_err() && ran.files.is_empty(), "{source}: {ran:?}");
    }
}

#[tokio::test]
async fn the_host_is_out_of_reach() {
    let refused = |body: &str, ran: &Ran| {
        let Err(Failure::Program { message, .. }) = &ran.result else { panic!("{body}: {ran:?}") };
        assert!(!message.is_empty(), "{body}");
    };
    each(&OUTWARD, LIMITS, refused).await;
}

#[tokio::test]
async fn a_broken_interpreter_breaks_nothing_else() {
    let bodies = [
        "import os; os.abort()",
        "import faulthandler; faulthandler._sigsegv()",
        "import ctypes.util",
        "exec((lambda: 0).__code__.replace(co_code=b'\\xff' * 400, co_stacksize=9))",
        "import types; f = (lambda: 0); f.__code__ = f.__code__.replace(co_code=b'd\\x7f' * 9); return f()",
        "import sys; sys.setrecursionlimit(10 ** 9); f = lambda: f(); f()",
        "import sys; sys.setrecursionlimit(10 ** 9); f = lambda: [*map(lambda x: f(), [1])]; f()",
        "f = lambda: f()\nf()",
        "class A:\n  def __getattr__(self, name): return getattr(self, name + 'x')\nA().x",
        "class A:\n  def __repr__(self): return repr(self)\nrepr(A())",
        "class A:\n  def __eq__(self, other): return self == other\nA() == A()",
        "a = []\nfor _ in range(10 ** 5): a = [a]\nrepr(a)",
        "a = []\nfor _ in range(10 ** 5): a = [a]\nreturn a",
        "a = 1\nfor _ in range(10 ** 6): a = (a,)\ndel a",
        "eval('(' * 10 ** 5 + ')' * 10 ** 5)",
        "eval('-' * 10 ** 6 + '1')",
        "eval('[' * 10 ** 4)",
        "eval('1' + '+1' * 10 ** 5)",
        "import ast; ast.parse('a.' * 10 ** 5 + 'b')",
        "import json; json.loads('[' * 10 ** 6)",
        "import re; re.compile('(' * 10 ** 4 + ')' * 10 ** 4)",
        "import pickle; pickle.loads(b'(' * 10 ** 5 + b'l' * 10 ** 5 + b'.')",
        "import copy; a = []; b = a\nfor _ in range(10 ** 5): b.append([]); b = b[0]\ncopy.deepcopy(a)",
        "import sys; sys.stdout = None; sys.stderr = None; print('x'); raise ValueError('quiet')",
        "import builtins; builtins.__dict__.clear(); raise ValueError",
        "import sys; sys.modules.clear(); import json",
        "import json; json.dumps = lambda *a, **k: 'not json'; return 1",
        "import json; json.dumps = lambda *a, **k: 5; return 1",
        "import sys; m = sys.modules['guest']; m.as_json = lambda value: '[' * 10 ** 5; return 1",
        "class E(Exception):\n  __notes__ = 5\n  def __str__(self): return 5\nraise E",
        "class E(Exception):\n  def __traceback__(self): pass\nraise E('x' * 10 ** 6)",
        "import sys; e = ValueError('x'); e.__cause__ = e; e.__context__ = e; raise e",
    ];
    each(&bodies, SHORT, |body, ran| {
        let told = matches!(
            ran.result,
            Ok(_) | Err(Failure::Program { .. } | Failure::Broken | Failure::Memory | Failure::Time)
        );
        assert!(told && ran.stdout.len() + ran.stderr.len() <= SHORT.printed_bytes, "{body}: {ran:?}");
        if let Ok(value) = &ran.result {
            assert!(value.is_null() || value == &json!(0) || value == &json!(1), "{body}: {value}");
        }
    })
    .await;
}

#[tokio::test]
async fn endless_code_is_stopped() {
    let bodies = [
        "while True: pass",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "import time\nwhile True: time.sleep(0.01)",
        "import time; time.sleep(10 ** 9)",
        "import time; time.sleep(1e300)",
        "import asyncio; asyncio.run(asyncio.sleep(10 ** 6))",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
        "sum(range(10 ** 12))",
        "[0].__contains__(iter(int, 1)) or 1 in iter(int, 1)",
        "import itertools; next(x for x in itertools.count() if x < 0)",
        "class A:\n  def __del__(self): B = A()\nA()\nwhile True: A()",
        "class A:\n  def keys(self):\n    while True: pass\n  __getitem__ = 0\nreturn A()",
        "class E(Exception):\n  def __str__(self):\n    while True: pass\nraise E",
        "try:\n  while True: pass\nfinally:\n  while True: pass",
        "pow(3, 10 ** 99999, 10 ** 9999 + 7)",
        "import hashlib\nwhile True: hashlib.sha256(bytes(10 ** 6)).digest()",
        "import sys; sys.setswitchinterval(1e9)\nwhile True: pass",
        "import math; math.factorial(10 ** 6)",
    ];
    each(&bodies, SHORT, |body, ran| assert_eq!(ran.result, Err(Failure::Time), "{body}")).await;
}

#[tokio::test]
async fn excessive_memory_is_refused() {
    let limits = Limits { memory_bytes: 16 << 20, ..LIMITS };
    let bodies = [
        "a = []\nwhile True: a.append('x' * 1000 + str(len(a)))",
        "a = []\nwhile True: a.append({})",
        "a = {}\nwhile True: a = {'a': a}",
        "a = 'x'\nwhile True: a += a",
        "return bytearray(2 ** 30)",
        "return 'x' * 2 ** 40",
        "return [0] * 2 ** 60",
        "a = bytearray()\nwhile True: a.extend(bytes(10 ** 6))",
        "a = set()\nwhile True: a.add(object())",
        "a = []\nwhile True: a.append(lambda: a)",
        "a = []\nwhile True:\n  g = (x for x in a); a.append(g)",
        "return list(range(10 ** 9))",
        "return 1 << (1 << 33)",
        "return '%1000000000d' % 1",
        "return f'{1:>{10 ** 9}}'",
        "import zlib; return zlib.decompress(zlib.compress(bytes(4 * 10 ** 6)) * 1, bufsize=10 ** 9)",
        "import io; b = io.BytesIO()\nwhile True: b.write(bytes(10 ** 6))",
        "import array; return array.array('d', [0]) * 10 ** 9",
        "import itertools; return list(itertools.product(range(100), repeat=9))",
        "import functools\n@functools.cache\ndef f(n): return 'x' * 9999 + str(n)\nfor n in range(10 ** 9): f(n)",
        "a = []\nwhile True:\n  try: None.x\n  except Exception as e: a.append(e)",
        "a = []\nwhile True: a.append(compile(str(len(a)), 'x', 'eval'))",
        "import struct; return struct.pack('999999999x')",
        "import re; return re.sub('', 'x' * 9999, 'y' * 9999)",
        "import string; return '{0:{1}}'.format('', 10 ** 9)",
        "import decimal; decimal.getcontext().prec = 10 ** 9; return decimal.Decimal(1) / 3",
    ];
    // An error of the language itself is an ordinary error.
    let told = |body: &str, ran: &Ran| {
        let refused = match &ran.result {
            Err(Failure::Memory) => true,
            Err(Failure::Program { message, .. }) => {
                ["OverflowError", "ValueError", "error: "].iter().any(|name| message.starts_with(name))
            }
            _ => false,
        };
        assert!(refused, "{body}: {:?}", ran.result);
    };
    each(&bodies, limits, told).await;
    let caught = "try:\n  a = []\n  while True: a.append('x' * 10 ** 5 + str(len(a)))\nexcept MemoryError:\n  return 'caught'";
    each(&[caught], limits, |_, ran| assert_eq!(ran.result, Ok(json!("caught")))).await;
}

#[tokio::test]
async fn excessive_output_is_truncated() {
    let limits = Limits { printed_bytes: 1_000, output_bytes: 1_000, ..LIMITS };
    let bodies = [
        "import sys\nfor i in range(10 ** 4): print('汉'); print('字', file=sys.stderr)",
        "print('x' * 10 ** 7)",
        "import sys\nsys.stdout.write('é' * 10 ** 6)\nsys.stdout.writelines(['a'] * 10 ** 4)",
        "import warnings, logging\nfor i in range(1000): logging.error('x' * i)",
        "import traceback\nfor i in range(1000): traceback.print_stack()",
    ];
    each(&bodies, limits, |body, ran| {
        assert!(ran.truncated && ran.result == Ok(Json::Null), "{body}: {:?}", ran.result);
        assert!(ran.stdout.len() + ran.stderr.len() <= 1_000, "{body}");
    })
    .await;
    each(&["return '\\0' * 300", "return ['x'] * 1000"], limits, |body, ran| {
        assert_eq!(ran.result, Err(Failure::Output), "{body}");
    })
    .await;
}
