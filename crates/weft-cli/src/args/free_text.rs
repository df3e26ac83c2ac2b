//! Texts on the command line that people write freely.

/// Reads a text that may begin with a hyphen, such as `-5 + 3`. For a flag that takes one, the command line has
/// `allow_hyphen_values`: if the text was forgotten, the flag that follows would be taken for it.
///
/// # Errors
/// When the text is written like a flag.
pub(super) fn free_text(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("--").map(|rest| rest.split_once('=').map_or(rest, |(name, _)| name));
    let is_flag = name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    });
    if is_flag {
        return Err(
            "a flag follows where the text should be; if it is the text, begin it with a space".to_owned()
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Cli, Command, EvalArgs, EvalCommand, ScheduleCommand, TasksArgs, TasksCommand};

    fn read(line: &[&str]) -> Result<Command, String> {
        Cli::try_parse_from([&["weft"], line].concat())
            .map(|cli| cli.command)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn texts_may_begin_with_a_hyphen() {
        let Ok(Command::Run(run)) = read(&["run", "c.json", "--query", "-5 + 3", "--events"]) else {
            panic!()
        };
        assert_eq!((run.query.as_deref(), run.events), (Some("-5 + 3"), true));
        let Ok(Command::Run(run)) = read(&["run", "--query=-5 + 3", "c.json"]) else { panic!() };
        assert_eq!(run.query.as_deref(), Some("-5 + 3"));
        let answer = |rest: &[&str]| {
            let Ok(Command::Tasks(TasksArgs { command: Some(TasksCommand::Answer(answer)), .. })) =
                read(&[&["tasks", "answer", "id"], rest].concat())
            else {
                panic!()
            };
            answer
        };
        assert_eq!(answer(&["--deny", "--because", "-n"]).because.as_deref(), Some("-n"));
        assert_eq!(answer(&["--edit", "- one\n- two"]).edit.as_deref(), Some("- one\n- two"));
        let line = ["eval", "record", "c.json", "--query", "-1", "--query", "-- two?", "-o", "f", "--force"];
        let Ok(Command::Eval(EvalArgs { command: Some(EvalCommand::Record(record)), .. })) = read(&line)
        else {
            panic!()
        };
        assert_eq!((&*record.queries, record.force), (&["-1".to_owned(), "-- two?".to_owned()][..], true));
        let line = ["schedule", "add", "c", "--every", "1h", "--query", "-1"];
        let Ok(Command::Schedule { command: ScheduleCommand::Add(add), .. }) = read(&line) else { panic!() };
        assert_eq!(add.query.as_deref(), Some("-1"));
    }

    #[test]
    fn a_flag_is_not_taken_for_a_forgotten_text() {
        let refused = |line: &[&str], flag: &str| {
            let error = read(line).unwrap_err();
            assert!(error.contains("where the text should be") && error.contains(flag), "{error}");
        };
        refused(&["run", "c.json", "--query", "--events"], "'--query <TEXT>'");
        refused(&["run", "c.json", "--query", "--model=m"], "'--query <TEXT>'");
        refused(&["tasks", "answer", "id", "--deny", "--because", "--events"], "'--because <WHY>'");
        refused(&["tasks", "answer", "id", "--edit", "--events"], "'--edit <JSON|TEXT>'");
        refused(&["eval", "record", "c.json", "-o", "f", "--query", "--force"], "'--query <TEXT>'");
    }
}
