//! Determines which settings may come from a configuration file in the current folder.
//!
//! Such a file is untrusted: it may come with a repository or an archive. Settings that start programs, choose where
//! keys and data go, remove something or widen what is allowed only count if the operator has approved them. The same
//! holds for settings that are not named here.

use serde_json::Value as Json;

/// The source from which a setting is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Any file.
    Anyone,
    /// Any file that lowers the value, but not to 0, which may mean no limit.
    Lower,
    /// The same, where 0 means that nothing is done.
    LowerOrNone,
    /// Any file that enables it, which restricts what is done.
    On,
    /// The same, where 0 means that there is no limit.
    Quota,
    /// Only the operator, for this reason.
    Operator(&'static str),
    /// Depends on the entry: any file may add a model that contacts no service.
    ModelEntries,
}

use Trust::{Anyone, Lower, LowerOrNone, ModelEntries, On, Operator, Quota};

const SENDS: &str = "it chooses where questions, documents and keys are sent";
const KEEPS: &str = "it chooses where data is kept";
const STARTS: &str = "it starts a program";
const OPENS: &str = "it removes the isolation of files and programs of others";

/// Rules for all settings and sections; the longest matching name takes precedence.
const RULES: &[(&str, Trust)] = &[
    ("data", Operator(KEEPS)),
    ("listen", Operator("it lets others reach the server")),
    ("store", Operator(KEEPS)),
    ("secrets", Operator("it chooses the key that secrets are encrypted with")),
    ("blobs", Operator(KEEPS)),
    ("index", Operator(KEEPS)),
    ("retention", Operator("it removes runs and versions")),
    ("limits", Lower),
    ("limits.sessions", LowerOrNone),
    ("limits.sessions.multitask_strategy", Anyone),
    ("limits.tenant_api_keys", Quota),
    ("limits.tenant_canvases", Quota),
    ("limits.tenant_chats", Quota),
    ("limits.tenant_datasets", Quota),
    ("limits.tenant_document_bytes", Quota),
    ("limits.tenant_documents", Quota),
    ("limits.tenant_runs_at_once", Quota),
    ("limits.tenant_sessions", Quota),
    ("limits.pick_ups", Operator("it gives up runs that were interrupted")),
    ("net", Operator("it lets canvases reach more than public addresses")),
    ("files", Operator(KEEPS)),
    ("files.bytes_max", Lower),
    ("files.tenant_bytes_max", Quota),
    ("sandbox", Lower),
    ("sandbox.at_once", LowerOrNone),
    ("sandbox.worker", Operator(STARTS)),
    ("sandbox.confinement", Operator(OPENS)),
    ("sandbox.python", Operator(STARTS)),
    ("sandbox.python_modules", Operator(STARTS)),
    ("sandbox.remote", Operator("it chooses where programs and their arguments are sent")),
    ("browser", Lower),
    ("browser.at_once", LowerOrNone),
    ("browser.program", Operator(STARTS)),
    ("browser.sandbox", Operator(OPENS)),
    ("browser.stored_bytes", Quota),
    ("attachments", Lower),
    ("documents", Lower),
    ("documents.at_once", LowerOrNone),
    ("documents.worker", Operator(STARTS)),
    ("documents.confinement", Operator(OPENS)),
    ("documents.font", Operator("it names a file that is read")),
    ("documents.ocr", Operator("it starts a program, or chooses where pictures are sent")),
    ("documents.ocr_languages", Anyone),
    ("transcription", Lower),
    ("transcription.engine", Operator(STARTS)),
    ("transcription.command", Operator(STARTS)),
    ("transcription.model", Operator("it names a file that is read")),
    ("transcription.language", Anyone),
    ("transcription.read", Operator(OPENS)),
    ("mcp", Operator("it starts programs and chooses where keys are sent")),
    ("plugins", Operator("it chooses what agents call and where keys are sent")),
    ("server", Operator("it decides who may use the server")),
    ("accounts", Operator("it decides who may use the server")),
    ("notifications", Operator("it chooses who is notified of runs and tasks")),
    ("worker", Lower),
    ("worker.kept_days", Operator("it removes the history of schedules")),
    ("models", Operator(SENDS)),
    ("models.default", Anyone),
    ("models.default_embedding", Anyone),
    ("models.default_rerank", Anyone),
    ("models.default_tts", Anyone),
    ("models.default_speech", Anyone),
    ("models.replace_all", Anyone),
    ("models.strict", On),
    ("models.cache", Lower),
    ("models.entries", ModelEntries),
];
/// Built-in providers, which send nothing.
const OWN_PROVIDERS: [&str; 2] = ["extractive", "scripted"];
/// Fields that make a model entry reach outside of this program.
const LEADS_OUT: [&str; 5] = ["api_key", "api_key_env", "base_url", "factory", "path"];

/// A setting that only the operator may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untrusted {
    /// Its name, such as `mcp.servers.files.command`.
    pub name: String,
    /// What it would do.
    pub reason: &'static str,
}

/// Returns the settings of a file that only the operator may make. `without` are the effective settings without the
/// file.
pub fn untrusted(file: &Json, without: &Json) -> Vec<Untrusted> {
    let mut found = Vec::new();
    look("", file, Some(without), &mut found);
    found.extend(replaced_budgets(file, without));
    found
}

/// Returns the budgets of single canvases that the file adds where all canvases have one, which they replace: even the
/// lowest number of one kind removes the limits of all others.
fn replaced_budgets<'a>(file: &'a Json, without: &'a Json) -> impl Iterator<Item = Untrusted> + 'a {
    let of_all = without.pointer("/limits/canvas_budget").and_then(Json::as_object);
    let is_limited = of_all.is_some_and(|periods| !periods.is_empty());
    let own = without.pointer("/limits/canvas_budgets").and_then(Json::as_object);
    let added = file.pointer("/limits/canvas_budgets").and_then(Json::as_object).filter(|_| is_limited);
    let names = added.into_iter().flat_map(|added| added.keys());
    let new = names.filter(move |name| own.is_none_or(|own| !own.contains_key(*name)));
    new.map(|name| Untrusted {
        name: format!("limits.canvas_budgets.{name}"),
        reason: "it replaces the budget that all canvases have",
    })
}

fn look(name: &str, value: &Json, without: Option<&Json>, found: &mut Vec<Untrusted>) {
    let trust = trust(name);
    let mut refuse = |reason| found.push(Untrusted { name: name.to_owned(), reason });
    match (trust, value) {
        (Some(Anyone), _) | (Some(On), Json::Bool(true)) => {}
        (Some(ModelEntries), Json::Array(entries)) => {
            if !entries.iter().all(stays_inside) {
                refuse(SENDS);
            }
        }
        (Some(Lower | LowerOrNone | Quota) | None, Json::Object(members)) => {
            for (member, value) in members {
                let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                look(&name, value, without.and_then(|without| without.get(member)), found);
            }
        }
        // A section may contain settings with their own rules.
        (Some(Operator(_)), Json::Object(members)) if has_rules_below(name) => {
            for (member, value) in members {
                let inside = without.and_then(|without| without.get(member));
                look(&format!("{name}.{member}"), value, inside, found);
            }
        }
        (Some(Operator(reason)), _) => refuse(reason),
        (Some(rule @ (Lower | LowerOrNone | Quota)), value) if rule.allows(value, without) => {}
        (Some(_), _) => refuse("it allows more than is allowed without it"),
        // Unknown settings are reported elsewhere.
        (None, _) => {}
    }
}

/// Returns the rule for a setting; `None` for an unknown name at the top level.
fn trust(name: &str) -> Option<Trust> {
    let fits =
        |rule: &str| name.strip_prefix(rule).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    RULES.iter().filter(|(rule, _)| fits(rule)).max_by_key(|(rule, _)| rule.len()).map(|(_, trust)| *trust)
}

fn has_rules_below(name: &str) -> bool {
    RULES.iter().any(|(rule, _)| rule.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

impl Trust {
    /// Returns whether a value allows no more than the value without it.
    fn allows(self, value: &Json, without: Option<&Json>) -> bool {
        match value {
            // Turning something off allows nothing more.
            Json::Bool(value) => !value,
            Json::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::INFINITY);
                // Without a value there is no limit that this one could exceed.
                let most = without.and_then(Json::as_f64).unwrap_or(f64::INFINITY);
                let most = if self == Quota && most == 0.0 { f64::INFINITY } else { most };
                let enough = number > 0.0 || (self == LowerOrNone && number == 0.0);
                enough && number <= most
            }
            _ => false,
        }
    }
}

fn stays_inside(entry: &Json) -> bool {
    let own = entry.get("provider").and_then(Json::as_str).is_some_and(|one| OWN_PROVIDERS.contains(&one));
    own && LEADS_OUT.iter().all(|name| entry.get(name).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap()
    }

    fn names(text: &str) -> Vec<String> {
        let without = json(include_str!("../../config.default.toml"));
        untrusted(&json(text), &without).into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn every_setting_has_a_trust_rule() {
        let Json::Object(sections) = json(include_str!("../../config.default.toml")) else { panic!() };
        for (section, settings) in sections {
            assert!(trust(&section).is_some(), "{section}");
            for name in
                settings.as_object().into_iter().flatten().map(|(name, _)| format!("{section}.{name}"))
            {
                assert!(trust(&name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn settings_that_start_send_delete_or_widen_need_trust() {
        for (text, expected) in [
            ("data = \"x\"", "data"),
            ("listen = \"0.0.0.0:1\"", "listen"),
            ("store.url = \"postgres://x\"", "store"),
            ("documents.worker = [\"sh\"]", "documents.worker"),
            ("transcription.engine = \"whisper\"", "transcription.engine"),
            ("transcription.command = [\"sh\"]", "transcription.command"),
            ("transcription.model = \"/etc/passwd\"", "transcription.model"),
            ("transcription.read = [\"/\"]", "transcription.read"),
            ("transcription.seconds = 1801.0", "transcription.seconds"),
            ("sandbox.worker = [\"sh\"]", "sandbox.worker"),
            ("sandbox.confinement = \"best_effort\"", "sandbox.confinement"),
            ("sandbox.python = \"sh\"", "sandbox.python"),
            ("sandbox.python_modules = [\"a\"]", "sandbox.python_modules"),
            ("sandbox.remote = \"http://127.0.0.1:9385\"", "sandbox.remote"),
            ("browser.program = \"sh\"", "browser.program"),
            ("browser.sandbox = false", "browser.sandbox"),
            ("[mcp.servers.a]\ncommand = \"sh\"", "mcp"),
            ("net.allow = [\"127.0.0.1\"]", "net"),
            ("server.auth = \"off\"", "server"),
            ("accounts.sign_up = true", "accounts"),
            ("retention.runs_days = 1", "retention"),
            ("worker.kept_days = 1", "worker.kept_days"),
            ("limits.pick_ups = 1", "limits.pick_ups"),
            ("files.root = \"/\"", "files.root"),
            ("models.one_server.base_url = \"http://x\"", "models.one_server"),
            (
                "[[models.entries]]\nname = \"a\"\nbase_url = \"http://x\"\napi_key_env = \"KEY\"",
                "models.entries",
            ),
            ("[[models.entries]]\nname = \"a\"\nprovider = \"scripted\"\nbase_url = \"x\"", "models.entries"),
            ("[[models.entries]]\nname = \"a\"", "models.entries"),
            ("models.strict = false", "models.strict"),
            ("models.strict = \"true\"", "models.strict"),
            ("limits.run_seconds = 999999", "limits.run_seconds"),
            ("limits.run_seconds = 0", "limits.run_seconds"),
            ("limits.run_seconds = \"7\"", "limits.run_seconds"),
            ("sandbox.seconds = 11.0", "sandbox.seconds"),
            ("limits.sessions.waiting_max = 17", "limits.sessions.waiting_max"),
        ] {
            assert_eq!(names(text), [expected], "{text}");
        }
    }

    #[test]
    fn settings_that_only_restrict_need_no_trust() {
        for text in [
            "[[models.entries]]\nname = \"a\"\nprovider = \"scripted\"\nscript = \"s.json\"",
            "models.default = \"a\"",
            "models.strict = true",
            "models.cache.entries = 3",
            "limits.run_seconds = 7",
            "limits.tenant_runs_at_once = 7",
            "[limits.canvas_budgets.shop.day]\nmoney = 2.0",
            "limits.sessions = { multitask_strategy = \"reject\", waiting_max = 0, wait_seconds = 300 }",
            "sandbox.at_once = 0",
            "documents.seconds = 3.5",
            "transcription.language = \"de\"",
            "transcription.threads = 1",
            "worker.enabled = false",
            "files.bytes_max = 7",
            "nosuch = 1",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_limit_may_not_exceed_the_one_of_the_operator() {
        let without = json("limits.run_seconds = 5");
        let found = untrusted(&json("limits.run_seconds = 7"), &without);
        assert_eq!(found.len(), 1);
        let without = json("limits.tenant_runs_at_once = 5");
        for wider in ["limits.tenant_runs_at_once = 7", "limits.tenant_runs_at_once = 0"] {
            assert_eq!(untrusted(&json(wider), &without).len(), 1, "{wider}");
        }
        for kind in ["api_keys", "canvases", "chats", "datasets", "sessions"] {
            let limit = |number: u64| json(&format!("limits.tenant_{kind} = {number}"));
            for (number, count) in [(4, 0), (6, 1), (0, 1)] {
                assert_eq!(untrusted(&limit(number), &limit(5)).len(), count, "{kind} {number}");
            }
        }
    }

    #[test]
    fn a_budget_of_one_canvas_may_not_replace_that_of_all() {
        let all = "[limits.canvas_budget.day]\nmoney = 2.0\n";
        let both = format!("{all}[limits.canvas_budgets.shop.day]\nmoney = 3.0\n");
        let names = |text: &str, without: &str| {
            let found = untrusted(&json(text), &json(without));
            found.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        let one = "limits.canvas_budgets.shop.day.tokens = 1";
        assert_eq!(names(one, all), ["limits.canvas_budgets.shop"]);
        assert_eq!(names(one, ""), [""; 0]);
        assert_eq!(names(one, &both), [""; 0], "its own budget only becomes lower");
        assert_eq!(names("limits.canvas_budgets.shop.day.money = 4.0", &both).len(), 1);
    }
}
