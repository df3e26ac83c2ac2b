//! Programs that try to escape, or use too much. None of them harms, hangs or outlives its run.

use serde_json::json;
use weft_core::TenantId;
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::{Failure, Limits};
use weft_sandbox::{LIMITS, ProcessSandbox};

use crate::kit::{SHORT, failed, program, result, run, worker};

/// Attempts to reach the outside: each fails, as nothing is there.
const OUTWARD: [&str; 97] = [
    "return require('fs').readFileSync('/etc/passwd', 'utf8')",
    "return require.main.require('fs')",
    "return process.env",
    "return process.binding('fs')",
    "return globalThis.process.mainModule.require('child_process')",
    "return module.constructor._load('fs').x",
    "return fetch('http://127.0.0.1')",
    "return new WebSocket('ws://127.0.0.1')",
    "return new XMLHttpRequest()",
    "return navigator.sendBeacon('http://127.0.0.1', 'x')",
    "return importScripts('http://127.0.0.1/x.js')",
    "return new Worker('x.js')",
    "return WebAssembly.compile(new Uint8Array(8))",
    "return open('/etc/passwd')",
    "return read('/etc/passwd')",
    "return print(1)",
    "return std.loadFile('/etc/passwd')",
    "return os.exec(['id'])",
    "return os.kill(1, 9)",
    "return Deno.readTextFileSync('/etc/passwd')",
    "return Bun.file('/etc/passwd').text()",
    "return globalThis.__loadScript('/etc/passwd')",
    "return (async () => (await import('os')).exec(['id']))()",
    "return (async () => (await import('qjs:std')).open('/etc/passwd'))()",
    "return (async () => (await import('file:///etc/passwd')).default)()",
    "return (async () => (await import('./program.js')).default)()",
    "return eval('import(\"fs\")')",
    "return this.constructor.constructor('return process')().env",
    "return __proto__.constructor.constructor('return process')()",
    "return Function('return std')().open('/etc/passwd')",
    "return new Function('return this')().require('fs')",
    "return Reflect.construct(Function, ['return Deno.cwd()'])()",
    "return console.log.constructor('return require')()('fs')",
    "return JSON.parse.constructor('return std')()",
    "return main.constructor('return require')()",
    "return [].constructor.constructor('return require(\"os\")')()",
    "return (class extends null {}).constructor('return process')().env",
    "return (async () => {}).constructor('return process.env')()",
    "return (function* () {}).constructor('yield process.env')().next()",
    "return Object.getPrototypeOf(async function* () {}).constructor('yield fetch(1)')().next()",
    "return (function () { return this }).call(null).process.exit(0)",
    "return (function () { return arguments.callee.caller.constructor('return process')() })().env",
    "return new Error().stack.getThis().process",
    "Error.prepareStackTrace = (_, frames) => frames; return new Error().stack[0].getThis().process.env",
    "return Proxy.revocable(globalThis, {}).proxy.process.env",
    "return Symbol.for('nodejs.util.inspect.custom').process.x",
    "return new FinalizationRegistry(() => {}).constructor.constructor('return os')().exec",
    "return new SharedWorker('x.js')",
    "return new EventSource('http://127.0.0.1')",
    "return document.cookie",
    "return window.location.href",
    "return localStorage.getItem('a')",
    "return indexedDB.open('x')",
    "return caches.open('x')",
    "return self.postMessage(1)",
    "return new BroadcastChannel('x').name",
    "return new MessageChannel().port1",
    "return __dirname + __filename",
    "return global.process.version",
    "return GLOBAL.require('fs')",
    "return java.lang.System.getenv()",
    "return Packages.java.lang.Runtime",
    "return load('/etc/passwd')",
    "return readFile('/etc/passwd')",
    "return readline()",
    "return quit(0)",
    "return exit(0)",
    "return $262.createRealm().global",
    "return $vm.crash()",
    "return new ShadowRealm().evaluate('1')",
    "return new ActiveXObject('WScript.Shell')",
    "return scriptArgs[0]",
    "return bjson.read(new ArrayBuffer(8), 0, 8)",
    "return std.evalScript('1')",
    "return os.open('/etc/passwd', 0)",
    "return std.popen('id', 'r')",
    "return std.getenviron()",
    "return new os.Worker('./x.js')",
    "return os.symlink('/etc', 'x')",
    "return os.remove('x')",
    "return std.urlGet('http://127.0.0.1')",
    "return (async () => (await import('node:fs')).readFileSync('/etc/passwd'))()",
    "return (async () => (await import('data:text/javascript,export default 1')).default)()",
    "return (async () => (await import('http://127.0.0.1/x.js')).default)()",
    "return (async () => (await import('/proc/self/environ')).default)()",
    "return (async () => (await import('../../../../etc/passwd')).default)()",
    "return new Proxy(function () {}, {apply: target => target.constructor('return os')()})()",
    "return Reflect.apply(Function, null, ['return process'])().env",
    "return [1].map(Function.bind(null, 'return process'))[0]().env",
    "return Object.getOwnPropertyDescriptor(Function.prototype, 'constructor').value('return std')().open('/etc/passwd')",
    "return `${{toString: () => process.env.HOME}}`",
    "return {[Symbol.toPrimitive]: () => require('fs')} + ''",
    "return JSON.stringify({toJSON: () => Deno.env.toObject()})",
    "return [...{*[Symbol.iterator]() { yield process.env }}]",
    "return new (class { static x = process.env })()",
    "label: { return (0, eval)('process').env }",
    "with_ = Function('o', 'with (o) { return process }'); return with_({}).env",
];

#[tokio::test]
async fn the_host_is_out_of_reach() {
    let names =
        "['require', 'process', 'fetch', 'std', 'os', 'Deno', 'Bun', 'XMLHttpRequest', 'WebSocket', 'Worker',
        'print', 'scriptArgs', 'importScripts', 'WebAssembly', 'gc', 'load', 'bjson']";
    let source = format!("function main() {{ return {names}.filter(name => name in globalThis) }}");
    assert_eq!(result(&source).await, Ok(json!([])));
    for body in OUTWARD {
        failed(result(&format!("function main() {{ {body} }}")).await);
    }
}

#[tokio::test]
async fn endless_code_is_stopped() {
    let bodies = [
        "for (;;);",
        "for (;;) { try { for (;;); } catch {} finally { for (;;); } }",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
        "return (async () => { for (;;) await null })()",
        "return new Promise(() => { const again = () => { Promise.resolve().then(again, again) }; again() })",
        "return {toJSON() { for (;;); }}",
        "return {get a() { for (;;); }}",
        "return new Proxy({}, {ownKeys() { for (;;); }})",
        "throw {get message() { for (;;); }}",
        "throw {toJSON() { for (;;); }}",
        "console.log({toJSON() { for (;;); }})",
        "Error.prepareStackTrace = () => { for (;;); }; null.x",
        "return Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)",
        "let a = []; for (let i = 0; i < 60; i++) a = [a, a]; return a",
        // The interpreter cannot be interrupted in any of these.
        "Array.prototype.reverse.call({length: 2 ** 53 - 1})",
        "Array.prototype.sort.call({length: 2 ** 53 - 1})",
        "return 'a'.repeat(6e6).indexOf('a'.repeat(3e6) + 'b')",
    ];
    let mut programs: Vec<String> =
        bodies.iter().map(|body| format!("function main() {{ {body} }}")).collect();
    programs.push("for (;;);".to_owned());
    programs.push("export const x = await new Promise(() => { for (;;); })".to_owned());
    let sandbox = ProcessSandbox::new(worker(), LIMITS, 8);
    let tenant = TenantId::new("t");
    let all = programs.iter().map(|source| sandbox.run(&tenant, program(source, SHORT)));
    for (source, ran) in programs.iter().zip(futures::future::join_all(all).await) {
        assert_eq!(ran.unwrap().result, Err(Failure::Time), "{source}");
    }
}

#[tokio::test]
async fn excessive_memory_is_refused() {
    let check = async |body: &str| {
        let limits = Limits { memory_bytes: 16 << 20, ..LIMITS };
        run(&format!("function main() {{ {body} }}"), limits).await.result
    };
    for body in [
        "const all = []; for (;;) all.push(new Array(1000).fill(1))",
        "const all = []; for (;;) all.push({})",
        "let all = {}; for (;;) all = {all}",
        "const all = new Map(); for (let i = 0;; i++) all.set(i, 'x' + i)",
        "let text = 'x'; for (;;) text += text.slice(1) + text",
        "globalThis.all = []; for (;;) all.push(() => all)",
        "const all = []; for (;;) all.push(new Uint8Array(1e6))",
        "let f = () => 1; for (;;) f = f.bind()",
        "return new Uint8Array(2 ** 30)",
        "const all = []; for (;;) all.push(eval('(function () { return ' + all.length + ' })'))",
        "const all = []; for (;;) { const it = (function* () { yield 1 })(); it.next(); all.push(it) }",
        "const all = []; for (;;) { try { null.x } catch (error) { all.push(error, error.stack) } }",
        "const all = []; for (;;) { const o = {}; all.push(new WeakRef(o), o, new WeakMap([[o, all]])) }",
        "const all = []; for (;;) all.push(new RegExp('(' + all.length + 'a|b)*'))",
        "const all = [1, 2]; for (;;) all.sort((x, y) => { all.push({}); return x - y })",
        "let all = []; try { for (;;) all.push({}) } catch (thrown) { all = null; throw thrown }",
    ] {
        assert_eq!(check(body).await, Err(Failure::Memory), "{body}");
    }
    // An error of the language itself is an ordinary error.
    for body in
        ["return 'x'.repeat(2 ** 30)", "return new ArrayBuffer(2 ** 40)", "let b = 2n; for (;;) b = b ** 2n"]
    {
        failed(check(body).await);
    }
    // A program may catch it, and continues within its limit.
    let caught =
        "try { const all = []; for (;;) all.push('x'.repeat(1e5) + all.length) } catch { return 'caught' }";
    assert_eq!(check(caught).await, Ok(json!("caught")));
}

#[tokio::test]
async fn deep_recursion_fails_and_breaks_nothing() {
    for body in [
        "const f = () => f() + 1; return f()",
        "JSON.parse('['.repeat(1e6))",
        "let a = 1; for (let i = 0; i < 1e5; i++) a = [a]; return a",
        "return eval('['.repeat(1e5))",
        "return new RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
        "return new RegExp('(?:'.repeat(1e5) + ')'.repeat(1e5))",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x",
        "const a = []; a[0] = a; return a.flat(Infinity)",
        "const o = {toString() { return '' + o }}; return '' + o",
        "const o = {get x() { return this.x }}; return o",
        "class A { constructor() { new this.constructor() } } return new A()",
        "return eval('1' + '+1'.repeat(1e6) + '-'.repeat(1e6) + '1')",
    ] {
        let (message, _) = failed(run(&format!("function main() {{ {body} }}"), LIMITS).await.result);
        assert!(!message.is_empty(), "{body}");
    }
}

#[tokio::test]
async fn excessive_output_is_truncated() {
    let limits = Limits { printed_bytes: 1_000, output_bytes: 1_000, ..LIMITS };
    let ran = run(
        "function main() { for (let i = 0; i < 1e5; i++) { console.log('汉'); console.error('字') } }",
        limits,
    )
    .await;
    assert!(ran.truncated && ran.stdout.len() + ran.stderr.len() <= 1_000 && ran.result.is_ok());
    let ran = run("function main() { console.log('x'.repeat(1e7)); return '\\0'.repeat(300) }", limits).await;
    assert!(ran.truncated && ran.result == Err(Failure::Output), "{ran:?}");
}

#[tokio::test]
async fn modified_builtins_do_not_affect_other_runs() {
    let source = "
        JSON.stringify = () => 'not json'; JSON.parse = () => { throw 1 };
        Object.prototype.toJSON = undefined; Array.prototype.push = null; Function.prototype.call = null;
        Promise.prototype.then = function () { throw 2 };
        globalThis.console = null; globalThis.module = 5;
        Object.defineProperty(Object.prototype, 'main', {get() { throw 3 }});
        async function main(given) { return {given: Object.keys(given), ok: true} }";
    assert_eq!(result(source).await, Ok(json!({"given": [], "ok": true})));
    assert_eq!(
        result("function main() { return [typeof JSON.parse, [].push(1)] }").await,
        Ok(json!(["function", 1]))
    );
}
