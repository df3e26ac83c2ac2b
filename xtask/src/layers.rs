//! Checks the direction of dependencies.
//!
//! The tables below define the architecture. Adding a line is a design decision, so it is made here, in plain view, and
//! not in a manifest. ARCHITECTURE.md shows the first of them to readers, and is compared with it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use crate::findings::Findings;
use crate::metadata::{self, WorkspaceMember, WorkspaceMetadata};
use crate::source::{self, SourceFile};

/// The workspace crates that a crate may depend on.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
}

/// The workspace crates, lowest first: each may only use crates listed above it.
const LAYERS: &[Layer] = &[
    Layer { name: "weft-macros", may_use: &[] },
    Layer { name: "weft-core", may_use: &["weft-macros"] },
    Layer { name: "weft-dsl", may_use: &["weft-core"] },
    Layer { name: "weft-engine", may_use: &["weft-core", "weft-dsl"] },
    Layer { name: "weft-eval", may_use: &["weft-core", "weft-dsl", "weft-engine"] },
    Layer { name: "weft-agent", may_use: &["weft-core", "weft-macros"] },
    Layer { name: "weft-child", may_use: &["weft-core"] },
    Layer { name: "weft-parse", may_use: &["weft-core", "weft-child"] },
    Layer { name: "weft-knowledge", may_use: &["weft-core", "weft-agent"] },
    Layer { name: "weft-components", may_use: &["weft-core", "weft-agent", "weft-knowledge"] },
    Layer { name: "weft-net", may_use: &["weft-core"] },
    Layer { name: "weft-sql", may_use: &["weft-core", "weft-net"] },
    Layer { name: "weft-browser", may_use: &["weft-core", "weft-net"] },
    Layer { name: "weft-mcp", may_use: &["weft-core", "weft-net"] },
    Layer { name: "weft-plugins", may_use: &["weft-core", "weft-agent"] },
    Layer { name: "weft-models", may_use: &["weft-core", "weft-net"] },
    Layer { name: "weft-sandbox", may_use: &["weft-core", "weft-child", "weft-net"] },
    Layer { name: "weft-search", may_use: &["weft-core"] },
    Layer { name: "weft-store", may_use: &["weft-core"] },
    Layer {
        name: "weft-app",
        may_use: &[
            "weft-core",
            "weft-browser",
            "weft-child",
            "weft-dsl",
            "weft-engine",
            "weft-components",
            "weft-knowledge",
            "weft-net",
            "weft-parse",
            "weft-plugins",
            "weft-mcp",
            "weft-models",
            "weft-sandbox",
            "weft-search",
            "weft-sql",
            "weft-store",
        ],
    },
    Layer {
        name: "weft-server",
        may_use: &["weft-core", "weft-dsl", "weft-engine", "weft-knowledge", "weft-mcp", "weft-app"],
    },
    Layer {
        name: "weft-cli",
        may_use: &[
            "weft-core",
            "weft-dsl",
            "weft-engine",
            "weft-eval",
            "weft-components",
            "weft-knowledge",
            "weft-app",
            "weft-server",
        ],
    },
    Layer { name: "weft-testkit", may_use: &["weft-core", "weft-models"] },
    Layer { name: "xtask", may_use: &[] },
];

/// The crate whose fakes all tests may use.
const TESTKIT: &str = "weft-testkit";

/// Further workspace crates that the tests of a crate may use, because a fake would prove nothing.
const TESTS_MAY_USE: &[(&str, &[&str])] = &[
    ("weft-agent", &["weft-models", "weft-net", "weft-sandbox"]),
    ("weft-components", &["weft-net", "weft-sandbox"]),
    (
        "weft-engine",
        &[
            "weft-components",
            "weft-knowledge",
            "weft-models",
            "weft-parse",
            "weft-sandbox",
            "weft-search",
            "weft-store",
        ],
    ),
    ("weft-knowledge", &["weft-models", "weft-parse", "weft-search", "weft-store"]),
    ("weft-search", &["weft-knowledge", "weft-models"]),
    (
        "weft-server",
        &["weft-components", "weft-models", "weft-net", "weft-parse", "weft-plugins", "weft-search"],
    ),
];

/// The document that shows the layers to readers.
const SHOWN: &str = "ARCHITECTURE.md";

/// The exact dependencies of weft-core, because everything tends to be moved into it.
const CORE_DEPENDENCIES: &[&str] = &[
    "bytes",
    "foldhash",
    "futures",
    "indexmap",
    // For the `retry_if` condition of every node.
    "regex",
    "serde",
    "serde_json",
    "thiserror",
    "tokio",
    "tokio-util",
    "uuid",
    "weft-macros",
];

/// Packages that can open a connection on behalf of a user, and the packages that may link them. All requests of a
/// canvas go through weft-net, which checks the address first; weft-models, `genai` and `rmcp` (for sign-in) are passed
/// weft-net's client and create none. The database drivers of weft-store connect to the operator's own database, those
/// of weft-sql to a socket of weft-net; they are not listed. Axum and weft-server use the server side of hyper.
const CLIENTS: &[(&str, &[&str])] = &[
    ("reqwest", &["weft-net", "weft-models", "genai", "rmcp"]),
    ("genai", &["weft-models"]),
    ("hyper", &["axum", "hyper-rustls", "hyper-util", "reqwest", "weft-net", "weft-server"]),
    ("hyper-util", &["axum", "hyper-rustls", "reqwest", "weft-net", "weft-server"]),
    ("hyper-rustls", &["reqwest"]),
    ("async-std", &[]),
    ("async-tungstenite", &[]),
    ("attohttpc", &[]),
    ("awc", &[]),
    ("curl", &[]),
    ("curl-sys", &[]),
    ("eventsource-client", &[]),
    ("h3", &[]),
    ("hyper-tls", &[]),
    ("isahc", &[]),
    ("lettre", &["weft-net"]),
    ("minreq", &[]),
    ("native-tls", &[]),
    ("octocrab", &[]),
    ("openssl", &[]),
    ("reqwest-eventsource", &[]),
    ("ssh2", &[]),
    ("surf", &[]),
    ("tokio-tungstenite", &[]),
    ("tonic", &[]),
    ("tungstenite", &[]),
    ("ureq", &[]),
];

/// Words that are forbidden in the code of some crates.
struct ForbiddenWords {
    /// Folders that the rule applies to.
    within: &'static [&'static str],
    /// Folders and files that are exempt from it.
    except: &'static [&'static str],
    words: &'static [&'static str],
    reason: &'static str,
}

const ABSENT: &[ForbiddenWords] = &[
    ForbiddenWords {
        within: &["crates/weft-dsl/src"],
        except: &[],
        words: &[".await", "async fn", "tokio::", "std::fs", "std::net"],
        reason: "weft-dsl turns text into a plan: it waits for nothing and touches nothing",
    },
    ForbiddenWords {
        within: &["crates/"],
        // The system's Python program is passed to its process through a socket in a folder of this program.
        except: &["crates/weft-net/src", "crates/weft-testkit/src", "crates/weft-sandbox/src/system"],
        words: &["TcpStream::connect", "TcpSocket::", "UdpSocket::bind", "UnixStream::connect"],
        reason: "connections are opened by weft-net, which checks the address",
    },
    ForbiddenWords {
        within: &["crates/"],
        except: &["crates/weft-net/src"],
        words: &["reqwest::Client::", "reqwest::ClientBuilder", "reqwest::get(", "genai::Client::default"],
        reason: "HTTP clients are made by weft-net and handed on",
    },
    ForbiddenWords {
        within: &["crates/"],
        except: &[],
        words: &[
            "AuthorizationManager::new(",
            "AuthorizationManager::new_allowing_private_addresses",
            "default_oauth_http_client",
            "OAuthState::new(",
        ],
        reason: "authorization servers are asked by the HTTP client that is handed to rmcp",
    },
    ForbiddenWords {
        within: &["crates/"],
        except: &["crates/weft-net/src"],
        words: &["hyper::client", "hyper_util::client"],
        reason: "of hyper the server's side is used; connections are opened by weft-net",
    },
    ForbiddenWords {
        within: &["crates/weft-app/src", "crates/weft-server/src"],
        except: &["crates/weft-app/src/assemble.rs", "crates/weft-app/src/assemble/"],
        words: &[
            "weft_store::",
            "weft_search::",
            "weft_sandbox::ProcessSandbox",
            "weft_net::Outbound",
            "weft_models::Directory",
        ],
        reason: "only assemble.rs names a backend",
    },
    ForbiddenWords {
        within: &["crates/weft-app/src"],
        except: &[],
        words: &["axum::", "hyper::", "weft_server"],
        reason: "what can be done does not know how it is asked: HTTP is weft-server's",
    },
    ForbiddenWords {
        within: &["crates/weft-cli/src"],
        except: &["crates/weft-cli/src/screen.rs", "crates/weft-cli/src/screen/"],
        words: &["io::stdout()", "io::stderr()", "io::stderr", "indicatif::", "println!", "print!("],
        reason: "what reaches a terminal goes through screen.rs, which takes out what could steer it",
    },
    ForbiddenWords {
        within: &["crates/weft-app/src", "crates/weft-server/src", "crates/weft-cli/src"],
        except: &[],
        words: &["InProcess"],
        reason: "programs of canvases run in processes of their own, or not at all",
    },
    ForbiddenWords {
        within: &["crates/weft-engine/src", "crates/weft-components/src"],
        except: &["crates/weft-engine/src/clock.rs"],
        words: &["SystemTime::now", "getrandom::", "Uuid::new"],
        reason: "time and chance come in through a seam or a seed, so that a run can be repeated",
    },
];

/// Compares the tables with the cargo metadata and the sources.
pub(crate) fn check(root: &Path) -> Result<Findings> {
    let metadata = metadata::read(root)?;
    let mut findings = Findings::default();
    findings.fact(format!("{} crates, {} packages linked", metadata.members.len(), metadata.linked_by.len()));
    for member in &metadata.members {
        arrows(member, &mut findings);
    }
    missing_crates(&metadata, &mut findings);
    clients(&metadata, &mut findings);
    shown_to_readers(&source::read_text(&root.join(SHOWN))?, &mut findings);
    for file in source::read(root)? {
        absent_words(&file, &mut findings);
    }
    Ok(findings)
}

fn arrows(member: &WorkspaceMember, findings: &mut Findings) {
    let name = member.name.as_str();
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
        findings.problem(format!("{name} has no line in LAYERS (xtask/src/layers.rs)"));
        return;
    };
    let is_ours = |used: &&String| LAYERS.iter().any(|layer| layer.name == used.as_str());
    for used in member.normal.iter().filter(is_ours) {
        if !layer.may_use.contains(&used.as_str()) {
            findings.problem(format!("{name} must not use {used}"));
        }
    }
    let for_tests =
        TESTS_MAY_USE.iter().find(|(tested, _)| *tested == name).map_or(&[][..], |(_, extra)| *extra);
    for used in member.dev.iter().filter(is_ours) {
        let used = used.as_str();
        if used != TESTKIT && used != name && !layer.may_use.contains(&used) && !for_tests.contains(&used) {
            findings.problem(format!("the tests of {name} must not use {used}"));
        }
    }
    if name == "weft-core" {
        core_dependencies(member, findings);
    }
}

fn core_dependencies(core: &WorkspaceMember, findings: &mut Findings) {
    let pinned: BTreeSet<&str> = CORE_DEPENDENCIES.iter().copied().collect();
    let actual: BTreeSet<&str> = core.normal.iter().map(String::as_str).collect();
    for extra in actual.difference(&pinned) {
        findings.problem(format!("weft-core must not grow a dependency: {extra}"));
    }
    for gone in pinned.difference(&actual) {
        findings.problem(format!("weft-core no longer uses {gone}: take it off CORE_DEPENDENCIES"));
    }
}

fn missing_crates(metadata: &WorkspaceMetadata, findings: &mut Findings) {
    for layer in LAYERS {
        if !metadata.members.iter().any(|member| member.name == layer.name) {
            findings.problem(format!("LAYERS names {}, which does not exist", layer.name));
        }
    }
}

/// Compares the table of crates in the document with the layers. Its last column lists the crates that one may use,
/// without `weft-`; after a semicolon it may say more.
fn shown_to_readers(text: &str, findings: &mut Findings) {
    let rows = || {
        text.lines().skip_while(|line| !line.contains("may use of ours")).take_while(|line| !line.is_empty())
    };
    for layer in LAYERS.iter().filter(|layer| layer.name.starts_with("weft-")) {
        let name = layer.name;
        let Some(row) = rows().find(|row| row.starts_with(&format!("| `{name}` |"))) else {
            findings.problem(format!("{SHOWN}: {name} has no line in the table of crates"));
            continue;
        };
        let listed = row.rsplit('|').nth(1).unwrap_or_default().split(';').next().unwrap_or_default();
        let shown: BTreeSet<&str> =
            listed.split(',').map(str::trim).filter(|one| !["", "–"].contains(one)).collect();
        let may_use: BTreeSet<&str> =
            layer.may_use.iter().map(|used| used.trim_start_matches("weft-")).collect();
        if shown != may_use {
            let right = layer.may_use.iter().map(|used| used.trim_start_matches("weft-")).collect::<Vec<_>>();
            findings.problem(format!("{SHOWN}: {name} may use: {}", right.join(", ")));
        }
    }
}

fn clients(metadata: &WorkspaceMetadata, findings: &mut Findings) {
    let mut linked = Vec::new();
    for (client, may_link) in CLIENTS {
        let Some(users) = metadata.linked_by.get(*client) else { continue };
        linked.push(*client);
        for user in users.iter().filter(|user| !may_link.contains(&user.as_str())) {
            findings.problem(format!("{user} links {client}: connections leave through weft-net only"));
        }
    }
    findings.fact(format!("clients linked, each by those who may: {}", linked.join(", ")));
}

fn absent_words(file: &SourceFile, findings: &mut Findings) {
    let starts = |folders: &[&str]| folders.iter().any(|folder| file.path.starts_with(folder));
    for rule in ABSENT.iter().filter(|rule| starts(rule.within) && !starts(rule.except)) {
        for (number, line) in file.code().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for word in rule.words.iter().filter(|word| line.contains(**word)) {
                findings.problem(format!("{}:{number}: {word}: {}", file.path, rule.reason));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn problems(check: impl Fn(&mut Findings)) -> Vec<String> {
        let mut findings = Findings::default();
        check(&mut findings);
        findings.problems
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (place, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use {
                assert!(LAYERS[..place].iter().any(|above| above.name == *used), "{} {used}", layer.name);
            }
        }
    }

    #[test]
    fn an_arrow_against_the_table_is_named() {
        let member = |name: &str, normal: &[&str], dev: &[&str]| WorkspaceMember {
            name: name.to_owned(),
            normal: set(normal),
            dev: set(dev),
            ..WorkspaceMember::default()
        };
        let check = |member: WorkspaceMember, expected: &[&str]| {
            assert_eq!(problems(|findings| arrows(&member, findings)), expected);
        };
        check(member("weft-dsl", &["weft-core", "serde"], &["weft-testkit"]), &[]);
        check(member("weft-dsl", &["weft-net"], &[]), &["weft-dsl must not use weft-net"]);
        check(member("weft-dsl", &["weft-testkit"], &[]), &["weft-dsl must not use weft-testkit"]);
        check(member("weft-net", &[], &["weft-store"]), &["the tests of weft-net must not use weft-store"]);
        check(member("weft-new", &[], &[]), &["weft-new has no line in LAYERS (xtask/src/layers.rs)"]);
    }

    #[test]
    fn the_document_shows_the_layers() {
        let row = |layer: &Layer| {
            let used: Vec<&str> = layer.may_use.iter().map(|used| used.trim_start_matches("weft-")).collect();
            let used = if used.is_empty() { "–".to_owned() } else { used.join(", ") };
            format!("| `{}` | what it is | {used} |\n", layer.name)
        };
        let rows: String = LAYERS.iter().map(row).collect();
        let table = format!(
            "| crate | what it is | may use of ours |\n|---|---|---|\n{rows}\n| `weft-dsl` | x | store |\n"
        );
        let check = |from: &str, to: &str, expected: &[&str]| {
            let text = table.replacen(from, to, 1);
            assert_eq!(problems(|findings| shown_to_readers(&text, findings)), expected);
        };
        check("", "", &[]);
        check("| core, models |", "| core, models; only in tests |", &[]);
        check(
            "| `weft-dsl` | what it is | core |",
            "| `weft-dsl` | what it is | – |",
            &["ARCHITECTURE.md: weft-dsl may use: core"],
        );
        check(
            "| `weft-dsl` |",
            "| `weft-lsd` |",
            &["ARCHITECTURE.md: weft-dsl has no line in the table of crates"],
        );
    }

    #[test]
    fn the_core_is_pinned_both_ways() {
        let mut normal = set(CORE_DEPENDENCIES);
        normal.remove("uuid");
        normal.insert("sqlx".to_owned());
        let core = WorkspaceMember { name: "weft-core".to_owned(), normal, ..WorkspaceMember::default() };
        assert_eq!(
            problems(|findings| arrows(&core, findings)),
            [
                "weft-core must not grow a dependency: sqlx",
                "weft-core no longer uses uuid: take it off CORE_DEPENDENCIES",
            ]
        );
    }

    #[test]
    fn another_way_out_is_named() {
        let linked = |client: &str, users: &[&str]| WorkspaceMetadata {
            linked_by: [(client.to_owned(), set(users))].into(),
            ..WorkspaceMetadata::default()
        };
        let check = |metadata: WorkspaceMetadata, expected: &[&str]| {
            assert_eq!(problems(|findings| clients(&metadata, findings)), expected);
        };
        check(linked("reqwest", &["weft-net", "genai"]), &[]);
        check(
            linked("reqwest", &["weft-components"]),
            &["weft-components links reqwest: connections leave through weft-net only"],
        );
        check(
            linked("ureq", &["some-sdk"]),
            &["some-sdk links ureq: connections leave through weft-net only"],
        );
    }

    #[test]
    fn words_count_in_code_and_not_in_tests_or_comments() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let check = |file: SourceFile, count: usize| {
            let found = problems(|findings| absent_words(&file, findings));
            assert_eq!(found.len(), count, "{found:?}");
        };
        check(file("crates/weft-dsl/src/plan.rs", "// never .await\nlet x = y.await;\n"), 1);
        check(file("crates/weft-engine/src/drive.rs", "let x = y.await;\n"), 0);
        check(
            file("crates/weft-store/src/x.rs", "#[cfg(test)]\nmod tests {\n    TcpStream::connect(a);\n}\n"),
            0,
        );
        check(file("crates/weft-server/src/routes/x.rs", "use weft_store::Store;\n"), 1);
        check(file("crates/weft-app/src/turns.rs", "use axum::Router;\n"), 1);
        check(file("crates/weft-app/src/assemble.rs", "use weft_store::Store;\n"), 0);
    }
}
