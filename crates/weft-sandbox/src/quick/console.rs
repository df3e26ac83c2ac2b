//! `console`: keeps what a program prints, up to a limit.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::function::Rest;
use rquickjs::{Coerced, Ctx, Function, Object, Value};

use super::told::text_of;
use crate::printed::{Printed, Stream};

/// Installs `console` for a program.
pub(super) fn install(ctx: &Ctx<'_>, printed: &Rc<RefCell<Printed>>) -> rquickjs::Result<()> {
    let console = Object::new(ctx.clone())?;
    let streams = [
        ("log", Stream::Out),
        ("info", Stream::Out),
        ("debug", Stream::Out),
        ("warn", Stream::Error),
        ("error", Stream::Error),
    ];
    for (name, stream) in streams {
        let printed = Rc::clone(printed);
        let print = move |values: Rest<Value<'_>>| {
            // Nothing more is kept, so nothing more is formatted.
            if printed.borrow().truncated {
                return;
            }
            // Values are converted to texts first: that may run code of the program, which may print.
            let texts: Vec<String> = values.iter().map(shown).collect();
            printed.borrow_mut().line(stream, &texts.join(" "));
        };
        console.set(name, Function::new(ctx.clone(), print)?)?;
    }
    ctx.globals().set("console", console)
}

/// Formats a value for a line: texts as they are, plain values as JSON.
fn shown(value: &Value<'_>) -> String {
    let ctx = value.ctx();
    let plain = value.is_object() && !value.is_function() && !value.is_error();
    let json = if plain { ctx.json_stringify(value.clone()).ok().flatten() } else { None };
    let text = json.or_else(|| value.get::<Coerced<rquickjs::String<'_>>>().ok().map(|text| text.0));
    let text = text.and_then(|text| text_of(ctx, &text));
    text.unwrap_or_else(|| {
        // Clears what a value threw while it was being formatted.
        ctx.catch();
        format!("[{}]", value.type_name())
    })
}
