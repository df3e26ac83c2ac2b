//! Reads pictures with Tesseract. Each picture gets a process of its own that can read Tesseract's data and the picture
//! and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};
use weft_child::{AskLimits, Bounds, Confinement, Duty, Worker, WorkerEnd, become_bounded_program};
use weft_core::fair::FairSlots;
use weft_core::seam::PictureReader;
use weft_core::seam::picture_reader::{PIXELS_MAX, Picture, PictureLine, PicturePlace, TEXT_CHARS_MAX};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::reader::{Limits, ReaderJob, ReaderOrder};
use crate::words::is_unspaced;

const DUTY: Duty = Duty { thing: "a picture", does: "reads pictures", section: "documents" };
/// Paths where the program is looked for.
const PROGRAMS: [&str; 4] =
    ["/usr/bin/tesseract", "/usr/local/bin/tesseract", "/bin/tesseract", "/opt/homebrew/bin/tesseract"];
/// Folders where its language data is looked for.
const DATA: [&str; 6] = [
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/share/tesseract/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
];
/// What programs of a system need to load, in addition to their data.
pub(crate) const LIBRARIES: [&str; 7] =
    ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/opt/homebrew", "/etc/ld.so.cache"];
/// Maximum size of the output for one picture, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of pictures waiting for a slot: each is in memory.
const WAITING_MAX: usize = 256;
/// Minimum confidence, out of 100: a word below it is most often part of a drawing.
const SURE_MIN: f32 = 30.0;

/// The program that a worker turns into, with its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recognition {
    program: PathBuf,
    data: PathBuf,
    languages: String,
    picture: PathBuf,
}

impl Recognition {
    /// Drops the privileges that are not needed, and turns this process into the program.
    pub(crate) fn begin(self, bounds: &Bounds) -> ExitCode {
        let mut command = Command::new(&self.program);
        command.arg(&self.picture).arg("stdout").arg("--tessdata-dir").arg(&self.data);
        command.args([
            "-l",
            &self.languages,
            "--psm",
            segmentation(&self.data),
            "-c",
            "tessedit_create_tsv=1",
        ]);
        // One thread per process, because several pictures are read concurrently.
        command.env_clear().env("OMP_THREAD_LIMIT", "1");
        let mut read: Vec<PathBuf> = LIBRARIES.map(PathBuf::from).into();
        read.extend([self.program, self.data, self.picture]);
        become_bounded_program(&read, bounds, &mut command)
    }
}

/// The data with which Tesseract detects the orientation of a page.
const ORIENTATION: &str = "osd.traineddata";

/// Page segmentation mode: with orientation detection where its data is installed, otherwise the page as it stands.
fn segmentation(data: &Path) -> &'static str {
    if data.join(ORIENTATION).is_file() { "1" } else { "3" }
}

/// Reads pictures with the Tesseract program of this system.
#[derive(Debug)]
pub struct Tesseract {
    worker: Worker,
    program: PathBuf,
    data: PathBuf,
    languages: String,
    limits: Limits,
    slots: FairSlots,
    confinement: Confinement,
}

impl Tesseract {
    /// Uses the program of this system with its data for `languages` (`eng`, `deu`, `chi_sim` …). Up to `at_once`
    /// pictures are read concurrently, each within `limits`. The worker program must call [`crate::work`].
    ///
    /// # Errors
    /// `Invalid` if the program or the data for a language is not installed.
    pub fn open(worker: Worker, languages: &[String], limits: Limits, at_once: usize) -> Result<Self> {
        let program =
            PROGRAMS.into_iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| {
                Error::invalid("`documents.ocr` is `tesseract`, and this program is not installed")
                    .help("install it (Debian: tesseract-ocr), or name a model, or set it to \"none\"")
            })?;
        let data = DATA.into_iter().map(PathBuf::from).find(|path| path.is_dir()).ok_or_else(|| {
            Error::invalid("the data of tesseract was not found")
                .help(format!("install it into one of {}", DATA.join(", ")))
        })?;
        for language in languages {
            check(language, &data)?;
        }
        if languages.is_empty() {
            return Err(
                Error::invalid("`documents.ocr_languages` is empty").help("name one, such as \"eng\"")
            );
        }
        let languages = languages.join("+");
        let slots = FairSlots::with_waiting_max(at_once, WAITING_MAX);
        let confinement = Confinement::default();
        Ok(Self { worker, program, data, languages, limits, slots, confinement })
    }

    /// Sets what happens to pictures when their worker cannot be confined.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Whether the program is installed on this system.
    pub fn is_installed() -> bool {
        PROGRAMS.into_iter().any(|path| Path::new(path).is_file())
    }

    fn too_much(&self) -> Error {
        let most = self.limits.memory_bytes >> 20;
        Error::invalid(format!(
            "the picture takes more than {most} MiB of memory, or crashes the program that reads it"
        ))
        .help("make it smaller, or raise `documents.memory_bytes`")
    }

    fn late(&self) -> Error {
        let limit = weft_core::value::plural(self.limits.time.as_secs_f64(), "second");
        Error::new(ErrorKind::Timeout, format!("reading the picture took longer than {limit}"))
            .help("make it smaller, or raise `documents.ocr_seconds`")
    }
}

fn check(language: &str, data: &Path) -> Result<()> {
    // The name becomes a part of a path and of an argument.
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if language.is_empty() || !language.chars().all(is_name) {
        let message = format!("`documents.ocr_languages` has `{language}`");
        return Err(Error::invalid(message).help("use names such as eng, deu, chi_sim"));
    }
    if !data.join(format!("{language}.traineddata")).is_file() {
        return Err(Error::invalid(format!("tesseract has no data for `{language}` in {}", data.display()))
            .help(format!("install it (Debian: tesseract-ocr-{})", language.replace('_', "-"))));
    }
    Ok(())
}

#[async_trait]
impl PictureReader for Tesseract {
    fn name(&self) -> &str {
        "tesseract"
    }

    async fn read(&self, tenant: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>> {
        if u64::from(picture.width) * u64::from(picture.height) > PIXELS_MAX {
            return Err(Error::invalid(crate::pictures::too_many_pixels(picture.width, picture.height, "")));
        }
        let _slot = self.slots.acquire_for(tenant, "the picture").await?;
        let kept = |cause: std::io::Error| {
            Error::new(ErrorKind::Unavailable, "cannot store a picture for the program that reads it")
                .because(cause)
        };
        // The folder is removed when this is dropped, on every path.
        let folder = tempfile::Builder::new().prefix("weft-picture-").tempdir().map_err(kept)?;
        let path = folder.path().join("picture");
        tokio::fs::write(&path, &picture.bytes).await.map_err(kept)?;
        let (program, data) = (self.program.clone(), self.data.clone());
        let job = ReaderJob::Recognize(Recognition {
            program,
            data,
            languages: self.languages.clone(),
            picture: path,
        });
        let order = ReaderOrder::new(job, self.limits, 0).with_confinement(self.confinement);
        let mut order = serde_json::to_vec(&order).map_err(|cause| {
            Error::internal("cannot encode the request to the worker process").because(cause)
        })?;
        order.push(b'\n');
        let limits = AskLimits { time: self.limits.time, answer_max: ANSWER_BYTES_MAX };
        match self.worker.ask_program(&DUTY, &[&order], limits).await? {
            Some(WorkerEnd::Answered(told)) => Ok(lines(&String::from_utf8_lossy(&told))),
            Some(WorkerEnd::Late | WorkerEnd::OutOfTime) => Err(self.late()),
            Some(WorkerEnd::Broken) => Err(self.too_much()),
            None => Err(Error::invalid("the picture is damaged, or of a type that tesseract does not read")
                .help("save it as PNG or JPEG")),
        }
    }
}

/// A line whose words are still being collected.
#[derive(Default)]
struct OpenLine {
    text: String,
    /// Left, right, top and bottom, in pixels.
    place: [f32; 4],
    paragraph: (u32, u32, u32),
}

/// Parses Tesseract's output: rows of page, block, paragraph, line, word, position, confidence and text.
fn lines(told: &str) -> Vec<PictureLine> {
    // Sorted by page, block, paragraph and line, which is the order of reading.
    let mut open: BTreeMap<[u32; 4], OpenLine> = BTreeMap::new();
    let mut sizes: BTreeMap<u32, (f32, f32)> = BTreeMap::new();
    let mut characters = 0;
    for row in told.lines() {
        // The text is the last column, and may contain tabs.
        let cells: Vec<&str> = row.splitn(12, '\t').collect();
        let [level, page, block, paragraph, line, _, left, top, width, height, sure, text] = cells[..] else {
            continue;
        };
        let number = |cell: &str| cell.parse::<u32>().unwrap_or_default();
        let real = |cell: &str| cell.parse::<f32>().unwrap_or_default();
        let (left, top, width, height) = (real(left), real(top), real(width), real(height));
        match level {
            "1" => {
                sizes.insert(number(page), (width.max(1.0), height.max(1.0)));
            }
            "5" if real(sure) >= SURE_MIN && !text.trim().is_empty() => {
                characters += text.chars().count();
                if characters > TEXT_CHARS_MAX {
                    break;
                }
                let key = [number(page), number(block), number(paragraph), number(line)];
                let place = [left, left + width, top, top + height];
                let paragraph = (key[0], key[1], key[2]);
                let of =
                    open.entry(key).or_insert_with(|| OpenLine { text: String::new(), place, paragraph });
                of.add(text.trim(), place);
            }
            _ => {}
        }
    }
    let mut lines: Vec<PictureLine> = Vec::new();
    let mut before = None;
    for of in open.into_values() {
        if before.replace(of.paragraph).is_some_and(|before| before != of.paragraph) {
            lines.push(PictureLine::default());
        }
        let (width, height) = sizes.get(&of.paragraph.0).copied().unwrap_or((1.0, 1.0));
        let [left, right, top, bottom] = of.place;
        let share = |part: f32, whole: f32| (part / whole).clamp(0.0, 1.0);
        let place = PicturePlace {
            left: share(left, width),
            right: share(right, width),
            top: share(top, height),
            bottom: share(bottom, height),
        };
        lines.push(PictureLine { text: of.text, place: Some(place) });
    }
    lines
}

impl OpenLine {
    fn add(&mut self, word: &str, [left, right, top, bottom]: [f32; 4]) {
        let is_tight = matches!(
            (self.text.chars().next_back(), word.chars().next()),
            (Some(last), Some(first)) if is_unspaced(last) && is_unspaced(first)
        );
        if !self.text.is_empty() && !is_tight {
            self.text.push(' ');
        }
        self.text.push_str(word);
        let [own_left, own_right, own_top, own_bottom] = &mut self.place;
        (*own_left, *own_right) = (own_left.min(left), own_right.max(right));
        (*own_top, *own_bottom) = (own_top.min(top), own_bottom.max(bottom));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn rows_become_lines_with_positions() {
        let told = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n\
            1\t1\t0\t0\t0\t0\t0\t0\t200\t100\t-1\t\n\
            5\t1\t1\t1\t1\t1\t20\t10\t40\t10\t96.1\tInvoice\n\
            5\t1\t1\t1\t1\t2\t70\t8\t30\t12\t95\t4711\n\
            5\t1\t1\t1\t2\t1\t20\t30\t40\t10\t90\t合计\n\
            5\t1\t1\t1\t2\t2\t60\t30\t40\t10\t90\t金额\n\
            5\t1\t1\t1\t2\t3\t100\t30\t40\t10\t3\t~|\n\
            5\t1\t2\t1\t1\t1\t20\t60\t40\t10\t91\tThanks\n\
            nonsense\n";
        let found = lines(told);
        let texts: Vec<&str> = found.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["Invoice 4711", "合计金额", "", "Thanks"]);
        let place = found[0].place.unwrap();
        assert_eq!((place.left, place.right, place.top, place.bottom), (0.1, 0.5, 0.08, 0.2));
    }

    #[tokio::test]
    async fn a_picture_is_refused_when_the_queue_is_full() {
        let reader = Tesseract {
            worker: Worker { program: "/nowhere".into(), arguments: Vec::new() },
            program: "/nowhere".into(),
            data: "/nowhere".into(),
            languages: "eng".to_owned(),
            limits: Limits::default(),
            slots: FairSlots::with_waiting_max(1, 2),
            confinement: Confinement::default(),
        };
        let (loud, quiet) = (TenantId::new("loud"), TenantId::new("quiet"));
        let _first = reader.slots.acquire(&loud).await.unwrap();
        let picture = Picture { media_type: "image/png".into(), bytes: "x".into(), width: 1, height: 1 };
        let mut second = reader.read(&loud, &picture);
        assert!((&mut second).now_or_never().is_none());
        let refused = reader.read(&loud, &picture).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::RateLimited, "{}", refused.full());
        assert!(reader.read(&quiet, &picture).now_or_never().is_none(), "another tenant may wait");
    }

    #[test]
    fn pages_are_rotated_if_the_program_detects_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(segmentation(folder.path()), "3");
        std::fs::write(folder.path().join(ORIENTATION), b"x").unwrap();
        assert_eq!(segmentation(folder.path()), "1");
    }

    #[test]
    fn language_names_cannot_be_paths() {
        let folder = std::path::Path::new("/no/such/folder");
        for language in ["", "../x", "eng+deu", "a b"] {
            assert!(check(language, folder).unwrap_err().full().contains("ocr_languages"), "{language}");
        }
        assert!(check("eng", folder).unwrap_err().full().contains("tesseract-ocr-eng"));
    }
}
