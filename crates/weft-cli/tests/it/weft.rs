//! Starts the program in its own folder with an empty environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// A home folder.
pub(crate) struct Home {
    folder: TempDir,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ended =
            Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        ended
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that standard error contains each of these.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in:\n{}", self.stderr);
        }
        self
    }

    /// Each line of standard output as JSON.
    pub(crate) fn json_lines(&self) -> Vec<Json> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Home {
    /// An empty home.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A home whose settings name a model that plays this script.
    pub(crate) fn scripted(script: &Json) -> Self {
        let home = Self::new();
        home.write("script.json", script.to_string());
        home.write(
            "weft.toml",
            "[[models.entries]]\nname = \"actor\"\nprovider = \"scripted\"\nscript = \"script.json\"\n",
        );
        home
    }

    /// A home whose model quotes its context.
    pub(crate) fn quoting() -> Self {
        let home = Self::new();
        home.write("weft.toml", "[[models.entries]]\nname = \"extractive\"\nprovider = \"extractive\"\n");
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes the user's settings, which need no trust.
    pub(crate) fn settings(&self, text: impl AsRef<[u8]>) {
        let folder = self.path().join(".config/weft");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("weft.toml"), text).unwrap();
    }

    /// The command of the program, ready to start.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(arguments).env_clear().env("HOME", self.path()).current_dir(self.path());
        command
    }

    /// Runs the program to its end without input.
    pub(crate) fn weft(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments).stdin(Stdio::null()))
    }

    /// Runs the program to its end with this input.
    pub(crate) fn weft_reading(&self, arguments: &[&str], input: &str) -> Ended {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ended::of(&child.wait_with_output().unwrap())
    }

    /// Starts the program.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Starts the program with a limit of open files, as `ulimit` takes it: `-n 128`, or `-S -n 128` for a soft limit
    /// that the program can raise.
    pub(crate) fn start_with_files(&self, files: &str, arguments: &[&str]) -> Running {
        let weft = self.command(arguments);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("ulimit {files}; exec \"$@\"")).arg("sh");
        command.arg(weft.get_program()).args(weft.get_args());
        command.env_clear().env("HOME", self.path()).current_dir(self.path());
        Running::start(command)
    }
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    Ended::of(&command.output().unwrap())
}

/// A running program; it is killed when its test ends.
pub(crate) struct Running {
    child: Child,
    pub input: Option<ChildStdin>,
    pub stdout: BufReader<ChildStdout>,
    pub stderr: BufReader<ChildStderr>,
}

impl Running {
    /// Starts a command.
    pub(crate) fn start(mut command: Command) -> Self {
        Self::of(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn of(mut child: Child) -> Self {
        let (input, stdout, stderr) =
            (child.stdin.take(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, input, stdout: BufReader::new(stdout), stderr: BufReader::new(stderr) }
    }

    /// Reads standard error up to the line that contains `part`, and returns it.
    pub(crate) fn told(&mut self, part: &str) -> String {
        let mut before = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "no {part:?} in:\n{before}");
            if line.contains(part) {
                return line;
            }
            before += &line;
        }
    }

    /// Reads standard output up to the line that contains `part`.
    pub(crate) fn printed(&mut self, part: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "no {part:?}");
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Sends a signal such as `INT` to this process only.
    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end; returns the rest of both outputs.
    pub(crate) fn end(mut self) -> Ended {
        use std::io::Read as _;
        drop(self.input.take());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Ended { code: self.child.wait().unwrap().code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has already ended when the test passed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The path of a sample canvas of the repository.
pub(crate) fn sample(name: &str) -> String {
    format!("{}/../../canvases/{name}/canvas.json", env!("CARGO_MANIFEST_DIR"))
}

/// A canvas that calls a model and outputs its answer.
pub(crate) fn ask_a_model() -> Json {
    let prompts = json!([{"role": "user", "content": "{sys.query}"}]);
    let model = json!({"llm_id": "", "sys_prompt": "", "prompts": prompts, "cite": false, "max_retries": 0,
        "outputs": {"content": {"type": "string", "value": ""}}});
    let begin =
        json!({"mode": "conversational", "prologue": "Welcome.", "enablePrologue": true, "inputs": {}});
    json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": begin}, "downstream": ["LLM:A"], "upstream": []},
        "LLM:A": {"obj": {"component_name": "LLM", "params": model}, "downstream": ["Message:M"], "upstream": ["begin"]},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{LLM:A@content}"]}},
            "downstream": [], "upstream": ["LLM:A"]},
    }, "globals": {"sys.query": ""}, "history": [], "path": [], "retrieval": []})
}

/// A canvas with an agent of these parameters, and a message with its answer.
pub(crate) fn agent(params: &Json) -> Json {
    let begin = json!({"mode": "conversational", "enablePrologue": false, "prologue": "", "inputs": {}});
    json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": begin}, "downstream": ["Agent:A"], "upstream": []},
        "Agent:A": {"obj": {"component_name": "Agent", "params": params}, "downstream": ["Message:M"], "upstream": ["begin"]},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{Agent:A@content}"]}},
            "downstream": [], "upstream": ["Agent:A"]},
    }, "globals": {"sys.query": ""}, "history": [], "path": [], "retrieval": []})
}
