//! Transcribes recordings with an external program: whisper.cpp's, or one that the operator configures. Each recording
//! gets a process of its own that can read its model and the recording and nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use weft_child::{
    AskLimits, Bounds, Confinement, Duty, ProgramEnd, Worker, WorkerEnd, become_threaded_program,
};
use weft_core::fair::FairSlots;
use weft_core::seam::TranscriptionModel;
use weft_core::seam::speech::Recording;
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::reader::{Limits, ReaderJob, ReaderOrder};
use crate::tesseract::LIBRARIES;
use crate::words::is_unspaced;

const DUTY: Duty = Duty { thing: "a recording", does: "writes down speech", section: "documents" };
/// Placeholder for the path of the recording in the arguments of a program.
const FILE: &str = "{file}";
/// Paths where whisper.cpp's program is looked for.
const WHISPER: [&str; 4] = [
    "/usr/bin/whisper-cli",
    "/usr/local/bin/whisper-cli",
    "/bin/whisper-cli",
    "/opt/homebrew/bin/whisper-cli",
];
/// File extensions that whisper.cpp accepts. It checks the extension before it looks at the contents.
const OF_WHISPER: [&str; 4] = ["flac", "mp3", "ogg", "wav"];
/// What whisper.cpp writes for a stretch without speech.
const BLANK: &str = "[BLANK_AUDIO]";
/// Folders with programs that a script may execute.
const PROGRAMS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];
/// Maximum size of the text of one recording, in bytes: enough for some weeks of speech.
const TEXT_BYTES_MAX: u64 = 8 << 20;
/// Maximum number of recordings waiting for a slot; further ones are refused until some are done.
const WAITING_MAX: usize = 64;

/// The program that transcribes speech, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranscriptionProgram {
    /// `whisper-cli` of whisper.cpp.
    Whisper {
        /// Path of the program, and arguments to add to the built-in ones; if empty, the program installed on the
        /// system.
        command: Vec<String>,
        /// File of the model.
        model: PathBuf,
        /// Language of the speech, with whisper.cpp's name for it (`en`), or `auto`.
        language: String,
    },
    /// Another program, which writes the text to its standard output.
    Other {
        /// Its path and its arguments, with `{file}` for the path of the recording.
        command: Vec<String>,
    },
}

/// How the transcription program is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptionSettings {
    /// The program.
    pub program: TranscriptionProgram,
    /// Files and folders that it may read in addition to the system's libraries, the program itself, its model and the
    /// recording.
    pub read: Vec<PathBuf>,
    /// Number of threads that each process may use.
    pub threads: u32,
    /// Number of recordings transcribed concurrently.
    pub at_once: usize,
}

/// The program that a worker turns into, with its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Transcription {
    program: PathBuf,
    arguments: Vec<String>,
    read: Vec<PathBuf>,
    threads: u32,
}

impl Transcription {
    /// Drops the privileges that are not needed, and turns this process into the program.
    pub(crate) fn begin(self, bounds: &Bounds) -> ExitCode {
        let Self { program, arguments, mut read, threads } = self;
        let mut command = Command::new(&program);
        command.args(arguments).env_clear();
        command.env("PATH", PROGRAMS.join(":")).env("LANG", "C.UTF-8");
        let most = threads.to_string();
        // Numerical libraries would otherwise start as many threads as the machine has processors.
        for name in ["OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"] {
            command.env(name, &most);
        }
        read.extend(LIBRARIES.into_iter().chain(PROGRAMS).map(PathBuf::from));
        read.push(program);
        become_threaded_program(&read, bounds, threads, &mut command)
    }
}

/// Format of the text in a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputFormat {
    /// Plain text.
    Plain,
    /// Lines that begin with the time span of the speech: `[00:00:01.000 --> 00:00:04.500]  Good morning.`
    Timed,
}

/// Transcribes speech with a program installed on this system.
#[derive(Debug)]
pub struct ProgramTranscription {
    worker: Worker,
    name: String,
    /// The part common to all recordings: its arguments still contain [`FILE`].
    run: Transcription,
    told: OutputFormat,
    limits: Limits,
    slots: FairSlots,
    confinement: Confinement,
}

impl ProgramTranscription {
    /// Uses a program of this system, with `limits` for each recording. The worker program must call [`crate::work`].
    ///
    /// # Errors
    /// `Invalid` if the program, its model or another file that it reads does not exist, or its arguments make no
    /// sense.
    pub fn open(worker: Worker, settings: TranscriptionSettings, limits: Limits) -> Result<Self> {
        let TranscriptionSettings { program, mut read, threads, at_once } = settings;
        if let Some(missing) = read.iter().find(|path| !path.exists()) {
            let message = format!("`transcription.read` names {}, which does not exist", missing.display());
            return Err(Error::invalid(message).help("remove it, or create it"));
        }
        let threads = threads.max(1);
        let (program, arguments, told) = match program {
            TranscriptionProgram::Whisper { command, model, language } => {
                let (program, arguments) = whisper(command, &model, &language, threads)?;
                read.push(model);
                (program, arguments, OutputFormat::Timed)
            }
            TranscriptionProgram::Other { command } => {
                let (program, arguments) = other(command)?;
                (program, arguments, OutputFormat::Plain)
            }
        };
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let slots = FairSlots::with_waiting_max(at_once, WAITING_MAX);
        let run = Transcription { program, arguments, read, threads };
        Ok(Self { worker, name, run, told, limits, slots, confinement: Confinement::default() })
    }

    /// Sets what happens to recordings when their worker cannot be confined.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Extension of the file that is passed to the program.
    ///
    /// # Errors
    /// `Invalid` if the program does not read such files.
    fn ending(&self, recording: &Recording) -> Result<String> {
        let ending = ending(recording);
        if self.told == OutputFormat::Timed && !OF_WHISPER.contains(&ending.as_str()) {
            let kinds = OF_WHISPER.join(", ");
            let message = format!("`{}` reads {kinds}, but not {}", self.name, recording.media_type);
            return Err(Error::invalid(message)
                .help("convert the recording, or have a service transcribe it (`models.default_speech`)"));
        }
        Ok(ending)
    }

    /// Builds the order to the worker for one recording.
    fn order(&self, path: &Path) -> Result<Vec<u8>> {
        let path = path
            .to_str()
            .ok_or_else(|| Error::internal("the path of the folder for temporary files is not UTF-8"))?;
        let mut run = self.run.clone();
        for argument in &mut run.arguments {
            *argument = argument.replace(FILE, path);
        }
        run.read.push(path.into());
        let order = ReaderOrder::new(ReaderJob::Transcribe(run), self.limits, 0);
        let mut order = serde_json::to_vec(&order.with_confinement(self.confinement)).map_err(|cause| {
            Error::internal("cannot encode the request to the worker process").because(cause)
        })?;
        order.push(b'\n');
        Ok(order)
    }

    /// Extracts the text from the output of the program.
    fn text(&self, told: &[u8]) -> Result<String> {
        // As much as is read at most: more may have followed.
        if told.len() as u64 >= TEXT_BYTES_MAX {
            return Err(self.too_much());
        }
        let told = String::from_utf8_lossy(told);
        let text = match self.told {
            OutputFormat::Plain => told.trim().to_owned(),
            OutputFormat::Timed => without_times(&told),
        };
        if text.is_empty() {
            let message = format!("`{}` has written nothing: it found no speech in the recording", self.name);
            return Err(Error::invalid(message)
                .help("if there is speech in it, check the arguments of the program (`transcription`)"));
        }
        Ok(text)
    }

    fn too_large(&self) -> Error {
        let most = self.limits.file_bytes >> 20;
        Error::invalid(format!("the recording has more than {most} MiB"))
            .help("split it, or raise `transcription.file_bytes_max`")
    }

    fn too_much(&self) -> Error {
        let (most, text) = (self.limits.memory_bytes >> 20, TEXT_BYTES_MAX >> 20);
        let message = format!(
            "`{}` takes more than {most} MiB of memory, writes more than {text} MiB, or crashes",
            self.name
        );
        Error::invalid(message).help("split the recording, or raise `transcription.memory_bytes`")
    }

    fn late(&self) -> Error {
        let limit = weft_core::value::plural(self.limits.time.as_secs_f64(), "second");
        let message = format!("`{}` took longer than {limit} for the recording", self.name);
        Error::new(ErrorKind::Timeout, message).help("split it, or raise `transcription.seconds`")
    }

    fn failed(&self, code: i32) -> Error {
        let message = format!("`{}` cannot transcribe the recording: it exited with code {code}", self.name);
        // Without its arguments: they may contain a key, and the user who sends a recording is not the operator.
        Error::invalid(message).help(
            "check whether the recording is complete; an operator can try `transcription.command` by hand",
        )
    }
}

/// Resolves the program of whisper.cpp and its arguments.
fn whisper(
    command: Vec<String>,
    model: &Path,
    language: &str,
    threads: u32,
) -> Result<(PathBuf, Vec<String>)> {
    let mut own = command.into_iter();
    let program = match own.next() {
        Some(program) => found(program.into())?,
        None => WHISPER.into_iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| {
            Error::invalid("`transcription.engine` is `whisper`, and the program whisper-cli is not installed")
                .help("install whisper.cpp, name its path as `transcription.command`, or set the engine to \"model\"")
        })?,
    };
    if !model.is_file() {
        let message = format!("`transcription.model` is `{}`, and no such file exists", model.display());
        return Err(Error::invalid(message)
            .help("name a model of whisper.cpp by its path, such as \"/srv/models/ggml-base.bin\""));
    }
    if language.is_empty() || !language.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        let message = format!("`transcription.language` is `{language}`");
        return Err(Error::invalid(message).help("use a code such as \"en\" or \"de\", or \"auto\""));
    }
    let model = model.to_str().ok_or_else(|| {
        Error::invalid("the path in `transcription.model` is not UTF-8").help("use a path in UTF-8")
    })?;
    let threads = threads.to_string();
    // With timestamps, though they are removed again: without them whisper.cpp loses words at the boundaries of its
    // half-minute windows.
    let ours = ["-m", model, "-l", language, "-t", threads.as_str(), "-f", FILE].map(str::to_owned);
    Ok((program, own.chain(ours).collect()))
}

/// Resolves a program that the operator has configured, and its arguments.
fn other(command: Vec<String>) -> Result<(PathBuf, Vec<String>)> {
    const HELP: &str = "set its path and its arguments, such as [\"/usr/local/bin/transcribe\", \"{file}\"]";
    let mut command = command.into_iter();
    let Some(program) = command.next() else {
        let message = "`transcription.engine` is `program`, and `transcription.command` is empty";
        return Err(Error::invalid(message).help(HELP));
    };
    let program = found(program.into())?;
    let arguments: Vec<String> = command.collect();
    if !arguments.iter().any(|argument| argument.contains(FILE)) {
        let message = "no argument in `transcription.command` has `{file}`, which stands for the recording";
        return Err(Error::invalid(message).help(HELP));
    }
    Ok((program, arguments))
}

/// Returns the program if it exists and is executable.
fn found(program: PathBuf) -> Result<PathBuf> {
    if program.is_absolute() && may_be_started(&program) {
        return Ok(program);
    }
    let message =
        format!("`transcription.command` names `{}`, which is not an executable program", program.display());
    Err(Error::invalid(message).help("install it, make it executable, and give its full path"))
}

#[cfg(unix)]
fn may_be_started(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    program.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn may_be_started(program: &Path) -> bool {
    program.is_file()
}

/// Extension by which programs recognize the format of a recording: that of its media type, otherwise that of its name.
fn ending(recording: &Recording) -> String {
    let media_type = recording.media_type.split(';').next().unwrap_or_default().trim();
    let known = match media_type {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/wave" | "audio/x-wav" | "audio/vnd.wave" => "wav",
        "audio/ogg" | "audio/opus" => "ogg",
        "audio/flac" | "audio/x-flac" => "flac",
        "audio/mp4" | "audio/m4a" | "audio/x-m4a" => "m4a",
        "audio/aac" => "aac",
        "audio/webm" | "video/webm" => "webm",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let own = recording.name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    // It becomes a part of a file name.
    let is_plain = |own: &String| {
        (1..=5).contains(&own.len()) && own.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    own.filter(is_plain).unwrap_or_else(|| "audio".to_owned())
}

/// Removes the timestamps from the beginnings of lines.
fn without_times(told: &str) -> String {
    let mut text = String::new();
    for line in told.lines() {
        let line = line.trim();
        let said = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((times, said)) if times.contains("-->") => said.trim(),
            _ => line,
        };
        if said.is_empty() || said == BLANK {
            continue;
        }
        let is_tight = matches!(
            (text.chars().next_back(), said.chars().next()),
            (Some(last), Some(first)) if is_unspaced(last) && is_unspaced(first)
        );
        if !text.is_empty() && !is_tight {
            text.push(' ');
        }
        text.push_str(said);
    }
    text
}

#[async_trait]
impl TranscriptionModel for ProgramTranscription {
    fn name(&self) -> &str {
        &self.name
    }

    async fn transcribe(&self, tenant: &TenantId, recording: &Recording) -> Result<String> {
        if recording.bytes.len() > self.limits.file_bytes {
            return Err(self.too_large());
        }
        let ending = self.ending(recording)?;
        let _slot = self.slots.acquire_for(tenant, "the recording").await?;
        let kept = |cause: std::io::Error| {
            Error::new(ErrorKind::Unavailable, "cannot store a recording for the program that transcribes it")
                .because(cause)
        };
        // The folder is removed when this is dropped, on every path.
        let folder = tempfile::Builder::new().prefix("weft-recording-").tempdir().map_err(kept)?;
        let path = folder.path().join(format!("recording.{ending}"));
        tokio::fs::write(&path, &recording.bytes).await.map_err(kept)?;
        let order = self.order(&path)?;
        let limits = AskLimits { time: self.limits.time, answer_max: TEXT_BYTES_MAX };
        let begun = Instant::now();
        match self.worker.ask_foreign(&DUTY, &[&order], limits).await? {
            ProgramEnd::Ended(WorkerEnd::Answered(told)) => self.text(&told),
            ProgramEnd::Ended(WorkerEnd::Late | WorkerEnd::OutOfTime) => Err(self.late()),
            // The system may kill a process that has used up its processor time in the same way as one that uses too
            // much memory.
            ProgramEnd::Ended(WorkerEnd::Broken) if begun.elapsed() >= self.limits.time => Err(self.late()),
            ProgramEnd::Ended(WorkerEnd::Broken) => Err(self.too_much()),
            ProgramEnd::Failed(code) => Err(self.failed(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_recording_is_refused_when_the_queue_is_full() {
        // Any startable program: none is started.
        let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let program = TranscriptionProgram::Other { command: vec![program, FILE.to_owned()] };
        let settings = TranscriptionSettings { program, read: Vec::new(), threads: 1, at_once: 1 };
        let worker = Worker { program: "/nowhere".into(), arguments: Vec::new() };
        let model = ProgramTranscription::open(worker, settings, Limits::default()).unwrap();
        let model = ProgramTranscription { slots: FairSlots::with_waiting_max(1, 2), ..model };
        let (loud, quiet) = (TenantId::new("loud"), TenantId::new("quiet"));
        let _first = model.slots.acquire(&loud).await.unwrap();
        let bytes = Bytes::from_static(b"speech");
        let recording = Recording { name: "call".into(), media_type: "audio/wav".into(), bytes };
        let mut second = model.transcribe(&loud, &recording);
        assert!((&mut second).now_or_never().is_none());
        let refused = model.transcribe(&loud, &recording).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::RateLimited, "{}", refused.full());
        assert!(model.transcribe(&quiet, &recording).now_or_never().is_none(), "another tenant may wait");
    }

    #[test]
    fn lines_with_times_become_a_text() {
        let told = "\n[00:00:00.000 --> 00:00:02.500]   Good morning.\n[00:00:02.500 --> 00:00:04.000]   The pump is\n\
                    [00:00:04.000 --> 00:00:06.000]   broken.\n[00:00:06.000 --> 00:00:08.000]   [BLANK_AUDIO]\n";
        assert_eq!(without_times(told), "Good morning. The pump is broken.");
        let tight = "[00:00.000 --> 00:01.000] 早上好\n[00:01.000 --> 00:02.000] 泵坏了\n";
        assert_eq!(without_times(tight), "早上好泵坏了");
        assert_eq!(without_times("[laughs] Yes.\n"), "[laughs] Yes.");
        assert_eq!(without_times("[00:00:00.000 --> 00:00:02.000]  [BLANK_AUDIO]\n"), "");
    }

    #[test]
    fn recordings_are_passed_with_their_extension() {
        let check = |name: &str, media_type: &str, expected: &str| {
            let (name, media_type) = (name.to_owned(), media_type.to_owned());
            let recording = Recording { name, media_type, bytes: Bytes::new() };
            assert_eq!(ending(&recording), expected);
        };
        check("call", "audio/mpeg", "mp3");
        check("call.ogg", "audio/x-wav", "wav");
        check("call", "audio/webm;codecs=opus", "webm");
        check("call.AMR", "audio/amr", "amr");
        check("call.../../x", "application/octet-stream", "audio");
        check("call", "", "audio");
    }
}
