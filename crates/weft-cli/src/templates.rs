//! `weft templates` and `weft new`: creating canvases from templates.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use weft_app::templates::{TEMPLATES, Template, template};

use crate::args::{NewArgs, TemplatesArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes};
use crate::words::quoted;

/// Names of the parameters that refer to datasets.
const DATASETS: [&str; 2] = ["dataset_ids", "kb_ids"];

/// Lists the templates.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn list(args: &TemplatesArgs) -> Outcome {
    let mut data = Data::stdout();
    for Template { id, title, description, canvas_type, question, documents, .. } in TEMPLATES {
        let line = if args.json {
            json!({
                "id": id, "title": title, "description": description, "canvas_type": canvas_type,
                "question": question, "documents": documents.len(),
            })
            .to_string()
        } else {
            format!("{id:<26} {title}: {description}")
        };
        data.line(&line)?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

/// Creates a folder with the canvas of a template and its documents.
///
/// # Errors
/// When there is no such template, or the folder exists already.
pub(crate) fn new(args: &NewArgs) -> Outcome {
    let Some(found) = template(&args.template) else {
        let message = format!("there is no template `{}`", args.template);
        return Err(Failure::usage(message).help("`weft templates` lists them"));
    };
    let name = args.folder.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Failure::usage("the folder needs a name in valid UTF-8").help("name one that does not exist yet")
    })?;
    let failed = |path: &Path, error: std::io::Error| {
        Failure::usage(format!("cannot create {}: {error}", quoted(&path.to_string_lossy())))
            .help("name a folder that does not exist yet")
    };
    if let Some(parent) = args.folder.parent() {
        std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
    }
    // Before the folder is created, which would block the next attempt.
    let drawn = drawing(found, name)?;
    // The folder must not exist yet, so that nothing is overwritten.
    std::fs::create_dir(&args.folder).map_err(|error| failed(&args.folder, error))?;
    let canvas = args.folder.join("canvas.json");
    if let Err((path, error)) = fill(&args.folder, &drawn, found) {
        // Everything in it was written here, and an incomplete folder would block the next attempt.
        if let Err(cause) = std::fs::remove_dir_all(&args.folder) {
            Notes::line(format!("note: cannot remove {}: {cause}", quoted(&args.folder.to_string_lossy())));
        }
        let message = format!("cannot write {}: {error}", quoted(&path.to_string_lossy()));
        return Err(Failure::failed(message));
    }
    let file = quoted(&canvas.to_string_lossy());
    let mut data = Data::stdout();
    data.line(&canvas.to_string_lossy())?;
    data.flush()?;
    Notes::line(match found.question {
        "" => format!("try it: weft run {file} --file FILE"),
        question => format!("try it: weft run {file} --query {}", quoted(question)),
    });
    Ok(Exit::Done)
}

/// Writes the files of a template; on failure returns the path and the error.
fn fill(folder: &Path, canvas: &str, template: &Template) -> Result<(), (PathBuf, std::io::Error)> {
    let write = |path: PathBuf, bytes: &[u8]| std::fs::write(&path, bytes).map_err(|error| (path, error));
    write(folder.join("canvas.json"), canvas.as_bytes())?;
    if template.documents.is_empty() {
        return Ok(());
    }
    let documents = folder.join("documents");
    std::fs::create_dir(&documents).map_err(|error| (documents.clone(), error))?;
    template.documents.iter().try_for_each(|(name, bytes)| write(documents.join(name), bytes))
}

/// Returns the canvas of a template, with the dataset renamed: documents next to a canvas form a dataset with the
/// name of the folder.
fn drawing(template: &Template, folder: &str) -> Outcome<String> {
    let damaged = |error| Failure::failed(format!("the template `{}` is damaged: {error}", template.id));
    // Without documents there is no dataset to rename.
    if template.documents.is_empty() || folder == template.id {
        return Ok(template.dsl.to_owned());
    }
    let mut dsl = serde_json::from_str(template.dsl).map_err(damaged)?;
    rename(&mut dsl, template.id, folder);
    serde_json::to_string_pretty(&dsl).map_err(damaged)
}

/// Replaces the name of a dataset in parameters.
fn rename(value: &mut Json, from: &str, to: &str) {
    match value {
        Json::Object(members) => {
            for (key, value) in members {
                match value {
                    Json::Array(names) if DATASETS.contains(&key.as_str()) => {
                        names.iter_mut().filter(|name| **name == from).for_each(|name| *name = json!(to));
                    }
                    value => rename(value, from, to),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, from, to)),
        _ => {}
    }
}
