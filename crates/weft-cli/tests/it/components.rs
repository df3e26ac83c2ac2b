//! The component reference, generated from the declarations.

use std::path::Path;

use serde_json::Value as Json;

use crate::weft::Home;

#[expect(clippy::disallowed_methods, reason = "the command that writes the pages says so by a variable")]
#[test]
fn the_pages_match_the_output_of_the_program() {
    for (page, arguments) in [
        ("docs/components.md", &["components", "--markdown"][..]),
        ("docs/canvas.schema.json", &["schema"]),
        ("docs/api.md", &["schema", "api", "--markdown"]),
        ("docs/settings.md", &["settings", "--markdown"]),
        ("openapi.json", &["schema", "api"]),
    ] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let printed = Home::new().weft(arguments).with(0).stdout;
        // `cargo xtask generated` writes the pages.
        if std::env::var_os("WEFT_WRITE_PAGES").is_some() {
            std::fs::write(&file, &printed).unwrap();
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(stored == printed, "{page} is out of date: run `cargo xtask generated`");
    }
}

/// The canvases in a folder and one level below it.
fn canvases(folder: &Path, found: &mut Vec<(String, Json)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let file = if path.is_dir() { path.join("canvas.json") } else { path };
        if file.extension().is_some_and(|extension| extension == "json")
            && let Ok(text) = std::fs::read_to_string(&file)
        {
            found.push((file.display().to_string(), serde_json::from_str(&text).unwrap()));
        }
    }
}

#[test]
fn the_canvas_schema_accepts_every_canvas_that_runs() {
    let printed = Home::new().weft(&["schema"]).with(0).stdout;
    let schema = jsonschema::validator_for(&serde_json::from_str(&printed).unwrap()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    canvases(&root.join("canvases"), &mut all);
    assert!(all.len() > 10);
    canvases(&root.join("../shared/canvases/ragflow"), &mut all);
    for (file, canvas) in &all {
        let wrong: Vec<String> =
            schema.iter_errors(canvas).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(wrong.is_empty(), "{file}: {wrong:#?}");
    }
    let wrong = |parameters: Json| {
        let node = serde_json::json!({"obj": {"component_name": "Retrieval", "params": parameters}, "downstream": []});
        let canvas = serde_json::json!({"components": {"begin": node}});
        schema.iter_errors(&canvas).map(|error| error.instance_path().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(wrong(serde_json::json!({"top_n": 2000, "keyword": [1]})).len(), 2);
    assert_eq!(wrong(serde_json::json!({"top_n": "5", "keyword": "true", "unknown": []})), [""; 0]);
}

#[test]
fn one_component_is_shown_with_its_parameters_and_outputs() {
    let home = Home::new();
    let shown = home.weft(&["components", "retrieval"]).with(0).stdout;
    assert!(shown.contains("| `top_n` |") && shown.contains("| `formalized_content` | string |"), "{shown}");
    let all: Json = serde_json::from_str(&home.weft(&["components", "--json"]).with(0).stdout).unwrap();
    let agent = all.as_array().unwrap().iter().find(|one| one["name"] == "Agent").unwrap();
    assert_eq!(agent["parameters"]["properties"]["max_rounds"]["type"], "integer");
    let (from, params) = (&agent["example"]["from"], &agent["example"]["params"]);
    assert!(from.as_str().is_some_and(|from| from.starts_with("canvases/")) && params.is_object(), "{agent}");
    assert!(shown.contains("In `canvases/") && shown.contains("\"query\": "), "{shown}");
    assert!(agent["outputs"].as_array().unwrap().iter().any(|output| output["name"] == "content"));
    let older = home.weft(&["components", "splitter"]).with(0).stdout;
    assert_eq!(older, home.weft(&["components", "TokenChunker"]).with(0).stdout);
    home.weft(&["components", "Agnet"]).with(2).says(&["there is no component `Agnet`", "lists them all"]);
}

/// A component as a contributor would add it: one file with its parameters and outputs, and nothing about it
/// elsewhere.
mod translate {
    use weft_core::field::{choice, fields};
    use weft_core::{
        Component, ComponentSpec, Field, Finished, NodeContext, OutputSpec, Outputs, Params, Reads,
        Reference, Result, Role, Shape, Template, ToolSpec, Value,
    };

    static TEXT: Field<Template> =
        Field::template("text", "what to translate").by_model("the text to translate");
    static LANGUAGE: Field<&str> = Field::choice(
        "language",
        "en",
        &[choice("en", "English"), choice("de", "German")],
        "into which language",
    );
    static LENGTH: Field<usize> =
        Field::count("length_max", 500, &(1..=9_000), "how long it may be").unit("words").older(&["max_len"]);
    static FORMAL: Field<bool> = Field::flag("formal", "whether to be polite");
    static GLOSSARY: Field<Option<Reference>> = Field::reference("glossary", "words that stay as they are");

    pub(super) static SPEC: ComponentSpec = ComponentSpec {
        kind: "Translate",
        role: Role::Step,
        summary: "Translates a text.",
        fields: &[fields(&[&TEXT, &LANGUAGE, &LENGTH, &FORMAL, &GLOSSARY])],
        outputs: &[
            OutputSpec::new("content", "string", "the translation"),
            OutputSpec::new("words", "integer", "how many words it has"),
        ],
        time_limit: None,
        measuring_only: false,
        tool: Some(ToolSpec { function: "translate", idempotent: true, sources: false }),
        build: |source| {
            let mut params = Params::of(source);
            let text = params.take(&TEXT);
            let _ = (params.take(&LANGUAGE), params.take(&LENGTH), params.take(&FORMAL));
            let glossary = params.take(&GLOSSARY);
            params.finish(Translate { text, glossary })
        },
    };

    struct Translate {
        text: Template,
        glossary: Option<Reference>,
    }

    #[weft_core::async_trait]
    impl Component for Translate {
        fn shape(&self) -> Shape {
            let reads = Reads::always(self.text.references().chain(&self.glossary).cloned());
            Shape { reads, main_output: "content", ..Shape::default() }
        }

        async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
            let text = Value::text(self.text.render(&ctx.inputs)?);
            Ok(Outputs::of("content", text).into())
        }
    }
}

#[test]
fn one_declaration_of_a_component_is_used_everywhere() {
    use weft_core::component_reference::{described, in_markdown};
    let spec = &translate::SPEC;
    // The reference page.
    let page = in_markdown(spec, None);
    for part in [
        "`text` | template",
        "`length_max` | integer | `500` | how long it may be; 1 to 9000; in words",
        "`words` | integer",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    // The form of the user interface.
    let form = described(spec, None);
    let names: Vec<&str> = form["groups"][0]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["text", "language", "length_max", "formal", "glossary"]);
    assert_eq!(form["groups"][0]["fields"][1]["choices"][1]["description"], "German");
    // The tool definition for a model.
    let arguments = form["tool"]["arguments"].clone();
    assert_eq!(arguments["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["text"]);
    assert_eq!(arguments["required"], serde_json::json!(["text"]));
    // The schema for editors.
    let all: Vec<_> = weft_components::catalog().all().into_iter().chain([spec]).collect();
    let schema = weft_dsl::canvas_schema(&all);
    assert_eq!(schema["$defs"]["parameters"]["Translate"]["properties"]["length_max"]["maximum"], 9_000);
    // The diagnostics of check.
    let canvas = serde_json::json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Translate:T"]},
        "Translate:T": {"obj": {"component_name": "Translate",
            "params": {"text": "{sys.query}", "langauge": "de", "max_len": 0, "formal": "perhaps"}}, "downstream": ["Message:M"]},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{Translate:T@contnet}"]}}, "downstream": []},
    }});
    let canvas = weft_dsl::load(canvas.to_string().as_bytes()).unwrap();
    let catalog = weft_core::Catalog::new(all);
    let problems = weft_dsl::compile(&canvas, &catalog, &weft_dsl::CompileOptions::default()).unwrap_err();
    let found: Vec<_> =
        problems.iter().map(|problem| (problem.code, problem.pointer.rsplit('/').next().unwrap())).collect();
    assert!(found.contains(&("unknown-parameter", "langauge")), "{found:?}");
    assert!(found.contains(&("invalid-parameter", "max_len")), "{found:?}");
    assert!(found.contains(&("invalid-parameter", "formal")), "{found:?}");
}
