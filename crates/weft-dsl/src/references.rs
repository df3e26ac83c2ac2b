//! Checks the references in the texts of a node, and finds the place of a reference in its parameters.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use serde_json::Map;
use weft_core::reference::{Names, is_name_char};
use weft_core::seam::secrets;
use weft_core::suggest::did_you_mean;
use weft_core::{ComponentId, Json, Reference, Template};

use crate::canvas::{Canvas, CanvasNode};
use crate::globals;
use crate::paths::prefixes;
use crate::pointer::join;
use crate::problem::{Problem, ProblemList};
use crate::suggest::Suggester;
use crate::texts::blocks;

/// A longer text is not a reference as a whole.
const REFERENCE_LENGTH_MAX: usize = 512;

/// What references are checked against.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    /// The canvas.
    pub canvas: &'a Canvas,
    /// The globals of a new session.
    pub globals: &'a Map<String, Json>,
    /// The names of the tenant's secrets, if known.
    pub secrets: Option<&'a [String]>,
}

/// A node as written.
#[derive(Clone, Copy)]
pub(crate) struct NodeText<'a> {
    /// The node.
    pub node: &'a CanvasNode,
    /// What the names in its texts can refer to.
    pub names: Names<'a>,
}

/// Reports a node's references that lead nowhere.
pub(crate) fn check(
    world: World<'_>,
    text: NodeText<'_>,
    references: &[&Reference],
    suggester: &mut Suggester,
    problems: &mut ProblemList,
) {
    let mut seen = HashSet::new();
    let mut lost: Vec<(&Reference, Option<MemberSlip<'_>>)> = Vec::new();
    // Reported once per node, at the first place, however often its texts repeat it.
    for &reference in references.iter().filter(|reference| seen.insert(**reference)) {
        if leads_nowhere(world, reference) {
            lost.push((reference, None));
        } else if let Some(slip) = slip(world, reference, suggester) {
            lost.push((reference, Some(slip)));
        }
    }
    if lost.is_empty() {
        return;
    }
    // Finding the places parses all texts of the node again; most nodes never get here.
    let written = ReferencesWritten::of(world.canvas, text);
    for (reference, slip) in lost {
        let name = reference.to_string();
        let pointer = if problems.is_full() { "" } else { written.place(&name) };
        let problem = match slip {
            Some(slip) => slip.described(reference, pointer),
            None => describe(world, reference, pointer, suggester),
        };
        let owner = if problems.is_full() { text.node } else { written.owner(&name) };
        problems.add(problem.about(&owner.id, &owner.name));
    }
}

fn leads_nowhere(world: World<'_>, reference: &Reference) -> bool {
    match reference {
        Reference::Output { component, .. } => !world.canvas.nodes.contains_key(component),
        Reference::Global(name) => match reference.secret() {
            Some(secret) => !secrets::is_name(secret) || !is_there(world, secret),
            None => !globals::knows(world.globals, name),
        },
    }
}

/// A misspelled member of a variable, compared with the members of its initial value.
struct MemberSlip<'r> {
    variable: &'r str,
    member: &'r str,
    meant: &'r str,
}

impl MemberSlip<'_> {
    fn described(&self, name: &Reference, pointer: &str) -> Problem {
        let Self { variable, member, meant } = self;
        let message = format!("`{name}` is empty: `{variable}` has no member `{member}`");
        Problem::warning("unknown-global", pointer, message).help(did_you_mean(meant))
    }
}

/// Finds such a misspelling. Other members may appear while a canvas runs.
fn slip<'r>(world: World<'r>, reference: &'r Reference, suggester: &mut Suggester) -> Option<MemberSlip<'r>> {
    let Reference::Global(name) = reference else { return None };
    let variable = prefixes(name).find(|prefix| world.globals.contains_key(*prefix))?;
    let members = world.globals.get(variable)?.as_object()?;
    let member =
        name[variable.len() + 1..].split('.').next().filter(|member| !members.contains_key(*member))?;
    let known = members.keys().take(COMPARED_MAX).map(String::as_str);
    // A canvas may have thousands of these, and each is compared with all members, letter by letter.
    let meant = suggester.misspelled_among(member, known)?;
    Some(MemberSlip { variable, member, meant })
}

/// Maximum number of a variable's members compared with a name.
// A variable may have any number of members, and comparing two names takes thousands of steps.
const COMPARED_MAX: usize = 64;

/// Whether a secret exists, as far as is known.
fn is_there(world: World<'_>, secret: &str) -> bool {
    world.secrets.is_none_or(|names| names.iter().any(|name| name == secret))
}

fn describe(world: World<'_>, reference: &Reference, pointer: &str, suggester: &mut Suggester) -> Problem {
    match reference {
        Reference::Output { component, .. } => {
            let ids = world.canvas.nodes.keys().map(ComponentId::as_str);
            let message =
                format!("`{reference}` refers to the component `{component}`, which does not exist");
            Problem::error("unknown-reference", pointer, message)
                .maybe_help(suggester.did_you_mean(component.as_str(), ids))
        }
        Reference::Global(name) if let Some(secret) = reference.secret() => {
            if !secrets::is_name(secret) {
                let message = format!("`{name}` is not a valid name for a secret");
                return Problem::error("unknown-secret", pointer, message)
                    .help("the name of a secret has letters, digits, `_` and `-`");
            }
            let message = format!("there is no secret `{secret}`: components that use it fail");
            let known = world.secrets.iter().copied().flatten().map(String::as_str);
            Problem::warning("unknown-secret", pointer, message)
                .help(format!("set it with `weft secret set {secret}`"))
                .maybe_help(suggester.did_you_mean(secret, known))
        }
        Reference::Global(name) => {
            let known = world.globals.keys().map(String::as_str);
            let help = match name.strip_prefix("env.") {
                Some(variable) => format!("declare `{variable}` under `variables`"),
                None => "the names are sys.query, sys.user_id, sys.files, sys.history, sys.date, \
                         sys.run_id, sys.usage and sys.conversation_turns"
                    .to_owned(),
            };
            Problem::error("unknown-global", pointer, format!("`{name}` does not exist"))
                .help(help)
                .maybe_help(suggester.did_you_mean(name, known))
        }
    }
}

/// Where each reference of a node is first written: from the reference as text to a JSON pointer into the document.
pub(crate) struct ReferencesWritten<'a> {
    canvas: &'a Canvas,
    text: NodeText<'a>,
    own: OnceCell<HashMap<String, String>>,
    /// The references of an enclosing frame count too: its conditions are read by its body.
    around: OnceCell<HashMap<String, String>>,
}

impl<'a> ReferencesWritten<'a> {
    /// Creates the index of a node; its texts are read on first use.
    pub(crate) fn of(canvas: &'a Canvas, text: NodeText<'a>) -> Self {
        Self { canvas, text, own: OnceCell::new(), around: OnceCell::new() }
    }

    /// Returns the place where a reference is written, or else that of the parameters.
    pub(crate) fn place(&self, reference: &str) -> &str {
        // The frame only after the node: a frame with a long text may have thousands of nodes inside.
        let found = self.own().get(reference).or_else(|| self.around().get(reference));
        found.unwrap_or(&self.text.node.place.params)
    }

    /// Returns the component in whose parameters that place is.
    pub(crate) fn owner(&self, reference: &str) -> &'a CanvasNode {
        let node = self.text.node;
        if self.own().contains_key(reference) || !self.around().contains_key(reference) {
            return node;
        }
        node.parent.as_ref().and_then(|parent| self.canvas.nodes.get(parent)).unwrap_or(node)
    }

    /// Returns all references as texts.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.own().keys().chain(self.around().keys()).map(String::as_str)
    }

    fn own(&self) -> &HashMap<String, String> {
        self.own.get_or_init(|| noted(self.text.node, self.text.names))
    }

    fn around(&self) -> &HashMap<String, String> {
        self.around.get_or_init(|| {
            let parent = self.text.node.parent.as_ref().and_then(|parent| self.canvas.nodes.get(parent));
            parent.map(|parent| noted(parent, self.text.names)).unwrap_or_default()
        })
    }
}

fn noted(node: &CanvasNode, names: Names<'_>) -> HashMap<String, String> {
    let mut places = HashMap::new();
    for (key, value) in &node.params {
        note(value, &join(&node.place.params, key), names, &mut places);
    }
    places
}

fn note(json: &Json, pointer: &str, names: Names<'_>, places: &mut HashMap<String, String>) {
    match json {
        Json::String(text) => {
            let template = Template::parse_value(text, names);
            // A component may require a text to be a reference even where it names nothing.
            let bare = text.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
            let several = |c: char| c.is_whitespace() || matches!(c, '{' | '}');
            let is_one = bare.len() <= REFERENCE_LENGTH_MAX && bare.contains('@') && !bare.contains(several);
            let bare = is_one.then(|| bare.to_owned());
            for written in template.references().map(ToString::to_string).chain(bare) {
                // The first place counts: a reference that occurs in ten texts is one finding.
                places.entry(written).or_insert_with(|| pointer.to_owned());
            }
            // Within the blocks of a template, references need no braces.
            for block in blocks(text, "{%", "%}").chain(blocks(text, "{{", "}}")) {
                let words = block.split(|c: char| !is_name_char(c) && !matches!(c, ':' | '-' | '.' | '@'));
                for reference in words.filter_map(|word| Reference::parse(word.trim_matches('.'), names)) {
                    places.entry(reference.to_string()).or_insert_with(|| pointer.to_owned());
                }
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                note(item, &join(pointer, index), names, places);
            }
        }
        Json::Object(map) => {
            for (key, value) in map {
                note(value, &join(pointer, key), names, places);
            }
        }
        _ => {}
    }
}
