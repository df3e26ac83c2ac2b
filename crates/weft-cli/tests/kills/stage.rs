//! A conversation with a sample canvas, run by processes of the program: uninterrupted, interrupted, and resumed.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tempfile::TempDir;
use weft_core::Entry;
use weft_core::journal::Ending;

use crate::journal::{has_begun, is_interrupted, outcome, spent, wrong};
use crate::outside::Outside;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Before,
    After,
}

/// What resumes an interrupted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Healer {
    /// `weft runs resume --all`.
    Command,
    /// `weft serve`, on its own.
    Server,
}

/// One conversation of one canvas.
pub(crate) struct Stage {
    name: String,
    folder: TempDir,
    canvas: PathBuf,
    turns: Vec<Json>,
    outside: Outside,
    /// The result of each turn when it is not interrupted.
    whole: Vec<Whole>,
    /// The services outside count requests, so only one process runs at a time.
    alone: Mutex<()>,
}

struct Whole {
    entries: Vec<Entry>,
    posted: u64,
    files: Vec<String>,
    /// The recorded usage when the turn began.
    spent_before: [u64; 3],
}

/// A process that was killed at a point.
pub(crate) struct Cut<'a> {
    stage: &'a Stage,
    turn: usize,
    place: String,
    data: PathBuf,
    posted: u64,
    pub(crate) was_killed: bool,
}

/// The result of a resumed run.
#[derive(Debug)]
pub(crate) struct Healed {
    pub(crate) has_begun: bool,
    pub(crate) is_interrupted: bool,
    pub(crate) is_whole: bool,
    pub(crate) healer: Healer,
}

/// All conversations of all sample canvases, or of the named one. `http_call` is included a second time, as a canvas
/// that changes something at its web service.
pub(crate) fn stages(only: Option<&str>) -> Vec<Stage> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../canvases");
    let mut folders: Vec<_> =
        std::fs::read_dir(samples).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    let mut stages = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let input: Json =
            serde_json::from_str(&std::fs::read_to_string(folder.join("input.json")).unwrap()).unwrap();
        let posts = (name == "http_call").then(|| format!("{name}_that_posts"));
        for name in [Some(name), posts].into_iter().flatten() {
            if only.is_some_and(|only| only != name) {
                continue;
            }
            // A model's script covers all conversations in order, so each conversation follows all before it.
            let conversations = input["conversations"].as_array().unwrap();
            let turns = |conversation: &Json| conversation["turns"].as_array().unwrap().clone();
            let conversations: Vec<_> = conversations.iter().map(turns).collect();
            stages.push((name, folder.clone(), conversations));
        }
    }
    stages.into_iter().flat_map(|(name, folder, all)| of_canvas(&name, &folder, &all)).collect()
}

fn of_canvas(name: &str, sample: &Path, conversations: &[Vec<Json>]) -> Vec<Stage> {
    let stage = |(n, turns): (usize, &Vec<Json>)| {
        let folder = tempfile::tempdir().unwrap();
        let outside = Outside::of(sample);
        let home = folder.path().join(name);
        copy(sample, &home);
        let canvas = home.join("canvas.json");
        let mut text = std::fs::read_to_string(&canvas).unwrap();
        for host in ["shop.example", "bank.example", "search.example"] {
            text = text.replace(&format!("https://{host}"), &format!("{}/{host}", outside.web_url));
        }
        if name.ends_with("_that_posts") {
            text = text.replace("\"method\": \"get\"", "\"method\": \"post\"");
        }
        std::fs::write(&canvas, text).unwrap();
        let stage = Stage {
            name: format!("{name}, conversation {}", n + 1),
            folder,
            canvas,
            turns: turns.clone(),
            outside,
            whole: Vec::new(),
            alone: Mutex::new(()),
        };
        // The earlier conversations are run only to advance the model's script.
        for (m, before) in conversations[..n].iter().enumerate() {
            let data = stage.folder.path().join(format!("before{m}"));
            before.iter().for_each(|turn| drop(stage.hold(&data, turn, None)));
        }
        stage
    };
    conversations.iter().enumerate().map(stage).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

/// The files below a folder, by their paths.
fn files(folder: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, all),
            path => all.push(path.file_name().unwrap().to_string_lossy().into_owned()),
        }
    }
    all.sort();
}

impl Stage {
    fn command(&self, arguments: &[&str], data: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(arguments).arg("--data").arg(data).env_clear().env("HOME", self.folder.path());
        command.env("WEFT_OPENAI_BASE_URL", &self.outside.model_url).env("WEFT_DEFAULT_MODEL", "m");
        command
            .env("WEFT_NET__ALLOW", "[\"127.0.0.1\"]")
            .env("WEFT_OPENAI_API_KEY", "k")
            .current_dir(self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs one turn, killed at a fault point if one is given.
    fn hold(&self, data: &Path, turn: &Json, point: Option<&str>) -> Output {
        let canvas = self.canvas.to_str().unwrap();
        let mut arguments = vec!["run", canvas, "--session", "s"];
        let query = turn["query"].as_str().unwrap_or_default();
        if !query.is_empty() {
            arguments.extend(["--query", query]);
        }
        let inputs: Vec<String> = turn["inputs"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        inputs.iter().for_each(|input| arguments.extend(["--input", input]));
        let mut command = self.command(&arguments, data);
        if let Some(point) = point {
            command.env("WEFT_FAULT_POINT", point);
        }
        command.output().unwrap()
    }

    fn data(&self, turn: usize) -> PathBuf {
        self.folder.path().join(format!("turn{turn}"))
    }

    /// The journal of the newest run.
    fn journal(&self, data: &Path) -> Vec<Entry> {
        let listed = self.command(&["runs", "list", "--json", "--limit", "1"], data).output().unwrap();
        let Ok(run) = serde_json::from_slice::<Json>(&listed.stdout) else { return Vec::new() };
        let shown =
            self.command(&["runs", "show", run["id"].as_str().unwrap(), "--json"], data).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The recorded model calls, tokens and tool calls, summed over all days.
    fn spending(&self, data: &Path) -> [u64; 3] {
        let told = self.command(&["spending", "--json"], data).output().unwrap();
        let text = String::from_utf8(told.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        lines.fold([0; 3], |sum, line| {
            let names = ["model_calls", "tokens", "tool_calls"];
            std::array::from_fn(|n| sum[n] + line[names[n]].as_u64().unwrap_or_default())
        })
    }

    /// Runs the whole conversation and keeps the state before each turn.
    pub(crate) fn rehearsed(mut self) -> Self {
        for turn in 0..self.turns.len() {
            let (before, after) = (self.data(turn), self.data(turn + 1));
            copy(&before, &after);
            let (posted, spent_before) = (self.outside.posted(), self.spending(&before));
            let output = self.hold(&after, &self.turns[turn], None);
            let entries = self.journal(&after);
            assert!(
                wrong(&entries).is_empty(),
                "{}: {:?}\n{}",
                self.name,
                wrong(&entries),
                String::from_utf8_lossy(&output.stderr)
            );
            let mut there = Vec::new();
            files(&after.join("files"), &mut there);
            let posted = self.outside.posted() - posted;
            self.whole.push(Whole { entries, posted, files: there, spent_before });
        }
        self
    }

    pub(crate) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn entries(&self, turn: usize) -> u64 {
        self.whole[turn].entries.len() as u64
    }

    /// Kills a process in the middle of a turn.
    pub(crate) fn cut(&self, turn: usize, side: Side, entry: u64) -> Cut<'_> {
        let point = match side {
            Side::Before => format!("before:{entry}"),
            Side::After => format!("after:{entry}"),
        };
        let place = format!("{}, turn {}, {point}", self.name, turn + 1);
        let data = self.folder.path().join(format!("cut{turn}_{}", point.replace(':', "_")));
        copy(&self.data(turn), &data);
        let _alone = self.alone.lock().unwrap();
        let posted = self.outside.posted();
        let output = self.hold(&data, &self.turns[turn], Some(&point));
        let was_killed = output.status.code().is_none();
        Cut { stage: self, turn, place, data, posted: self.outside.posted() - posted, was_killed }
    }
}

impl Cut<'_> {
    /// Starts the program again and checks the result of the run.
    ///
    /// # Errors
    /// The violation that was found.
    pub(crate) fn heal(self, healer: Healer) -> Result<Healed, String> {
        let stage = self.stage;
        let whole = &stage.whole[self.turn];
        let _alone = stage.alone.lock().unwrap();
        let posted = stage.outside.posted();
        let told = match healer {
            Healer::Server => self.served(),
            Healer::Command => {
                let output = stage.command(&["runs", "resume", "--all"], &self.data).output().unwrap();
                String::from_utf8_lossy(&output.stderr).into_owned()
            }
        };
        let entries = stage.journal(&self.data);
        let posted = self.posted + (stage.outside.posted() - posted);
        let mut all_wrong = wrong(&entries);
        let mut must = |holds: bool, what: String| {
            if !holds {
                all_wrong.push(what);
            }
        };
        let (has_begun, is_interrupted) = (has_begun(&entries), is_interrupted(&entries));
        let spent = spent(&entries);
        let used = [spent.model_calls, spent.tokens, spent.tool_calls];
        let ours: [u64; 3] = std::array::from_fn(|n| whole.spent_before[n] + used[n]);
        let kept = stage.spending(&self.data);
        must(kept == ours, format!("{kept:?} are kept as used and {ours:?} were"));
        must(posted <= whole.posted, format!("{posted} calls that may be made {} times", whole.posted));
        let (ours, theirs) = (outcome(&entries), outcome(&whole.entries));
        let is_whole = has_begun && !is_interrupted;
        if !has_begun {
            // The client got no answer, so it asks again.
            stage.hold(&self.data, &stage.turns[self.turn], None);
            let again = outcome(&stage.journal(&self.data));
            must(again == theirs, format!("asked again: {again:?} instead of {theirs:?}"));
        }
        if is_whole {
            must(ours == theirs, format!("{ours:?} instead of {theirs:?}"));
            must(posted == whole.posted, format!("{posted} calls instead of {}", whole.posted));
            let mut there = Vec::new();
            files(&self.data.join("files"), &mut there);
            must(there == whole.files, format!("the files {there:?} instead of {:?}", whole.files));
            if theirs.is_some_and(|(ending, _)| ending == Ending::Waiting) && self.turn + 1 < stage.turns() {
                stage.hold(&self.data, &stage.turns[self.turn + 1], None);
                let (ours, theirs) =
                    (outcome(&stage.journal(&self.data)), outcome(&stage.whole[self.turn + 1].entries));
                must(ours == theirs, format!("the answer leads to {ours:?} instead of {theirs:?}"));
            }
        }
        if all_wrong.is_empty() {
            // Thousands of data folders should not exist at the same time.
            let _ = std::fs::remove_dir_all(&self.data);
            return Ok(Healed { has_begun, is_interrupted, is_whole, healer });
        }
        let broken = format!("{}: {}\n{told}", self.place, all_wrong.join("; "));
        println!("{broken}");
        Err(broken)
    }

    /// A server resumes the run on its own.
    fn served(&self) -> String {
        // The documents beside the canvas belong to the agent, too.
        let agent = format!("served={}", self.stage.canvas.display());
        let mut command = self
            .stage
            .command(&["serve", "--listen", "127.0.0.1:0", "--no-auth", "--agent", &agent], &self.data);
        let mut server: Child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until && outcome(&self.stage.journal(&self.data)).is_none() {
            std::thread::sleep(Duration::from_millis(200));
        }
        // The last record is stored, and the end of the run is recorded right after it.
        std::thread::sleep(Duration::from_millis(300));
        server.kill().unwrap();
        server.wait().unwrap();
        line
    }
}
