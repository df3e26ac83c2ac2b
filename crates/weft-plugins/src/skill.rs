//! Skills: folders with instructions for a kind of work (agentskills.io), as one tool each. The model sees what a skill
//! is for, reads its instructions when it needs them, and its files and scripts when the instructions name them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, json};
use weft_core::seam::sandbox::{Language, Limits, Program};
use weft_core::tool::{Invocation, Origin, Tool, ToolBody, ToolOutput, ToolStream, ToolTraits, once};
use weft_core::{Error, ErrorKind, Json, NodeContext, Result};

use crate::bounded::read_at_most;
use crate::openapi::Plugin;

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// Maximum number of bytes in a file of a skill.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of files in a skill; the rest is not offered.
const FILES_MAX: usize = 200;
/// Maximum depth of folders below a skill's own.
const DEPTH_MAX: usize = 4;
/// Maximum number of letters that the format allows for a name, and for a description.
const NAME_MAX: usize = 64;
const DESCRIPTION_MAX: usize = 1_024;
/// Limits for one run of a script, as far as the sandbox allows as much.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    memory_bytes: 256 << 20,
    output_bytes: 8 << 20,
    printed_bytes: 256 << 10,
};

/// The front matter between the `---` lines at the start of `SKILL.md`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FrontMatter {
    name: String,
    description: String,
    #[serde(default)]
    #[expect(dead_code, reason = "part of the format")]
    license: Option<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "part of the format")]
    compatibility: Option<String>,
    /// The tools that a skill says it needs. An agent only has the tools of its canvas, and a skill adds none.
    #[serde(default)]
    #[expect(dead_code, reason = "part of the format, and never a right")]
    allowed_tools: Option<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "part of the format")]
    metadata: Option<BTreeMap<String, Json>>,
}

/// Reads the skill in a folder.
///
/// # Errors
/// `Invalid` for a `SKILL.md` that is not valid, `Unavailable` when a file cannot be read.
pub(crate) fn read(folder: &Path, name: &str) -> Result<Plugin> {
    let root = folder.join(name);
    let text = text(&root.join(SKILL_FILE))?;
    let (matter, instructions) = parts(&text)?;
    check(&matter, name)?;
    let mut files = Vec::new();
    collect(&root, Path::new(""), &mut files)?;
    // Sorted, so that a model is always shown the same list: providers cache prompts with the same beginning.
    files.sort_unstable();
    let skill = Skill { root, instructions: instructions.trim().to_owned(), files };
    let mut tool = Tool::new(
        name,
        format!(
            "A skill: {} Call it without arguments first, for its instructions.",
            sentence(&matter.description)
        ),
        skill.parameters(),
        Origin::Mcp(name.to_owned()),
        Arc::new(SkillBody(Arc::new(skill))),
    );
    // Files are only read, and scripts have no access to the outside.
    // Twice the time of a script, because waiting for a slot in the sandbox counts, too.
    tool.traits = ToolTraits { idempotent: true, time_limit: 2 * LIMITS.time, ..ToolTraits::default() };
    Ok(Plugin::with_tools(name, &matter.description, vec![Arc::new(tool)]))
}

fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.ends_with(['.', '!', '?', '。']) { text } else { format!("{text}.") }
}

/// Splits the front matter from the instructions.
fn parts(text: &str) -> Result<(FrontMatter, &str)> {
    let missing = || {
        Error::invalid("its front matter is missing")
            .help("start with a line `---`, the lines `name: …` and `description: …`, and a line `---`")
    };
    // Some editors begin files with a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    let rest = text.strip_prefix("---").ok_or_else(missing)?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).ok_or_else(missing)?;
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let matter = serde_saphyr::from_str(&rest[..end]).map_err(|cause| {
                Error::invalid(format!("the front matter of the skill is not valid: {cause}"))
            })?;
            return Ok((matter, &rest[end + line.len()..]));
        }
        end += line.len();
    }
    Err(missing())
}

fn check(matter: &FrontMatter, folder: &str) -> Result<()> {
    let name = &matter.name;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let shaped = !name.starts_with('-') && !name.ends_with('-') && !name.contains("--");
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) || !shaped {
        return Err(Error::invalid(format!("`{name}` is not a valid skill name"))
            .help(format!("use 1 to {NAME_MAX} lowercase letters, digits and single hyphens between them")));
    }
    // Required by the format, and canvases name a skill by its folder.
    if name != folder {
        return Err(Error::invalid(format!("the skill is called `{name}`, but its folder `{folder}`"))
            .help("give both the same name"));
    }
    let letters = matter.description.trim().chars().count();
    if letters == 0 || letters > DESCRIPTION_MAX {
        let message = format!("the description has {letters} letters; 1 to {DESCRIPTION_MAX} are allowed");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Collects the files below a folder by their paths relative to the skill's folder, with `/`. Links are not followed: a
/// skill consists of what is in its folder.
fn collect(root: &Path, below: &Path, files: &mut Vec<String>) -> Result<()> {
    if below.components().count() > DEPTH_MAX {
        return Ok(());
    }
    let folder = root.join(below);
    let failed = |cause| {
        Error::new(ErrorKind::Unavailable, format!("cannot read the folder {}", folder.display()))
            .because(cause)
    };
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        // Left behind by editors and version control.
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = below.join(name);
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if kind.is_file() && path != Path::new(SKILL_FILE) && files.len() < FILES_MAX {
            files.push(
                path.components()
                    .map(|part| part.as_os_str().to_string_lossy())
                    .collect::<Vec<_>>()
                    .join("/"),
            );
        }
    }
    Ok(())
}

/// Reads the text of a file that is not too large.
fn text(path: &Path) -> Result<String> {
    let failed =
        |cause| Error::new(ErrorKind::Unavailable, format!("cannot read {}", path.display())).because(cause);
    let too_large = || Error::invalid(format!("it has more than {FILE_BYTES_MAX} bytes"));
    let bytes = read_at_most(path, FILE_BYTES_MAX).map_err(failed)?.ok_or_else(too_large)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid("it is not text").help("a skill's files are read as UTF-8"))
}

struct Skill {
    root: PathBuf,
    instructions: String,
    files: Vec<String>,
}

impl Skill {
    fn scripts(&self) -> impl Iterator<Item = &String> {
        self.files.iter().filter(|file| language(file).is_some())
    }

    fn parameters(&self) -> Json {
        let mut properties = Map::new();
        if !self.files.is_empty() {
            let about = "the text of this file of the skill instead of its instructions";
            properties.insert(
                "file".to_owned(),
                json!({"type": "string", "description": about, "enum": self.files}),
            );
        }
        let scripts: Vec<&String> = self.scripts().collect();
        if !scripts.is_empty() {
            let about = "runs this script of the skill in the sandbox, without files and network, and gives what it returns";
            properties.insert(
                "script".to_owned(),
                json!({"type": "string", "description": about, "enum": scripts}),
            );
            let about = "what the script's function `main` is called with, by name";
            properties.insert("arguments".to_owned(), json!({"type": "object", "description": about}));
        }
        json!({"type": "object", "properties": properties})
    }

    /// Returns the path of a file that the skill had when it was read. Nothing else is accepted.
    fn path(&self, file: &str) -> Result<PathBuf> {
        // By comparison, and never by joining what a model wrote, so that nothing outside of the folder can be reached.
        let known = self.files.iter().find(|known| *known == file);
        let known = known.ok_or_else(|| Error::not_found(format!("the skill has no file `{file}`")))?;
        Ok(self.root.join(known))
    }

    async fn file(&self, file: &str) -> Result<String> {
        let path = self.path(file)?;
        let name = file.to_owned();
        // Read on demand: a skill may be large, and a model seldom reads all of it.
        let read = tokio::task::spawn_blocking(move || text(&path)).await;
        let read = read.map_err(|cause| Error::internal("the file could not be read").because(cause))?;
        // The model is shown the file's own name, not a path on this machine.
        read.map_err(|error| Error::new(error.kind, format!("the skill's file `{name}` cannot be read")))
    }

    async fn call(&self, ctx: &NodeContext, arguments: &Map<String, Json>) -> Result<ToolOutput> {
        // Some models write an empty text for an argument that they do not use.
        let text = |name: &str| arguments.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        if let Some(script) = text("script") {
            let given = arguments.get("arguments").and_then(Json::as_object).cloned().unwrap_or_default();
            return self.run(ctx, script, given).await;
        }
        if let Some(file) = text("file") {
            return self.file(file).await.map(ToolOutput::text);
        }
        let mut told = self.instructions.clone();
        if !self.files.is_empty() {
            told.push_str("\n\nFiles of the skill, read with `file`");
            if self.scripts().next().is_some() {
                told.push_str(" and, if they are scripts, run with `script`");
            }
            told.push_str(": ");
            told.push_str(&self.files.join(", "));
        }
        Ok(ToolOutput::text(told))
    }

    async fn run(&self, ctx: &NodeContext, script: &str, arguments: Map<String, Json>) -> Result<ToolOutput> {
        let source = self.file(script).await?;
        let language = language(script)
            .ok_or_else(|| Error::invalid(format!("`{script}` is no script in Python or JavaScript")))?;
        let sandbox = &ctx.run.seams.sandbox;
        let (limits, told) = (LIMITS.within(sandbox.limits()), LIMITS.told_within(sandbox.limits()));
        let ran = sandbox.run(&ctx.run.tenant, Program { language, source, arguments, limits }).await?;
        let result = ran.result.map_err(|failure| failure.error(told))?;
        let mut told = json!({"result": result});
        for (name, printed) in [("stdout", ran.stdout), ("stderr", ran.stderr)] {
            if !printed.is_empty() {
                told[name] = printed.into();
            }
        }
        Ok(ToolOutput::value(told))
    }
}

fn language(file: &str) -> Option<Language> {
    let (_, ending) = file.rsplit_once('.')?;
    matches!(ending, "py" | "js").then(|| Language::named(ending)).flatten()
}

struct SkillBody(Arc<Skill>);

impl ToolBody for SkillBody {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let skill = Arc::clone(&self.0);
        once(async move { skill.call(&invocation.agent, &invocation.arguments).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_front_matter_is_read() {
        let (matter, rest) =
            parts("---\nname: a-b\ndescription: |\n  Does it.\n  And more.\nmetadata:\n  version: 1\n---\nFirst.\n---\n").unwrap();
        assert_eq!(
            (matter.name.as_str(), matter.description.trim(), rest),
            ("a-b", "Does it.\nAnd more.", "First.\n---\n")
        );
        let (matter, rest) = parts("\u{feff}---\r\nname: a\r\ndescription: \"x: y\"\r\n---\r\n").unwrap();
        assert_eq!((matter.description.as_str(), rest), ("x: y", ""));
        let check = |text: &str, words: &str| {
            let error = parts(text).map(|_| ()).unwrap_err().full();
            assert!(error.contains(words), "{error}");
        };
        check("# Title", "front matter is missing");
        check("---\nname: a\n", "front matter is missing");
        check("---\nname: a\n---\n", "description");
        check("---\nname: a\ndescription: b\nallowed_tools: c\n---\n", "allowed_tools");
        check("---\nname: [\n---\n", "not valid");
    }

    #[test]
    fn names_and_descriptions_follow_the_format() {
        let checked = |name: &str, description: &str, folder: &str| {
            let text = format!("---\nname: {name:?}\ndescription: {description:?}\n---\n");
            check(&parts(&text).unwrap().0, folder).map_err(|error| error.full())
        };
        assert_eq!(checked("a-1", "x", "a-1"), Ok(()));
        for name in ["", "A", "a_b", "-a", "a-", "a--b", "ä", &"a".repeat(65)] {
            assert!(checked(name, "x", name).unwrap_err().contains("not a valid skill name"), "{name}");
        }
        assert!(checked("a", "x", "b").unwrap_err().contains("its folder `b`"));
        for description in [" ", &"x".repeat(1_025)] {
            assert!(checked("a", description, "a").unwrap_err().contains("letters"), "{description}");
        }
    }
}
