//! `weft components`: the components of which canvases are built.

use serde_json::Value as Json;
use weft_app::{components, example};
use weft_core::ComponentSpec;
use weft_core::component_reference::{common_in_markdown, described, in_markdown};
use weft_server::openapi::{document, page};
use weft_server::router::documented;

use crate::args::{ComponentsArgs, SchemaArgs, SchemaOf};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::Data;

/// Beginning of the reference page.
const PAGE: &str = "\
# Components

What a canvas can be made of. This page is what `weft components --markdown` prints; `weft components NAME` shows one of
them, `GET /api/v1/components` has all of this as JSON, and `weft check` names what a canvas gets wrong of it.

Outputs that follow from a node's own parameters (fields of a form, variables of a Loop, what an Iteration collects, groups
of a VariableAggregator, what a program returns) are not listed. Where a parameter is a template, it may hold references
such as `{Agent:A@content}` and `{sys.query}`.

Every node may also have these parameters. When it has failed, its output `_ERROR` says why.
";

/// Prints the component types.
///
/// # Errors
/// When an unknown one is requested, or standard output is closed.
pub(crate) fn run(args: &ComponentsArgs) -> Outcome {
    let wanted = wanted(&args.names)?;
    let mut data = Data::stdout();
    if args.json {
        let all: Json = wanted.iter().map(|spec| described(spec, example(spec.kind))).collect();
        data.line(&format!("{all:#}"))?;
    } else if args.markdown {
        let sections: Vec<String> = wanted.iter().map(|spec| in_markdown(spec, example(spec.kind))).collect();
        data.text(&format!("{PAGE}{}\n{}", common_in_markdown(), sections.join("\n")))?;
    } else if args.names.is_empty() {
        for spec in &wanted {
            data.line(&format!("{:20} {}", spec.kind, spec.summary))?;
        }
    } else {
        for spec in &wanted {
            data.text(&in_markdown(spec, example(spec.kind)))?;
        }
    }
    data.flush()?;
    Ok(Exit::Done)
}

/// Prints the JSON Schema of canvases, or the OpenAPI document.
///
/// # Errors
/// When there is no page for it, or standard output is closed.
pub(crate) fn schema(args: &SchemaArgs) -> Outcome {
    let routes = documented();
    let text = match (args.of, args.markdown) {
        (SchemaOf::Canvas, true) => {
            return Err(Failure::usage("there is no Markdown page for canvases")
                .help("`weft components --markdown` prints the page of components"));
        }
        (SchemaOf::Canvas, false) => {
            let all: Vec<&'static ComponentSpec> = components().collect();
            format!("{:#}\n", weft_dsl::canvas_schema(&all))
        }
        (SchemaOf::Api, true) => page::markdown(&routes),
        (SchemaOf::Api, false) => format!("{:#}\n", document(&routes)),
    };
    let mut data = Data::stdout();
    data.text(&text)?;
    data.flush()?;
    Ok(Exit::Done)
}

fn wanted(names: &[String]) -> Outcome<Vec<&'static ComponentSpec>> {
    if names.is_empty() {
        return Ok(components().collect());
    }
    let find = |name: &String| {
        // Canvases may use its older name.
        let name = weft_dsl::todays_kind(name).unwrap_or(name);
        components().find(|spec| spec.kind.eq_ignore_ascii_case(name)).ok_or_else(|| {
            Failure::usage(format!("there is no component `{name}`")).help("`weft components` lists them all")
        })
    };
    names.iter().map(find).collect()
}
