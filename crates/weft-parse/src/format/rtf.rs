//! RTF: text interleaved with control words.
//!
//! It is written by Word, WordPad and many other programs, often with the extension of a DOC. Groups carry information
//! about the text in them; the text of some groups is not shown, or is shown elsewhere.

mod groups;
mod letters;
mod packed;
mod table;
mod tokens;

use std::collections::HashMap;

use encoding_rs::{Encoding, WINDOWS_1252};

use super::{FileContents, FileFormat, FileInput, ReadResult, office};
use crate::element::ElementBody;
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use groups::{Capture, Destination, GroupStyle, Paragraph, RtfGroup};
use letters::{of_charset, of_codepage, sign};
use table::Table;
use tokens::{RtfToken, RtfTokens};

pub(super) use packed::unpacked;

/// Rich Text Format.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "RTF",
    endings: &["rtf"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.bytes.starts_with(b"{\\rtf"),
    read,
};

/// Maximum nesting depth of groups.
const DEPTH_MAX: usize = 1_000;
/// Groups whose text is skipped.
const SKIPPED: &str = "atndate atnid atnref bkmkend bkmkstart colortbl datafield filetbl footer footerf footerl footerr \
    ftncn ftnsep ftnsepc header headerf headerl headerr nonesttables nonshppict objdata pict private \
    revtbl sn sp sv tc upr xe";
/// Groups that older programs ignore but whose text is shown.
const SHOWN: &str = "annotation atnauthor fldinst shpinst";

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::with_cells(file.cells);
    add(file.bytes, &mut parts)?;
    Ok(parts.finish())
}

/// The text of RTF that is part of another file, without its properties.
pub(super) fn plain(bytes: &[u8]) -> Result<String, Unreadable> {
    let mut parts = PartCollector::default();
    add(bytes, &mut parts)?;
    let texts = parts.finish().elements.into_iter().map(|element| match element.body {
        ElementBody::Heading { text, .. } | ElementBody::Paragraph(text) => text,
        ElementBody::Item { text, .. } => format!("- {text}"),
        ElementBody::Table(table) => {
            table.rows.iter().map(|row| row.join("\t")).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    });
    Ok(texts.collect::<Vec<_>>().join("\n\n"))
}

fn add(bytes: &[u8], parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut reader = RtfReader::new(parts);
    for token in RtfTokens(bytes) {
        // Anything after the end of the file's group does not belong to it.
        if !reader.take(&token)? {
            break;
        }
    }
    reader.finish();
    Ok(())
}

struct RtfReader<'p> {
    parts: &'p mut PartCollector,
    groups: Vec<RtfGroup>,
    fonts: HashMap<i32, &'static Encoding>,
    font: i32,
    encoding: &'static Encoding,
    /// Levels of the styles that are headings.
    headings: HashMap<i32, u8>,
    style: (i32, Option<u8>),
    text: String,
    /// Bytes of text that are not decoded yet: a character may have several.
    bytes: Vec<u8>,
    /// The first half of a surrogate pair.
    half: Option<u16>,
    to_skip: usize,
    captures: usize,
    /// Whether this group begins with a mark that tells older programs to ignore it.
    is_new: bool,
    paragraph: Paragraph,
    marker: Option<String>,
    address: Option<String>,
    remarker: String,
    notes: Vec<String>,
    table: Table,
}

impl<'p> RtfReader<'p> {
    fn new(parts: &'p mut PartCollector) -> Self {
        Self {
            parts,
            groups: Vec::new(),
            fonts: HashMap::new(),
            font: 0,
            // The default of the format for files that declare no code page.
            encoding: WINDOWS_1252,
            headings: HashMap::new(),
            style: (0, None),
            text: String::new(),
            bytes: Vec::new(),
            half: None,
            to_skip: 0,
            captures: 0,
            is_new: false,
            paragraph: Paragraph::default(),
            marker: None,
            address: None,
            remarker: String::new(),
            notes: Vec::new(),
            table: Table::default(),
        }
    }

    /// Processes the next token and returns false at the end of the file.
    fn take(&mut self, token: &RtfToken<'_>) -> Result<bool, Unreadable> {
        match *token {
            RtfToken::Byte(byte) => self.letters(&[byte]),
            RtfToken::Text(bytes) => self.letters(bytes),
            RtfToken::Open => self.open()?,
            RtfToken::Close => self.close(),
            RtfToken::Symbol(symbol) => self.symbol(symbol),
            RtfToken::Word { name, number } => {
                self.decode();
                if !self.begins(name) {
                    self.word(name, number);
                }
            }
        }
        Ok(!self.groups.is_empty() && !self.parts.is_full())
    }

    fn current(&self) -> GroupStyle {
        self.groups.last().map_or(
            GroupStyle {
                destination: Destination::Text,
                encoding: self.encoding,
                in_place: 1,
                is_hidden: false,
            },
            |group| group.style,
        )
    }

    fn is_heard(&self) -> bool {
        let style = self.current();
        matches!(style.destination, Destination::Text | Destination::Styles) && !style.is_hidden
    }

    fn letters(&mut self, bytes: &[u8]) {
        self.is_new = false;
        // The first bytes after a `\u` are for programs that do not know it.
        let skipped = self.to_skip.min(bytes.len());
        self.to_skip -= skipped;
        if self.is_heard() {
            self.bytes.extend_from_slice(&bytes[skipped..]);
        }
    }

    /// Decodes the bytes collected so far, before something else begins.
    fn decode(&mut self) {
        if !self.bytes.is_empty() {
            let encoding = self.current().encoding;
            self.text.push_str(&encoding.decode_without_bom_handling(&self.bytes).0);
            self.bytes.clear();
        }
    }

    fn say(&mut self, letter: char) {
        self.decode();
        if self.is_heard() {
            self.text.push(letter);
        }
    }

    fn open(&mut self) -> Result<(), Unreadable> {
        self.decode();
        (self.to_skip, self.is_new) = (0, false);
        if self.groups.len() >= DEPTH_MAX {
            return Err(Unreadable::new(format!("its groups are nested more than {DEPTH_MAX} levels deep")));
        }
        let style = self.current();
        self.groups.push(RtfGroup { style, captured: None, link: None });
        if style.destination == Destination::Styles && self.captures == 0 {
            self.style = (0, None);
            self.capture(Capture::Style);
        }
        Ok(())
    }

    fn close(&mut self) {
        self.decode();
        (self.to_skip, self.is_new) = (0, false);
        let Some(group) = self.groups.pop() else { return };
        if let Some(start) = group.link
            && let Some(address) = self.address.take()
        {
            office::end_link(&mut self.text, start, &address);
        }
        let Some((capture, around)) = group.captured else { return };
        self.captures -= 1;
        let text = std::mem::replace(&mut self.text, around);
        let text = text.trim();
        match capture {
            Capture::Title => self.parts.say("title", text),
            Capture::Author => self.parts.say("author", text),
            Capture::Instruction => self.address = hyperlink(text),
            Capture::Marker => self.marker = Some(text.to_owned()),
            Capture::Remarker => text.clone_into(&mut self.remarker),
            Capture::Style => self.heading(text),
            Capture::Note if text.is_empty() => {}
            Capture::Note => self.notes.push(text.to_owned()),
            Capture::Remark => {
                let by = std::mem::take(&mut self.remarker);
                let by = if by.is_empty() { by } else { format!(" ({by})") };
                self.notes.push(format!("Comment{by}: {text}"));
            }
        }
    }

    /// Records the level of a style if its name, or its outline level, is that of a heading.
    fn heading(&mut self, name: &str) {
        let (number, level) = self.style;
        let name = name.trim_end_matches(';').trim().to_lowercase();
        let named = name.strip_prefix("heading ").and_then(|level| level.parse().ok());
        // Style number 0 is that of paragraphs without a style.
        if let Some(level) = level.or(named).or((name == "title").then_some(1)).filter(|_| number != 0) {
            self.headings.insert(number, level);
        }
    }

    /// Collects the text of this group separately.
    fn capture(&mut self, capture: Capture) {
        let around = std::mem::take(&mut self.text);
        if let Some(group) = self.groups.last_mut().filter(|group| group.captured.is_none()) {
            group.captured = Some((capture, around));
            self.captures += 1;
        } else {
            self.text = around;
        }
    }

    /// Whether a control word determines the destination of its group; if so, the destination is set.
    fn begins(&mut self, name: &str) -> bool {
        let is_new = std::mem::take(&mut self.is_new);
        let length = self.text.len();
        let Some(group) = self.groups.last_mut() else { return true };
        let before = group.style.destination;
        // Of two representations of a text the newer one is read.
        if name == "ud" {
            group.style.destination = Destination::Text;
            return true;
        }
        if before == Destination::Skipped {
            return true;
        }
        let capture = match name {
            "fonttbl" => {
                group.style.destination = Destination::Fonts;
                return true;
            }
            "stylesheet" => {
                group.style.destination = Destination::Styles;
                return true;
            }
            "info" => {
                group.style.destination = Destination::Info;
                return true;
            }
            "fldrslt" => {
                group.link = Some(length);
                return true;
            }
            "title" if before == Destination::Info => Capture::Title,
            "author" if before == Destination::Info => Capture::Author,
            "fldinst" => Capture::Instruction,
            "listtext" | "pntext" => Capture::Marker,
            "footnote" => Capture::Note,
            "annotation" => Capture::Remark,
            "atnauthor" => Capture::Remarker,
            _ if has(SKIPPED, name) || is_new && !has(SHOWN, name) => {
                group.style.destination = Destination::Skipped;
                return true;
            }
            _ => return false,
        };
        group.style.destination = Destination::Text;
        self.capture(capture);
        true
    }

    fn symbol(&mut self, symbol: u8) {
        match symbol {
            b'*' => self.is_new = true,
            b'{' | b'}' | b'\\' => self.letters(&[symbol]),
            b'~' => self.say('\u{a0}'),
            b'_' => self.say('-'),
            // A backslash at the end of a line means the same as `\par`.
            b'\r' | b'\n' => {
                self.decode();
                self.end_paragraph();
            }
            _ => {}
        }
    }

    fn word(&mut self, name: &str, number: Option<i32>) {
        let value = number.unwrap_or_default();
        let (is_on, font) = (number != Some(0), self.fonts.get(&value).copied());
        let (destination, own) = (self.current().destination, self.encoding);
        let Some(style) = self.groups.last_mut().map(|group| &mut group.style) else { return };
        match name {
            "f" if destination == Destination::Fonts => self.font = value,
            "f" => style.encoding = font.unwrap_or(own),
            "fcharset" => {
                if let Some(encoding) = of_charset(value) {
                    self.fonts.insert(self.font, encoding);
                }
            }
            "ansicpg" => {
                self.encoding = of_codepage(value);
                style.encoding = self.encoding;
            }
            "mac" => {
                // The code page of Mac Roman.
                self.encoding = of_codepage(10_000);
                style.encoding = self.encoding;
            }
            "uc" => style.in_place = usize::try_from(value).unwrap_or_default(),
            "v" | "deleted" => style.is_hidden = is_on,
            "plain" => {
                style.is_hidden = false;
                style.encoding = own;
            }
            "s" if destination == Destination::Styles => self.style.0 = value,
            "outlinelevel" if destination == Destination::Styles => self.style.1 = level(value),
            _ if destination == Destination::Text => self.word_of_text(name, value),
            _ => {}
        }
    }

    fn word_of_text(&mut self, name: &str, value: i32) {
        match name {
            "u" => self.unicode(value),
            "par" | "sect" => self.end_paragraph(),
            "line" | "nestrow" => self.say('\n'),
            "cell" if self.captures == 0 => self.end_cell(),
            "row" if self.captures == 0 => self.table.end_row(),
            "nestcell" | "cell" => self.say(' '),
            "trowd" => (self.table.hangs, self.table.is_header) = (Vec::new(), false),
            "trhdr" => self.table.is_header = true,
            "clvmrg" => self.table.is_hanging = true,
            "cellx" => {
                let hangs = std::mem::take(&mut self.table.is_hanging);
                self.table.hangs.push(hangs);
            }
            // A note within a paragraph has paragraphs of its own.
            "pard" if self.captures == 0 => self.paragraph = Paragraph::default(),
            "intbl" if self.captures == 0 => self.paragraph.is_cell = true,
            "s" if self.captures == 0 => self.paragraph.style = value,
            "ilvl" if self.captures == 0 => {
                self.paragraph.depth = u8::try_from(value).unwrap_or_default().min(8);
            }
            "outlinelevel" if self.captures == 0 => self.paragraph.level = level(value),
            name => {
                if let Some(letter) = sign(name) {
                    match self.to_skip.checked_sub(1) {
                        Some(left) => self.to_skip = left,
                        None => self.say(letter),
                    }
                }
            }
        }
    }

    /// Adds a character by its code unit, or remembers half of it.
    fn unicode(&mut self, number: i32) {
        self.to_skip = self.current().in_place;
        // Code units above 32,767 are written as negative numbers.
        let Ok(unit) = u16::try_from(number.rem_euclid(1 << 16)) else { return };
        let units = self.half.take().into_iter().chain([unit]);
        match char::decode_utf16(units).last() {
            // Symbol fonts use private code points, which mean nothing.
            Some(Ok('\u{e000}'..='\u{f8ff}')) => {}
            Some(Ok(letter)) => self.say(letter),
            _ => self.half = Some(unit),
        }
    }

    fn end_paragraph(&mut self) {
        if self.captures > 0 || self.paragraph.is_cell {
            self.say('\n');
        } else if self.is_heard() {
            self.emit();
        }
    }

    fn end_cell(&mut self) {
        self.decode();
        let mut text = std::mem::take(&mut self.text);
        if let Some(marker) = self.marker.take() {
            text.insert_str(0, &format!("{marker} "));
        }
        self.table.row.push(text);
    }

    /// Adds the paragraph, and the notes and other texts collected for it.
    fn emit(&mut self) {
        self.decode();
        self.table.add(self.parts);
        let (text, marker) = (std::mem::take(&mut self.text), self.marker.take());
        let Paragraph { style, level, depth, .. } = self.paragraph;
        // A bullet in front of an item carries no information.
        let number = marker.as_deref().filter(|marker| marker.chars().any(char::is_alphanumeric));
        let is_empty = text.trim().is_empty();
        let text = match number {
            Some(number) => format!("{number} {text}"),
            None => text,
        };
        match (level.or_else(|| self.headings.get(&style).copied()), &marker) {
            _ if is_empty => {}
            (Some(level), _) => self.parts.heading(level, &text),
            (None, Some(_)) => self.parts.item(depth, &text),
            (None, None) => self.parts.paragraph(&text),
        }
        for note in std::mem::take(&mut self.notes) {
            self.parts.paragraph(&note);
        }
    }

    fn finish(&mut self) {
        // A truncated file leaves groups open, and those hold the text around them.
        while !self.groups.is_empty() {
            self.close();
        }
        self.emit();
    }
}

/// Whether a name is in a list of names separated by spaces.
fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|one| one == name)
}

/// Level of a heading; outline level 9 is body text.
fn level(value: i32) -> Option<u8> {
    u8::try_from(value).ok().filter(|level| *level < 9).map(|level| level + 1)
}

/// The address in `HYPERLINK "https://example.com"`.
fn hyperlink(instruction: &str) -> Option<String> {
    let said = instruction.trim().strip_prefix("HYPERLINK")?;
    let address = said.split('"').nth(1).map(str::trim)?;
    (!address.is_empty() && address.len() <= office::ADDRESS_BYTES_MAX).then(|| address.to_owned())
}
