//! Accepted forms of `main`, and its return values.

use serde_json::{Value as Json, json};

use weft_core::TenantId;
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::Program;

use crate::kit::{failed, program, result, returned, run, sandbox};
use weft_sandbox::LIMITS;

#[tokio::test]
async fn main_can_be_exported_in_many_ways() {
    for source in [
        "function main() { return 7 }",
        "async function main() { await null; return 7 }",
        "const main = () => 7",
        "const main = () => new Promise(resolve => queueMicrotask(() => resolve(7)))",
        "module.exports = { main: () => 7 }",
        "module.exports = () => 7",
        "exports.main = async () => 7",
        "let x = 6;\nexport async function main() { return x + 1 }",
        "export default () => 7",
        "export const main = () => 7",
        "const main = () => 7;\nexport { main };",
        "const main = () => 6;\nmain();\nexport default () => main() + 1;",
        "function main() { return eval('3 + 4') }",
        "const text = `\nexport all of it\n`;\nfunction main() { return text.length - 11 }",
    ] {
        assert_eq!(result(source).await, Ok(json!(7)), "{source}");
    }
    for source in ["", "let main = 7", "export const x = 1", "module.exports = null", "module = null"] {
        assert!(failed(result(source).await).0.contains("`main`"), "{source}");
    }
}

#[tokio::test]
async fn a_script_that_only_prints_needs_no_main() {
    for source in [
        "console.log(7)",
        "(async () => { await null; console.log(await Promise.resolve(7)) })()",
        "setTimeout(() => console.log(7), 20)",
        "export const x = 7;\nconsole.log(x)",
    ] {
        let ran = run(source, LIMITS).await;
        assert_eq!((ran.result, ran.stdout.as_str()), (Ok(Json::Null), "7\n"), "{source}");
    }
}

#[tokio::test]
async fn timers_run_in_order_within_the_time_limit() {
    let body = "const seen = [];
        setTimeout((a, b) => seen.push(a + b), 30, 1, 2); setTimeout(() => seen.push('first'), 5);
        const every = setInterval(() => { seen.push('tick'); if (seen.length > 5) clearInterval(every) }, 10);
        clearTimeout(setTimeout(() => seen.push('never'), 1)); setImmediate(() => seen.push('soon'));
        return new Promise(resolve => setTimeout(() => resolve(seen), 400))";
    let Ok(Json::Array(seen)) = returned(body).await else { panic!("{:?}", returned(body).await) };
    assert_eq!(seen[..2], [json!("soon"), json!("first")]);
    assert!(
        seen.contains(&json!(3)) && seen.contains(&json!("tick")) && !seen.contains(&json!("never")),
        "{seen:?}"
    );
    let (message, line) =
        failed(returned("await0 = 1;\n return new Promise(() => setTimeout(() => null.x, 1))").await);
    assert!(message.contains("TypeError") && line == Some(2), "{message} {line:?}");
    for body in [
        "return new Promise(() => setInterval(() => 1, 1))",
        "return new Promise(resolve => setTimeout(resolve, 1e9))",
    ] {
        let ran = run(&format!("function main() {{ {body} }}"), crate::kit::SHORT).await;
        assert_eq!(ran.result, Err(weft_core::seam::sandbox::Failure::Time), "{body}");
    }
}

#[tokio::test]
async fn texts_are_encoded_and_values_cloned() {
    let check = async |body: &str, expected: Json| assert_eq!(returned(body).await, Ok(expected), "{body}");
    check(
        "return [...new TextEncoder().encode('a\u{e9}\u{6c49}\u{1f600}')]",
        json!([97, 0xc3, 0xa9, 0xe6, 0xb1, 0x89, 0xf0, 0x9f, 0x98, 0x80]),
    )
    .await;
    check(
        "return new TextDecoder().decode(new TextEncoder().encode('a\u{e9}\u{6c49}\u{1f600}'))",
        json!("aé汉😀"),
    )
    .await;
    check(
        "return new TextDecoder().decode(new Uint8Array([0x61, 0xff, 0xe6, 0xb1, 0x62, 0xc0, 0x80, 0xed, 0xa0, 0x80]))",
        json!("a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    )
    .await;
    check(
        "const a = {b: [1, {c: new Date(0)}], m: new Map([[1, {d: 2}]]), s: new Set([3]), t: new Uint8Array([1, 2])};
         a.self = a; const z = structuredClone(a); a.b[1].c = 5; a.t[0] = 9;
         return [z.b[1].c.getTime(), z.m.get(1).d, z.s.has(3), z.self === z, z !== a, z.t[0]]",
        json!([0, 2, true, true, true, 1]),
    )
    .await;
    assert!(failed(returned("return structuredClone({f() {}})").await).0.contains("cannot be cloned"));
}

/// The expected values are those of Node.js 20 for the same programs.
#[tokio::test]
async fn urls_and_buffers_behave_as_in_node() {
    let check = async |body: &str, expected: &str| {
        let expected: Json = serde_json::from_str(expected).unwrap();
        assert_eq!(returned(body).await, Ok(expected), "{body}");
    };
    check(
        r"const u = new URL('../b?x=1&y=a%20b#h', 'https://me:pw@example.com:8443/a/c');
         return [u.href, u.origin, u.host, u.port, u.pathname, u.search, u.hash, u.username, u.searchParams.get('y'), `${u}`, JSON.stringify({u})]",
        r##"["https://me:pw@example.com:8443/b?x=1&y=a%20b#h","https://example.com:8443","example.com:8443","8443","/b","?x=1&y=a%20b","#h","me","a b","https://me:pw@example.com:8443/b?x=1&y=a%20b#h","{\"u\":\"https://me:pw@example.com:8443/b?x=1&y=a%20b#h\"}"]"##,
    )
    .await;
    check(
        r"const u = new URL('https://example.com');
         u.pathname = '/a b';
         u.searchParams.append('q', 'ä&=+');
         u.searchParams.append('q', 2);
         u.hash = 'x';
         u.port = '81';
         u.host = '';
         return [u.href, u.searchParams.getAll('q'), u.searchParams.toString()]",
        r##"["https://example.com:81/a%20b?q=%C3%A4%26%3D%2B&q=2#x",["ä&=+","2"],"q=%C3%A4%26%3D%2B&q=2"]"##,
    )
    .await;
    check(
        r"const u = new URL('https://example.com/?a=1');
         const p = u.searchParams;
         u.search = '?b=2&b=3&c=4';
         p.set('b', 9);
         p.delete('c');
         return [[...p], u.href, p.has('a'), p.has('b', '9'), p.size]",
        r##"[[["b","9"]],"https://example.com/?b=9",false,true,1]"##,
    )
    .await;
    check(
        r"return [URL.canParse('no'), URL.parse('no') === null, URL.canParse('/x', 'http://h'), typeof URL.of, typeof URLSearchParams.of]",
        r##"[false,true,true,"undefined","undefined"]"##,
    )
    .await;
    check(
        r"const p = new URLSearchParams({b: 1, a: 'x y'});
         p.sort();
         const seen = [];
         p.forEach((v, k) => seen.push(k + v));
         return [p.toString(), seen, [...p.keys()], [...new URLSearchParams([['k', 'v']])], new URLSearchParams('?a=%41+b').get('a')]",
        r##"["a=x+y&b=1",["ax y","b1"],["a","b"],[["k","v"]],"A b"]"##,
    )
    .await;
    check(
        r"return [Buffer.from('aé😀').toString('base64'), Buffer.from('YcOp8J-YgA', 'base64').toString(), Buffer.from('ff00zz', 'hex').toString('hex'), Buffer.from('YQ=', 'base64').toString(), Buffer.from('\u00ff\u0141', 'latin1').toString('hex'), Buffer.from('aé', 'utf16le').toString('hex'), Buffer.from('6100e900', 'hex').toString('utf16le'), Buffer.from([1, 257, -1]).toString('hex'), Buffer.from('a\u00e9', 'utf8').toString('ascii')]",
        r##"["YcOp8J+YgA==","aé😀","ff00","a","ff41","6100e900","aé","0101ff","aC)"]"##,
    )
    .await;
    check(
        r"return [Buffer.concat([Buffer.from('ab'), Buffer.from('cd')]).toString(), Buffer.concat([Buffer.from('ab'), Buffer.from('cd')], 3).toString(), Buffer.byteLength('é'), Buffer.isBuffer(Buffer.alloc(1)), Buffer.isBuffer(new Uint8Array(1)), Buffer.alloc(3, 'ab').toString(), Buffer.from('abc').equals(Buffer.from('abc')), Buffer.compare(Buffer.from('a'), Buffer.from('b')), JSON.stringify(Buffer.from('a')), Buffer.from('abcabc').indexOf('ca'), Buffer.from('abc').includes('x'), Buffer.from('hello').slice(1, 3).toString()]",
        r##"["abcd","abc",2,true,false,"aba",true,-1,"{\"type\":\"Buffer\",\"data\":[97]}",2,false,"el"]"##,
    )
    .await;
    check(
        r"const b = Buffer.alloc(8);
         const at = b.writeUInt32BE(0xdeadbeef, 0);
         b.writeInt16LE(-2, at);
         return [b.toString('hex'), b.readUInt32BE(0), b.readInt16LE(4), b.readUInt8(0), Buffer.from('0000c03f', 'hex').readFloatLE(0), b.write('hi', 6), b.toString('latin1', 6)]",
        r##"["deadbeeffeff0000",3735928559,-2,222,1.5,2,"hi"]"##,
    )
    .await;
    check(r"return [atob('YQ=='), btoa('a')]", r##"["a","YQ=="]"##).await;
}

#[tokio::test]
async fn invalid_urls_are_reported() {
    for body in ["new URL('no')", "new URL('/a', 'b')", "new URL('https://a').href = 'b'"] {
        let (message, _) = failed(returned(body).await);
        assert!(message.contains("TypeError: Invalid URL"), "{body}: {message}");
    }
    for body in ["new URL('https://a/' + 'x'.repeat(5e6))", "new URLSearchParams('x'.repeat(5e6))"] {
        assert!(failed(returned(body).await).0.contains("4194304 bytes at most"), "{body}");
    }
}

#[tokio::test]
async fn url_parsing_has_its_own_limits() {
    let longer = failed(returned("new URL('https://a/' + '\\u20ac'.repeat(1e6))").await).0;
    assert!(longer.contains("4194304 bytes at most"), "{longer}");
    let (message, _) = failed(returned("new URLSearchParams('a&'.repeat(1e6))").await);
    assert!(message.contains("100000 parts at most"), "{message}");
    let known = "return [Buffer.isEncoding('constructor'), Buffer.isEncoding('HEX')]";
    assert_eq!(returned(known).await, Ok(serde_json::json!([false, true])));
}

#[tokio::test]
async fn results_become_json() {
    let check = async |body: &str, expected: Json| assert_eq!(returned(body).await, Ok(expected), "{body}");
    check("return 60 * 60", json!(3600)).await;
    check("", Json::Null).await;
    check(
        "return [undefined, NaN, Infinity, -0, () => 1, Symbol('x')]",
        json!([null, null, null, 0, null, null]),
    )
    .await;
    check("return () => 1", Json::Null).await;
    check(
        "return {a: undefined, b: new Date(0), c: new Map([[1, 2]]), d: new Uint8Array(2)}",
        json!({"b": "1970-01-01T00:00:00.000Z", "c": [[1, 2]], "d": {"0": 0, "1": 0}}),
    )
    .await;
    check("return 2 ** 53", json!(9_007_199_254_740_992_i64)).await;
    check("return '\\ud83d' + '\\ude00' + '\\ud800'", json!("😀\u{fffd}")).await;
    check("return {get a() { return 1 }, toJSON: undefined}", json!({"a": 1})).await;
    check("return {toJSON() { return 'x' }}", json!("x")).await;
    check("return new Proxy([1], {})", json!([1])).await;
}

#[tokio::test]
async fn maps_sets_and_bigints_become_json() {
    let check = async |body: &str, expected: Json| assert_eq!(returned(body).await, Ok(expected), "{body}");
    check("return 10n", json!(10)).await;
    check(
        "return [2n ** 53n - 1n, -(2n ** 53n), 2n ** 64n]",
        json!([9_007_199_254_740_991_i64, "-9007199254740992", "18446744073709551616"]),
    )
    .await;
    check(
        "return {m: new Map([['a', new Set([1, new Map([[1, 2n]])])], ['__proto__', 3]]), e: [new Map(), new Set()]}",
        serde_json::from_str(r#"{"m": {"a": [1, [[1, 2]]], "__proto__": 3}, "e": [{}, []]}"#).unwrap(),
    )
    .await;
    check("return new Map([['a', 1], [2, 3]])", json!([["a", 1], [2, 3]])).await;
    check("const m = new Map([['a', 1]]); return [m, m]", json!([{"a": 1}, {"a": 1}])).await;
    check("return new (class Own extends Map {})([['a', 1]])", json!({"a": 1})).await;
    check("return [Object.create(Map.prototype), new Proxy(new Set(), {})]", json!([{}, {}])).await;
    // Modified builtins do not matter, and conversions defined by its own values count.
    let changed = "Map.prototype.forEach = Set.prototype.forEach = () => { throw 1 }; Map.prototype[Symbol.iterator] = null;
        JSON.stringify = () => 'no'; Reflect.apply = WeakMap.prototype.get = Number = String = null;
        Object.defineProperty(Map, Symbol.hasInstance, {value() { throw 2 }});
        return [new Map([['a', 1n]]), new Map([[1, new Set([2])]])]";
    check(changed, json!([{"a": 1}, [[1, [2]]]])).await;
    check(
        "BigInt.prototype.toJSON = () => 'own'; Map.prototype.toJSON = () => 'map'; return [1n, new Map()]",
        json!(["own", "map"]),
    )
    .await;
}

#[tokio::test]
async fn errors_and_iterators_become_json() {
    let check =
        async |source: &str, expected: Json| assert_eq!(result(source).await, Ok(expected), "{source}");
    check("function* main() { yield 1; yield {a: 2n} }", json!([1, {"a": 2}])).await;
    check("async function* main() { yield 1; await null; yield new Set([2]) }", json!([1, [2]])).await;
    check(
        "function main() { return {keys: new Map([['a', 1]]).keys(), g: (function* () { yield [1] })()} }",
        json!({"keys": ["a"], "g": [[1]]}),
    )
    .await;
    check(
        "function main() { try { null.x } catch (error) { return {ok: false, error} } }",
        json!({"ok": false, "error": {"name": "TypeError", "message": "cannot read property 'x' of null"}}),
    )
    .await;
    check(
        "const main = () => [Object.assign(new RangeError('r'), {code: 3}), Object.assign(new Error(), {toJSON: () => 4})]",
        json!([{"name": "RangeError", "message": "r", "code": 3}, 4]),
    )
    .await;
    // A program that consumes it itself leaves nothing in it.
    let ran = run("function* main() { yield 1 }\nfor (const one of main()) console.log(one)", LIMITS).await;
    assert_eq!((ran.result, ran.stdout.as_str()), (Ok(json!([1])), "1\n"));
    let printed = "const g = (function* () { yield 1 })(); console.log(g, [new Error('e')]);
        function main() { return [...g] }";
    let ran = run(printed, LIMITS).await;
    assert_eq!(
        (ran.result, ran.stdout.as_str()),
        (Ok(json!([1])), "{} [{\"name\":\"Error\",\"message\":\"e\"}]\n")
    );
    let ran = run("function* main() { for (;;) yield 1 }", crate::kit::SHORT).await;
    let ended = weft_core::seam::sandbox::Failure::Time;
    assert!(ran.result == Err(ended) || ran.result == Err(weft_core::seam::sandbox::Failure::Memory));
}

#[tokio::test]
async fn the_console_has_the_usual_methods() {
    let source = "function main() {
        console.table([{a: 1}]); console.dir({b: 2}); console.group('g'); console.groupEnd(); console.groupCollapsed();
        console.time('t'); console.timeLog('t'); console.timeEnd('t'); console.count(); console.count(); console.countReset();
        console.count(); console.assert(true, 'no'); console.assert(false, 'yes'); console.trace('here');
    }";
    let ran = run(source, LIMITS).await;
    assert_eq!(ran.result, Ok(Json::Null));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..3], ["[{\"a\":1}]", "{\"b\":2}", "g"]);
    assert!(lines[3..5].iter().all(|line| line.starts_with("t: ") && line.ends_with("ms")), "{lines:?}");
    assert_eq!(lines[5..], ["default: 1", "default: 2", "default: 1"]);
    assert_eq!(ran.stderr, "Assertion failed yes\nTrace here\n");
}

#[tokio::test]
async fn results_without_json_are_failures_with_a_reason() {
    let check = async |body: &str, part: &str| {
        let (message, _) = failed(returned(body).await);
        assert!(message.contains(part), "{body}: {message}");
    };
    check("const a = []; a.push(a); return a", "circular").await;
    check("const m = new Map(); m.set('m', [m]); return {m}", "circular").await;
    check("const s = new Set(); s.add({s}); return s", "circular").await;
    check("return {get a() { throw new RangeError('no') }}", "RangeError: no").await;
    check("return {toJSON() { throw 1 }}", "it threw 1").await;
    check("let a = 1; for (let i = 0; i < 200; i++) a = [a]; return a", "recursion limit").await;
    check("return new Promise(() => {})", "never happens").await;
    check("return Promise.reject(new Error('later'))", "Error: later").await;
    check("return [1].map(async (one) => one)", "has a promise in it").await;
}

#[tokio::test]
async fn failures_name_the_line_and_the_thrown_value() {
    let check = async |source: &str, part: &str, line: Option<u32>| {
        let (message, found) = failed(result(source).await);
        assert!(message.contains(part) && found == line, "{source}: {message} {found:?}");
    };
    check("function main() {\n  return nothing;\n}", "ReferenceError: nothing", Some(2)).await;
    check("function main() {\n\n  return ] }", "SyntaxError", Some(3)).await;
    check("async function main() {\n  await null\n  null.x }", "TypeError", Some(3)).await;
    check("import x from 'fs'\nexport function main() {}", "fs", None).await;
    check("function main() { return import('fs') }", "fs", None).await;
    check("throw 'a text'", "it threw \"a text\"", None).await;
    check("throw undefined", "it threw undefined", None).await;
    check("throw ''", "it threw \"\"", None).await;
    check("throw null", "it threw null", None).await;
    check("function main() { throw null }", "it threw null", None).await;
    check("async function main() { await null; throw null }", "it threw null", None).await;
    check("export function main() { return Promise.reject(null) }", "it threw null", None).await;
    check("function main() { return {toJSON() { throw null }} }", "it threw null", None).await;
    check("throw Symbol('x')", "it threw a value of the type symbol", None).await;
    check(
        "throw {toString() { throw 1 }, toJSON() { throw 2 }}",
        "it threw a value of the type object",
        None,
    )
    .await;
    check("throw {message: {}, get stack() { throw 1 }, name: 1n, a: 1}", "it threw", None).await;
    check("throw new Proxy({}, {get() { throw 1 }})", "it threw", None).await;
    check(
        "const e = new Error('x'); Object.defineProperty(e, 'stack', {value: 5}); e.name = null; throw e",
        "Error: x",
        None,
    )
    .await;
    check("throw new Error('x'.repeat(1e6))", "xxx…", Some(1)).await;
    check("\0", "", None).await;
}

#[tokio::test]
async fn failures_include_their_causes() {
    let check = async |source: &str, expected: &str| {
        let (message, _) = failed(result(source).await);
        assert_eq!(message, expected, "{source}");
    };
    check(
        "const inner = new TypeError('inner');\nfunction main() { throw new Error('outer', {cause: inner}) }",
        "Error: outer\n  caused by TypeError: inner (line 1)",
    )
    .await;
    check("throw new Error('outer', {cause: {code: 5}})", "Error: outer\n  caused by {\"code\":5}").await;
    check(
        "async function main() {\n  await Promise.any([\n    Promise.reject(new Error('a')),\n    Promise.reject('b')])\n}",
        "AggregateError\n  - Error: a (line 3)\n  - \"b\"",
    )
    .await;
    check(
        "throw new AggregateError(Array(7).fill('x'), 'many')",
        &format!("AggregateError: many{}\n  - and 2 more", "\n  - \"x\"".repeat(5)),
    )
    .await;
    // It is its own cause, and three are reported.
    check(
        "const e = new Error('e'); e.cause = e; throw e",
        "Error: e\n  caused by Error: e (line 1)\n    caused by Error: e (line 1)\n      caused by Error: e (line 1)",
    )
    .await;
    let (message, _) = failed(result("throw new Error('x'.repeat(1e6), {cause: 'y'.repeat(1e6)})").await);
    assert!(message.contains("xxx…\n  caused by \"yyy") && message.len() < 2_100, "{message}");
    check("throw Object.defineProperty(new Error('e'), 'cause', {get() { throw 1 }})", "Error: e").await;
}

#[tokio::test]
async fn importing_a_module_reports_that_there_are_none() {
    for source in [
        "function main() { return require('fs') }",
        "import x from 'lodash';\nfunction main() { return x }",
        "// first\nimport { y } from 'lodash';\nfunction main() { return y }",
        "import * as z from 'lodash'\nexport function main() { return z }",
        "async function main() { return await import('lodash') }",
    ] {
        let (message, _) = failed(result(source).await);
        assert!(message.contains("there are no modules: a program has the language"), "{source}: {message}");
    }
    let (message, _) = failed(result("function main() {\n  return ] }").await);
    assert!(!message.contains("modules"), "{message}");
}

#[tokio::test]
async fn a_program_that_calls_main_itself_runs_it_once() {
    for source in [
        "function main() { console.log('once'); return 7 }\nmain();",
        "const main = () => { console.log('once'); return 7 }\nmain()",
        "const main = async () => { console.log('once'); return 7 }\nmain().catch(console.error)\n",
        "async function main() { await null; console.log('once'); return 7 }\nmain().then((seven) => {\n  seven\n});",
        "'use strict'; function main() { console.log('once'); return 7 }\nif (true) main()",
        "export async function main() { console.log('once'); return 7 }\nawait main()",
        "export const main = () => { console.log('once'); return 7 }\nmain()",
        "function main(n = 1) { if (n) return main(n - 1) + 3; console.log('once'); return 4 }\nmain()",
        "const main = () => { console.log('once'); return 7 }\nmain();\nconst after = 1;",
        "const main = async () => { await null; console.log('once'); return 7 };\n(async () => {\n  await main()\n})();",
        "let main;\nmain = function () { console.log('once'); return 7 }\nif (main()) {\n}",
        "export const main = () => { console.log('once'); return 7 }, x = 1\nmain();\nexport const after = x;",
        "const main = async () => { console.log('once'); return 7 }\nawait main();\nexport default main;",
        "let main;\nmain = () => { console.log('once'); return 7 }\nif (main()) {\n}\nexport { main };",
        "const main = () => { console.log('once'); return 7 }\nexport const after = main();\nexport { main as default };",
    ] {
        let ran = run(source, LIMITS).await;
        assert_eq!((ran.result, ran.stdout.as_str()), (Ok(json!(7)), "once\n"), "{source}");
    }
    // Printed output is kept, even if it comes later.
    for source in [
        "function main() { return 7 }\nconsole.log(main())",
        "const main = () => 7\nconsole.log(main())",
        "async function main() { return 7 }\nmain().then((seven) => console.log(seven))",
    ] {
        let ran = run(source, LIMITS).await;
        assert_eq!((ran.result, ran.stdout.as_str()), (Ok(json!(7)), "7\n"), "{source}");
    }
    let (message, line) = failed(result("function main() {\n  null.x }\nmain()").await);
    assert!(message.contains("TypeError") && line == Some(2), "{message} {line:?}");
    // No object that refers to it is left.
    assert_eq!(returned("return typeof __main").await, Ok(json!("undefined")));
}

#[tokio::test]
async fn with_arguments_a_final_call_is_skipped() {
    for source in [
        "function main({n}) { console.log('once'); return n }\nmain({n: 1});",
        "const main = ({n}) => { console.log('once'); return n };\nconsole.log(main({n: 1}))",
    ] {
        let arguments = json!({"n": 7}).as_object().unwrap().clone();
        let program = Program { arguments, ..program(source, LIMITS) };
        let ran = sandbox().run(&TenantId::new("t"), program).await.unwrap();
        assert_eq!((ran.result, ran.stdout.as_str()), (Ok(json!(7)), "once\n"), "{source}");
    }
}

#[tokio::test]
async fn printed_lines_are_kept() {
    let source = "function main() {
        console.log('a', 1, [1, 'b'], {c: null}, undefined, new Error('e'), 2n, Symbol('s'), '\\ud800');
        console.warn('w'); console.info(); console.log({toJSON() { console.log('inner'); return 1 }});
        console.log({get x() { throw 1 }});
        console.log(new Map([['a', 1n]]), {s: new Set([1])});
    }";
    let ran = run(source, LIMITS).await;
    assert_eq!(ran.result, Ok(Json::Null));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "a 1 [1,\"b\"] {\"c\":null} undefined Error: e 2 [symbol] \u{fffd}");
    assert_eq!(lines[1..], ["", "inner", "1", "[object Object]", "{\"a\":1} {\"s\":[1]}"]);
    assert_eq!(ran.stderr, "w\n");
}

/// A missing locale is an error, and not answered as if no locale had been given. English is there.
#[tokio::test]
async fn unavailable_languages_are_reported() {
    let check = async |body: &str, told: &[&str]| {
        let (message, line) = failed(returned(body).await);
        assert_eq!(line, Some(1), "{body}: {message}");
        for part in told {
            assert!(message.contains(part), "{body}: {message}");
        }
    };
    check("return new Intl.NumberFormat('de').format(1)", &["no tables of languages", "toFixed"]).await;
    for body in ["return (1234.5).toLocaleString('de-DE')", "return 2n.toLocaleString('en', {style: 'unit'})"]
    {
        check(body, &["no language but English", "toFixed"]).await;
    }
    check(
        "return new Date(0).toLocaleDateString(undefined, {month: 'long'})",
        &["few options", "toISOString"],
    )
    .await;
    let numbers = "const cents = {minimumFractionDigits: 2, maximumFractionDigits: 2};
        return [typeof Intl, (12).toLocaleString(), 1234567n.toLocaleString(), (-1234.5678).toLocaleString('en-US'),
            (1e6).toLocaleString('en', cents), (0.005).toLocaleString(undefined, {maximumFractionDigits: 0}),
            (1e21).toLocaleString(), NaN.toLocaleString(), (-1/0).toLocaleString()]";
    assert_eq!(
        returned(numbers).await.unwrap(),
        json!([
            "undefined",
            "12",
            "1,234,567",
            "-1,234.568",
            "1,000,000.00",
            "0",
            "1,000,000,000,000,000,000,000",
            "NaN",
            "-\u{221e}"
        ])
    );
    assert_eq!(
        returned("return new Date(0).toLocaleDateString('en-US')").await.unwrap(),
        json!("01/01/1970")
    );
    assert!(returned("return new Date(0).toLocaleTimeString()").await.is_ok());
}

/// Programs sort by it, and ignored options would silently change the order of their lists.
#[tokio::test]
async fn locale_compare_follows_dictionaries_and_options() {
    let sorted = async |options: &str, words: &str| {
        let body =
            format!("return {words}.sort((one, other) => one.localeCompare(other, undefined, {options}))");
        returned(&body).await.unwrap()
    };
    let words = "['b', 'A', '\u{e9}', 'B', 'f', 'a', 'e', '_', '2', '10']";
    let expected = json!(["_", "10", "2", "a", "A", "b", "B", "e", "\u{e9}", "f"]);
    assert_eq!(sorted("undefined", words).await, expected);
    let files = "['file10', 'File 2', 'file9', 'file09', 'FILE1']";
    let expected = json!(["File 2", "FILE1", "file9", "file09", "file10"]);
    assert_eq!(sorted("{numeric: true}", files).await, expected);
    let capitals = json!(["A", "a", "B", "b"]);
    assert_eq!(sorted("{caseFirst: 'upper'}", "['a', 'b', 'B', 'A']").await, capitals);
    let body = "return ['base', 'accent', 'case', 'variant'].map((sensitivity) =>
        ['A', '\u{e1}', 'b'].map((other) => 'a'.localeCompare(other, 'en', {sensitivity})))";
    let expected = json!([[0, 0, -1], [0, -1, -1], [-1, 0, -1], [-1, -1, -1]]);
    assert_eq!(returned(body).await.unwrap(), expected);
    // One character, and the same in two.
    assert_eq!(returned("return '\u{e9}'.localeCompare('e\\u0301')").await.unwrap(), json!(0));
    let (message, _) = failed(returned("return 'a'.localeCompare('b', 'en', {sensitivity: 'all'})").await);
    assert!(message.contains("sensitivity all"), "{message}");
}

#[tokio::test]
async fn await_outside_an_async_function_reports_the_remedy() {
    for source in [
        "const x = await 1\nfunction main() { return x }",
        "for await (const x of []) {}\nfunction main() {}",
        "export function main() { return await 1 }",
    ] {
        let (message, line) = failed(result(source).await);
        assert!(
            line == Some(1) && message.contains("write `async function main(args)"),
            "{source}: {message}"
        );
    }
    let (message, _) = failed(result("const awaited = ;").await);
    assert!(!message.contains("async"), "{message}");
}
