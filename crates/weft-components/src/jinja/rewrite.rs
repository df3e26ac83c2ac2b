//! Turns a canvas template into one the template engine may run: references become variables with
//! native values, and whatever can make a value grow is wrapped in a call that charges for it.
//!
//! | in the canvas | becomes |
//! |---|---|
//! | `{ref}` in text | `{{ weft_0 }}` |
//! | `{ref}` or a bare `ref` inside a block | `weft_0` |
//! | either of them inside a string literal | stays |
//! | `a ~ b`, `a + b` | `a|weft_read ~ weft_cost(b)`, `a|weft_read + weft_cost(b)` |
//! | `a * b` | `a * -1 * -1 * weft_number(b)`, which fails unless both are numbers |
//! | `[…]`, `{…}`, `(…)` that make a value | `weft_cost([…])` …, and so each of their members |
//! | arguments of calls, `set` and `with` | their values in `weft_cost(…)` |
//! | `set a, b = x, y` | `set a, b = weft_cost((x, y))` |
//! | `x|filter` | `x|weft_filter('filter')|filter`, for filters that build as much as they are given |
//! | other filters, `x is …`, `x == …`, `… in x` | `x|weft_read`, which charges for what is scanned |
//! | `for x in list` | `for x in weft_each(list)`, the same |
//! | `filter upper` | `filter weft_filter('upper') | upper`, the same |
//! | `f(x)` | `f(x|weft_read)`, the same |
//! | `x[a:b]` | `x[weft_slice(a):b]`, the same |
//! | `'text' % x` | `weft_printf('text', x)` |
//! | `set ns.a = x` | `set ns.a = weft_plain(x)`, a copy |
//!
//! Whatever is retained next to other values is therefore charged when it is built, before the next value is.

mod charged;
mod descent;
mod fixed;
mod names;
mod secrets;
mod token;

use std::collections::{BTreeSet, HashMap};

use weft_core::reference::{Names, Segment, is_name_char};
use weft_core::{Error, Reference, Result, Template};

pub(super) use fixed::Fixed;
pub(super) use names::Named;

use charged::{write, write_charged, write_filter, write_loop, write_members};
use descent::{Branches, Descent};
use names::NamesOfTemplate;
use secrets::SecretVariables;
use token::Token;

/// Statements that build text invisibly to the budget or access other templates.
const REFUSED: [&str; 9] =
    ["autoescape", "block", "call", "extends", "from", "import", "include", "macro", "do"];

/// Maximum number of bytes in the id of a component that is named without braces.
// At each word, the search for an id may look ahead, and a block may be one run of words and colons up to its end.
const BARE_ID_MAX: usize = 256;

/// The result of [`rewrite`].
#[derive(Debug)]
pub(super) struct RewrittenTemplate {
    /// The source for the template engine.
    pub source: String,
    /// Variables by name, each with the reference it stands for.
    pub variables: Vec<(String, Reference)>,
    /// Names that the template uses and does not define itself.
    pub named: BTreeSet<Named>,
    /// Expressions that do not depend on the input.
    pub fixed: Vec<Fixed>,
    /// Divisions by 0 in other expressions.
    pub by_zero: BTreeSet<String>,
}

/// A reference in braces: start, end (exclusive), reference.
type Occurrence = (usize, usize, Reference);

/// Whether a text contains a block or an expression besides references.
pub(super) fn is_template(text: &str, names: Names<'_>) -> bool {
    let mut rest = String::with_capacity(text.len());
    for segment in Template::parse(text, names).segments() {
        match segment {
            Segment::Literal(literal) => rest.push_str(literal),
            // A letter takes the place of a reference, so that braces on both sides of it do not form a pair.
            Segment::Reference(_) => rest.push('x'),
        }
    }
    let pair = |open: &str, close: &str| rest.find(open).is_some_and(|at| rest[at..].contains(close));
    pair("{%", "%}") || pair("{{", "}}")
}

/// Rewrites a template.
///
/// # Errors
/// `Invalid` for a construct that is not allowed.
pub(super) fn rewrite(text: &str, names: Names<'_>) -> Result<RewrittenTemplate> {
    let occurrences = occurrences(text, names);
    let (source, variables, named) = (String::new(), Vec::new(), NamesOfTemplate::default());
    let branches = Branches::default();
    let places = HashMap::new();
    let mut writer = Writer {
        text,
        names,
        occurrences,
        at: 0,
        source,
        variables,
        places,
        secrets: SecretVariables::new(),
        named,
        branches,
        filtered: false,
        fixed: Vec::new(),
        by_zero: BTreeSet::new(),
    };
    writer.text_mode()?;
    let named = writer.named.asked_of_others();
    let Writer { source, variables, fixed, by_zero, .. } = writer;
    Ok(RewrittenTemplate { source, variables, named, fixed, by_zero })
}

fn occurrences(text: &str, names: Names<'_>) -> Vec<Occurrence> {
    let mut found = Vec::new();
    let mut at = 0;
    for segment in Template::parse(text, names).segments() {
        match segment {
            Segment::Literal(literal) => at += literal.len(),
            Segment::Reference(reference) => {
                let end = occurrence_end(text, at);
                found.push((at, end, reference.clone()));
                at = end;
            }
        }
    }
    found
}

/// Returns the end of the occurrence that opens at `at`: where its braces are balanced.
fn occurrence_end(text: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (place, c) in text[at..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + place + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

struct Writer<'a> {
    text: &'a str,
    names: Names<'a>,
    occurrences: Vec<Occurrence>,
    at: usize,
    source: String,
    variables: Vec<(String, Reference)>,
    /// The index of each reference in `variables`: a template may have thousands.
    places: HashMap<Reference, usize>,
    secrets: SecretVariables,
    named: NamesOfTemplate,
    branches: Branches,
    /// Whether the text being written is consumed by a `filter`.
    filtered: bool,
    fixed: Vec<Fixed>,
    by_zero: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn text_mode(&mut self) -> Result<()> {
        while let Some(c) = self.rest().chars().next() {
            if let Some((end, variable)) = self.occurrence_here() {
                let token = Token::Variable(variable);
                self.check_secrets(std::slice::from_ref(&token), None)?;
                self.source.push_str(&format!("{{{{ {} }}}}", token.text()));
                self.at = end;
            } else if self.rest().starts_with("{#") {
                // What looks like code in a comment is not code.
                let end = self.rest().find("#}").map_or(self.text.len(), |end| self.at + end + 2);
                self.copy_to(end);
            } else if self.rest().starts_with("{{") || self.rest().starts_with("{%") {
                self.code()?;
            } else {
                self.copy_to(self.at + c.len_utf8());
            }
        }
        Ok(())
    }

    fn copy_to(&mut self, end: usize) {
        self.source.push_str(&self.text[self.at..end]);
        self.at = end;
    }

    fn occurrence_here(&mut self) -> Option<(usize, String)> {
        let place = self.occurrences.binary_search_by_key(&self.at, |occurrence| occurrence.0).ok()?;
        let (_, end, reference) = self.occurrences[place].clone();
        Some((end, self.variable(&reference)))
    }

    /// Returns the variable that stands for a reference. `item`, `index` and `result` keep their names, so that a loop
    /// of the template can use a variable of the same name.
    fn variable(&mut self, reference: &Reference) -> String {
        if let Some((name, _)) = self.places.get(reference).and_then(|place| self.variables.get(*place)) {
            return name.clone();
        }
        let name = match reference {
            Reference::Output { component, path }
                if Some(component) == self.names.item && matches!(&**path, "item" | "index" | "result") =>
            {
                path.to_string()
            }
            _ => format!("weft_{}", self.variables.len()),
        };
        if reference.secret().is_some() {
            self.secrets.insert(name.clone(), reference.clone());
        }
        self.places.insert(reference.clone(), self.variables.len());
        self.variables.push((name.clone(), reference.clone()));
        name
    }

    /// Rewrites one `{{ … }}` or `{% … %}`.
    fn code(&mut self) -> Result<()> {
        let statement = self.rest().starts_with("{%");
        let mark = self.rest()[2..].starts_with(['-', '+']);
        self.copy_to(self.at + 2 + usize::from(mark));
        let close = if statement { "%}" } else { "}}" };
        let mut tokens = Vec::new();
        let mut descent = Descent::default();
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            let rest = self.rest();
            if rest.is_empty() {
                return Err(Error::invalid(format!("the Jinja template has an error: `{close}` is missing")));
            }
            // Within brackets, two braces close brackets rather than the block.
            if descent.nesting() == 0
                && (rest.starts_with(close) || (rest.starts_with(['-', '+']) && rest[1..].starts_with(close)))
            {
                break;
            }
            let token = self.token(tokens.last())?;
            descent.note(&token)?;
            tokens.push(token);
        }
        if statement {
            check_statement(&tokens)?;
            self.branches.note(tokens.first().map_or("", Token::text))?;
            self.note_filter(tokens.first().map_or("", Token::text))?;
        }
        let keyword = tokens.first().filter(|_| statement).map(Token::text);
        self.check_secrets(&tokens, keyword)?;
        self.named.note(&tokens, keyword);
        self.note_fixed(fixed::expression(&tokens, keyword));
        self.source.push(' ');
        match tokens.first().filter(|_| statement) {
            Some(Token::Atom("set")) => {
                let value =
                    tokens.iter().position(|token| token.text() == "=").map_or(tokens.len(), |at| at + 1);
                write(&tokens[..value], &mut self.source);
                // What is put into a namespace is a copy: a namespace that contained itself would be traversed
                // endlessly and never be freed.
                let member = tokens[..value].iter().any(|token| token.text() == ".");
                self.source.push_str(if member { "weft_plain(" } else { "" });
                if bare_tuple(&tokens) {
                    self.source.push_str("weft_cost((");
                    write_members(&tokens[value..], &mut self.source);
                    self.source.push_str(")) ");
                } else {
                    write_charged(&tokens[value..], &mut self.source);
                }
                self.source.push_str(if member { ")" } else { "" });
            }
            Some(Token::Atom("for")) => write_loop(&tokens, &mut self.source),
            Some(Token::Atom("filter")) => write_filter(&tokens, &mut self.source),
            Some(Token::Atom("with")) => {
                write(&tokens[..1], &mut self.source);
                write_members(&tokens[1..], &mut self.source);
            }
            _ => write(&tokens, &mut self.source),
        }
        let mark = self.rest().starts_with(['-', '+']);
        self.copy_to(self.at + usize::from(mark) + 2);
        // Everything up to the end tag is text, and what looks like a reference is not one.
        if statement && tokens.first() == Some(&Token::Atom("raw")) {
            let end = self.rest().match_indices("{%").find(|(at, _)| ends_raw(&self.rest()[at + 2..]));
            self.copy_to(end.map_or(self.text.len(), |(end, _)| self.at + end));
        }
        Ok(())
    }

    /// Checks that the tokens within braces write secrets as they are; `keyword` is the first token of a statement.
    fn check_secrets(&self, tokens: &[Token<'_>], keyword: Option<&str>) -> Result<()> {
        let misused = match keyword {
            None if !self.filtered => secrets::transformed(tokens, &self.secrets),
            _ => secrets::first(tokens, &self.secrets),
        };
        misused.map_or(Ok(()), |secret| Err(secrets::refused(secret)))
    }

    fn note_fixed(&mut self, expression: &[Token<'_>]) {
        if !fixed::is_fixed(expression) {
            self.by_zero.extend(fixed::by_zero(expression));
        } else if self.fixed.len() < fixed::FIXED_MAX {
            let mut source = String::new();
            write(expression, &mut source);
            self.fixed.push(Fixed { written: fixed::shown(expression), source });
        }
    }

    /// Tracks `filter` blocks at a statement. Text written within a `filter` is visible to no limit until the block
    /// ends, so it must not be written in a loop or filtered again.
    fn note_filter(&mut self, statement: &str) -> Result<()> {
        match statement {
            "for" | "filter" if self.filtered => Err(Error::invalid(format!(
                "the Jinja template uses `{statement}` within `filter`, which isn't allowed"
            ))
            .help("put the loop around the `filter`, or apply the filter to a value: `{{ text|upper }}`")),
            "filter" | "endfilter" => {
                self.filtered = statement == "filter";
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn token(&mut self, before: Option<&Token<'a>>) -> Result<Token<'a>> {
        if let Some((end, variable)) = self.occurrence_here() {
            self.at = end;
            return Ok(Token::Variable(variable));
        }
        let rest = self.rest();
        let after_dot = before == Some(&Token::Operator("."));
        let first = rest.chars().next().unwrap_or(' ');
        let length = match first {
            '\'' | '"' => string_length(rest, first),
            c if c.is_ascii_digit() => number_length(rest),
            c if c.is_alphabetic() || c == '_' => {
                if !after_dot && let Some((length, reference)) = self.bare_reference() {
                    self.at += length;
                    return Ok(Token::Variable(self.variable(&reference)));
                }
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            _ => return Ok(self.symbol(first)),
        };
        let atom = &rest[..length];
        self.at += length;
        // With such a name a template could call the charging functions itself, or replace them.
        if atom.starts_with("weft_") {
            return Err(Error::invalid(format!(
                "the Jinja template uses the name `{atom}`: names that begin with `weft_` are reserved"
            )));
        }
        if !after_dot && let (Some(item), "item" | "index" | "result") = (self.names.item, atom) {
            let reference = Reference::Output { component: item.clone(), path: atom.into() };
            return Ok(Token::Variable(self.variable(&reference)));
        }
        Ok(Token::Atom(atom))
    }

    fn symbol(&mut self, first: char) -> Token<'a> {
        let rest = self.rest();
        let double = ["**", "//", "==", "!=", "<=", ">="].iter().any(|operator| rest.starts_with(operator));
        let length = if double { 2 } else { first.len_utf8() };
        self.at += length;
        match first {
            '(' | '[' | '{' => Token::Open(&rest[..length]),
            ')' | ']' | '}' => Token::Close(&rest[..length]),
            _ => Token::Operator(&rest[..length]),
        }
    }

    /// Returns a reference without braces. Its path ends before a `-`, which is a minus here.
    fn bare_reference(&self) -> Option<(usize, Reference)> {
        let rest = self.rest();
        let run = |text: &str, more: &[char]| {
            text.find(|c: char| !is_name_char(c) && !more.contains(&c)).unwrap_or(text.len())
        };
        let id = run(&rest[..rest.floor_char_boundary(BARE_ID_MAX + 1)], &[':', '-']);
        let length = if ["sys.", "env.", "secret."].iter().any(|prefix| rest.starts_with(prefix)) {
            run(rest, &['.'])
        } else if rest[id..].starts_with('@') && self.names.components.contains(&rest[..id]) {
            id + 1 + run(&rest[id + 1..], &['.'])
        } else {
            return None;
        };
        // A dot at the end of a sentence is not part of the path.
        let mut length = rest[..length].trim_end_matches('.').len();
        // What is called is a method of the value.
        if rest[length..].starts_with('(')
            && let Some(method) = rest[..length].rfind('.')
            && rest[..method].contains(['@', '.'])
        {
            length = method;
        }
        Some((length, Reference::parse(&rest[..length], self.names)?))
    }
}

fn string_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (place, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return place + 1,
            _ => {}
        }
    }
    rest.len()
}

fn number_length(rest: &str) -> usize {
    let digits =
        |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let whole = digits(rest);
    match rest[whole..].strip_prefix('.') {
        Some(fraction) if fraction.starts_with(|c: char| c.is_ascii_digit()) => whole + 1 + digits(fraction),
        _ => whole,
    }
}

fn check_statement(tokens: &[Token<'_>]) -> Result<()> {
    let Some(Token::Atom(statement)) = tokens.first() else { return Ok(()) };
    let has = |text: &str| tokens.iter().any(|token| token.text() == text);
    let refused =
        |what: &str| Err(Error::invalid(format!("the Jinja template uses {what}, which isn't allowed")));
    if REFUSED.contains(statement) {
        return refused(&format!("`{statement}`"));
    }
    if *statement == "set" && !has("=") {
        return refused("`set` with a body");
    }
    if *statement == "for" && has("recursive") {
        return refused("a `recursive` loop");
    }
    // The engine does not support one there, and its error is less clear.
    if *statement == "for" && bare_tuple(tokens) {
        return Err(Error::invalid("the Jinja template has a list without brackets: add them"));
    }
    Ok(())
}

/// Whether the value side of a `set` or `for` has a comma outside brackets.
fn bare_tuple(tokens: &[Token<'_>]) -> bool {
    let value =
        tokens.iter().position(|token| matches!(token.text(), "=" | "in")).map_or(tokens.len(), |at| at + 1);
    let mut depth = 0_usize;
    tokens[value..].iter().any(|token| {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text() == ","
    })
}
/// Whether what follows `{%` ends a raw text. It must match the engine exactly: what the engine parses as template from
/// there on has to be checked here.
fn ends_raw(tag: &str) -> bool {
    let blank = |c: char| c.is_ascii_whitespace();
    let tag = tag.strip_prefix(['-', '+']).unwrap_or(tag).trim_start_matches(blank);
    let Some(tag) = tag.strip_prefix("endraw") else { return false };
    let tag = tag.trim_start_matches(blank);
    tag.strip_prefix(['-', '+']).unwrap_or(tag).starts_with("%}")
}
