//! Finds parameters with a name that looks like a slip of the pen.
//!
//! Files of other editors hold many parameters that mean nothing here, so a name that nobody declares says nothing by
//! itself. One that is nearly the name of a parameter which is not given is most likely that parameter.

use weft_core::ComponentSpec;
use weft_core::field::{common, is_declared, specs};

use crate::canvas::CanvasNode;
use crate::problem::{Problem, Problems, join};
use crate::suggest::Suggester;

/// Reports the parameters of a node that are probably misspelled.
pub fn check(node: &CanvasNode, spec: &ComponentSpec, suggester: &mut Suggester, problems: &mut Problems) {
    // Of a component that this build knows by name only nothing is known.
    if spec.fields.is_empty() && spec.outputs.is_empty() {
        return;
    }
    for key in node.params.keys() {
        if is_declared(spec.fields, key) || is_declared(common::GROUPS, key) {
            continue;
        }
        let others = specs(spec.fields).chain(specs(common::GROUPS)).map(|spec| spec.name);
        let not_given = others.filter(|name| !node.params.contains_key(*name));
        if let Some(meant) = suggester.misspelled(key, not_given) {
            let message = format!("{} has no parameter `{key}`: it has no effect", spec.kind);
            let problem = Problem::warning("unknown-parameter", join(&node.place.params, key), message);
            problems.add(problem.help(format!("did you mean `{meant}`?")).about(&node.id, &node.name));
        }
    }
}
