//! `weft settings`: all settings with their defaults, as a file to copy from or as a page.

use std::fmt::Write as _;

use weft_app::config::DEFAULTS;

use crate::args::SettingsArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::Data;
use crate::settings::{self, Environment, Flags};

const PAGE: &str = "\
# Settings

Generated from the file that `weft settings` prints; `weft settings --markdown` prints this page. A setting is read from
`~/.config/weft/weft.toml`, from `weft.toml` in a trusted folder (`weft trust`), or from the environment variable in the
table, which overrides the files.
";

/// Prints the settings.
///
/// # Errors
/// When standard output is closed, or the file that `--config` names does not exist or is not valid.
pub(crate) fn run(args: &SettingsArgs, environment: &Environment, flags: &Flags) -> Outcome {
    // The output does not depend on a file, but a named one is expected to exist and to be valid.
    if let Some(path) = &flags.config {
        if !path.is_file() {
            return Err(Failure::usage(format!("there is no file {}, which --config names", path.display()))
                .help("name an existing settings file, or omit --config: it has no effect here"));
        }
        settings::read(environment, flags)?;
    }
    let mut data = Data::stdout();
    if args.markdown {
        data.text(&format!("{PAGE}{}", sections(DEFAULTS)))?;
    } else {
        data.text(DEFAULTS)?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

/// Renders the file as a page: the comment before a setting is its description.
fn sections(file: &str) -> String {
    let mut page = PageWriter::default();
    // The first paragraph is about the file itself.
    let (_, settings) = file.split_once("\n\n").unwrap_or_default();
    for line in settings.lines() {
        if let Some(comment) = line.strip_prefix('#') {
            page.comment(comment.strip_prefix(' ').unwrap_or(comment));
        } else if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            page.section(section);
        } else if let Some((name, value)) = line.split_once(" = ") {
            let words = std::mem::take(&mut page.pending).join(" ");
            page.row(name, value, &words);
        } else {
            page.paragraph();
        }
    }
    page.paragraph();
    page.text
}

#[derive(Default)]
struct PageWriter<'a> {
    text: String,
    section: &'a str,
    /// Lines of a comment that describes what follows.
    pending: Vec<&'a str>,
    in_table: bool,
    /// Whether an example has started, which extends to the end of the comment.
    in_example: bool,
}

impl<'a> PageWriter<'a> {
    fn comment(&mut self, line: &'a str) {
        if self.in_example {
            self.pending.push(line);
        } else if line.starts_with('[') {
            self.words();
            self.in_example = true;
            self.pending.push(line);
        } else if let Some((name, value)) = line.split_once(" = ").filter(|(name, _)| is_name(name)) {
            self.words();
            // A setting without a default: the value is an example.
            let (value, words) = value.split_once("  # ").unwrap_or((value, ""));
            let words = format!("{}; such as `{}`", words.trim(), value.trim());
            self.row(name, "", words.trim_start_matches("; "));
        } else {
            self.pending.push(line);
        }
    }

    fn section(&mut self, name: &'a str) {
        let words = std::mem::take(&mut self.pending);
        self.in_table = false;
        self.section = name;
        // Writing into a String cannot fail.
        let _ = writeln!(self.text, "\n## {name}");
        self.pending = words;
        self.words();
    }

    /// Writes a text that belongs to no single setting.
    fn words(&mut self) {
        let words = std::mem::take(&mut self.pending);
        let words: Vec<&str> = words.into_iter().filter(|line| !line.is_empty()).collect();
        if !words.is_empty() {
            self.in_table = false;
            let _ = writeln!(self.text, "\n{}", words.join("\n"));
        }
    }

    /// Processes the end of a comment that no setting follows.
    fn paragraph(&mut self) {
        if std::mem::take(&mut self.in_example) {
            self.in_table = false;
            let example = std::mem::take(&mut self.pending).join("\n");
            let _ = writeln!(self.text, "\n```toml\n{example}\n```");
        } else {
            self.words();
        }
    }

    fn row(&mut self, name: &str, value: &str, words: &str) {
        if !self.in_table {
            self.text.push_str("\n| setting | default | environment | |\n|---|---|---|---|\n");
            self.in_table = true;
        }
        let path = match self.section {
            "" => name.to_owned(),
            section => format!("{section}.{name}"),
        };
        let variable = path.to_uppercase().replace('.', "__");
        let (value, words) = (value.trim().replace('|', "\\|"), words.replace('|', "\\|"));
        let value = if value.is_empty() { value } else { format!("`{value}`") };
        let _ = writeln!(self.text, "| `{name}` | {value} | `WEFT_{variable}` | {words} |");
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_listed_with_description_default_and_variable() {
        let file = "# About the file.\n\n# Where it listens.\nlisten = \"a\"\n\n[limits]\n# How many\n# at once.\nruns = 4\n\n\
            # What is used.\n[limits.budget]\n# money = 2.5     # in euros\ncalls = 2\n\n[mcp]\n# Servers.\n#\n# [mcp.a]\n# b = 1\n";
        let page = sections(file);
        for part in [
            "| `listen` | `\"a\"` | `WEFT_LISTEN` | Where it listens. |",
            "## limits\n\n| setting",
            "| `runs` | `4` | `WEFT_LIMITS__RUNS` | How many at once. |",
            "## limits.budget\n\nWhat is used.\n",
            "| `money` |  | `WEFT_LIMITS__BUDGET__MONEY` | in euros; such as `2.5` |",
            "## mcp\n\nServers.\n\n```toml\n[mcp.a]\nb = 1\n```",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("About the file"));
    }
}
