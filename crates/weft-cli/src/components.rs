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

The building blocks of canvases. `weft components --markdown` prints this page, `weft components NAME` shows one component,
`GET /api/v1/components` returns all of this as JSON, and `weft check` reports mistakes in a canvas.

Outputs that depend on a node's own parameters (fields of a form, variables of a Loop, results of an Iteration, groups of a
VariableAggregator, return values of a program) are not listed. A parameter that is a template may contain references such
as `{Agent:A@content}` and `{sys.query}`.

Every node also accepts these parameters. If it fails, its output `_ERROR` gives the reason.
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
