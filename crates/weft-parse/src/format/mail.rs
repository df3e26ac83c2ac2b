//! EML: headers, text and attachments of a mail.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mail_parser::{Address, Encoding, MessageParser, MessagePart, MimeHeaders as _, PartType};
use weft_core::seam::document_reader::FoundPictures;

use super::{FileContents, FileFormat, FileInput, ReadResult, html, text};
use crate::parts::PartCollector;
use crate::pictures::{Pictures, attachment, within};
use crate::unreadable::Unreadable;
use crate::words;

/// Mail messages in Internet format.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "EML",
    endings: &["eml", "mht", "mhtml"],
    is_binary: false,
    looks: |contents: &FileContents<'_>| looks(&contents.text()),
    read,
};

/// Maximum number of attachments of one mail.
const ATTACHMENTS_MAX: usize = 100;

/// A mail begins with headers, and some of them occur in every mail.
fn looks(text: &str) -> bool {
    let headers: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).take(100).collect();
    let is_header = |line: &&&str| {
        let name = line.split_once(':').map(|(name, _)| name);
        line.starts_with([' ', '\t'])
            || name.is_some_and(|name| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            })
    };
    let has = |wanted: &str| headers.iter().any(|line| line.to_ascii_lowercase().starts_with(wanted));
    headers.iter().all(|line| is_header(&line))
        // An archived web page has no sender.
        && (has("from:") && (has("subject:") || has("date:") || has("to:")) || has("mime-version:"))
}

/// The contents of a mail, independent of its file format.
#[derive(Debug, Default)]
pub(crate) struct ParsedMail {
    /// Subject of the mail.
    pub subject: String,
    /// Sender, recipients and date: header names with their values.
    pub headers: Vec<(&'static str, String)>,
    /// Plain text of the mail.
    pub text: String,
    /// The part of the text that is available as HTML but not as plain text; it follows the plain text.
    pub html: String,
    /// Names and bytes of the attachments.
    pub attachments: Vec<(String, Vec<u8>)>,
    /// Attached mails that are embedded as parts of this one instead of as files.
    pub mails: Vec<(String, ParsedMail)>,
}

impl ParsedMail {
    /// Adds a header if its value is not empty.
    pub(super) fn header(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        if !value.trim().is_empty() {
            self.headers.push((name, value));
        }
    }

    /// Adds the mail, and its attachments as far as they are readable.
    pub(super) fn add(&self, file: &FileInput<'_>, parts: &mut PartCollector) {
        parts.say("title", &self.subject);
        let header =
            |name: &str| self.headers.iter().find(|(one, _)| *one == name).map(|(_, value)| value.as_str());
        parts.say("author", header("From").unwrap_or_default());
        parts.say("date", header("Date").unwrap_or_default());
        parts.heading(1, &self.subject);
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        parts.paragraph(&headers.join("\n"));
        if !self.text.trim().is_empty() {
            text::paragraphs(&self.text, parts);
        }
        if !self.html.trim().is_empty() {
            html::fragment(&self.html, parts);
        }
        if self.attachments.len() > ATTACHMENTS_MAX {
            parts.warn(format!("only the first {ATTACHMENTS_MAX} attachments were read"));
        }
        for (number, (name, bytes)) in self.attachments.iter().take(ATTACHMENTS_MAX).enumerate() {
            parts.heading(2, &format!("Attachment: {name}"));
            // Identified by number, because several attachments may have the same name.
            let readings = within(file.readings, &attachment(number, name));
            match file.inner(name, bytes, &readings).read() {
                Ok(parsed) => parts.include(parsed),
                Err(Unreadable(reason)) => {
                    parts.warn(format!("cannot read the attachment `{name}`: {reason}"));
                }
            }
        }
        for (number, (name, mail)) in self.mails.iter().enumerate() {
            parts.heading(2, &format!("Attachment: {name}"));
            let readings = within(file.readings, &attachment(self.attachments.len() + number, name));
            let mut inner = PartCollector::with_pictures(&readings);
            // The mail is parsed already, so the bytes are not read again.
            mail.add(&file.inner(name, file.bytes, &readings), &mut inner);
            parts.include(inner.finish());
        }
    }

    /// Extracts the pictures that the text shows from attachments, and those in the attachments themselves.
    pub(super) fn pictures(&self, file: &FileInput<'_>) -> FoundPictures {
        let mut found = Pictures::default();
        if !self.html.trim().is_empty() {
            html::pictures_of_fragment(&self.html, &mut found);
        }
        for (number, (name, bytes)) in self.attachments.iter().take(ATTACHMENTS_MAX).enumerate() {
            if found.is_full() {
                break;
            }
            let inner = file.inner(name, bytes, &[]);
            // Unreadable attachments are reported when the mail is read; a panic in a library is handled like any other
            // error.
            if let Ok(Ok(pictures)) = catch_unwind(AssertUnwindSafe(|| inner.pictures())) {
                found.include(&attachment(number, name), pictures);
            }
        }
        for (number, (name, mail)) in self.mails.iter().enumerate() {
            let pictures = mail.pictures(&file.inner(name, file.bytes, &[]));
            found.include(&attachment(self.attachments.len() + number, name), pictures);
        }
        found.finish()
    }
}

/// Extracts the pictures of a mail.
pub(crate) fn pictures(file: &FileInput<'_>) -> Result<FoundPictures, Unreadable> {
    Ok(opened(file)?.pictures(file))
}

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::with_pictures(file.readings);
    opened(file)?.add(file, &mut parts);
    Ok(parts.finish())
}

fn opened(file: &FileInput<'_>) -> Result<ParsedMail, Unreadable> {
    // A mail saved as text by an editor may be in UTF-16 or UTF-32.
    let bytes = if words::is_wide(file.bytes) {
        Cow::Owned(words::decode(file.bytes).into_bytes())
    } else {
        with_known_letters(file.bytes)
    };
    let message =
        MessageParser::default().parse(&*bytes).ok_or_else(|| Unreadable::new("it is not a mail message"))?;
    let mut mail =
        ParsedMail { subject: message.subject().unwrap_or_default().to_owned(), ..ParsedMail::default() };
    mail.header("From", addresses(message.from()));
    mail.header("To", addresses(message.to()));
    mail.header("Cc", addresses(message.cc()));
    mail.header("Date", message.date().map(mail_parser::DateTime::to_rfc3339).unwrap_or_default());
    for part in message.text_bodies() {
        match &part.body {
            PartType::Text(text) => mail.text.push_str(&plain(part, &written(part, text, &bytes))),
            PartType::Html(text) => mail.html.push_str(&written(part, text, &bytes)),
            _ => {}
        }
        mail.text.push('\n');
    }
    for (number, part) in message.attachments().enumerate() {
        let name = part.attachment_name().map_or_else(|| format!("attachment {}", number + 1), str::to_owned);
        let (name, bytes) = match &part.body {
            PartType::Text(text) | PartType::Html(text) => (name, text.as_bytes().to_vec()),
            PartType::Binary(bytes) | PartType::InlineBinary(bytes) => (name, bytes.to_vec()),
            // The extension makes it recognized as a mail, whatever its headers are.
            PartType::Message(inner) => (format!("{name}.eml"), inner.raw_message().to_vec()),
            PartType::Multipart(_) => continue,
        };
        mail.attachments.push((name, bytes));
    }
    Ok(mail)
}

/// Converts the headers of a mail to UTF-8. Old programs write 8-bit characters without declaring an encoding.
fn with_known_letters(bytes: &[u8]) -> Cow<'_, [u8]> {
    let ends = |gap: &[u8]| bytes.windows(gap.len()).position(|found| found == gap);
    let end = [ends(b"\n\n"), ends(b"\r\n\r\n")].into_iter().flatten().min().unwrap_or(bytes.len());
    let (headers, rest) = bytes.split_at(end);
    match std::str::from_utf8(headers) {
        Ok(_) => Cow::Borrowed(bytes),
        Err(_) => Cow::Owned([words::decode(headers).as_bytes(), rest].concat()),
    }
}

/// Decodes the text of a part. If a part declares no encoding, or US-ASCII, the library assumes UTF-8.
fn written<'a>(part: &MessagePart<'_>, text: &'a str, mail: &[u8]) -> Cow<'a, str> {
    let raw = mail.get(part.offset_body as usize..part.offset_end as usize);
    match raw.filter(|_| part.encoding == Encoding::None && text.contains(char::REPLACEMENT_CHARACTER)) {
        Some(raw) => Cow::Owned(words::decode_as(raw, attribute(part, "charset"))),
        None => Cow::Borrowed(text),
    }
}

fn attribute<'a>(part: &'a MessagePart<'_>, name: &str) -> Option<&'a str> {
    part.content_type()?.attribute(name)
}

/// Joins the lines of each paragraph, if the mail declares that a line ending in a space continues on the next one (RFC
/// 3676).
fn plain<'a>(part: &MessagePart<'_>, text: &'a str) -> Cow<'a, str> {
    const SIGNATURE: &str = "-- ";
    if attribute(part, "format").is_none_or(|format| !format.eq_ignore_ascii_case("flowed")) {
        return Cow::Borrowed(text);
    }
    let is_yes = |said: &str| said.eq_ignore_ascii_case("yes");
    let dropped = usize::from(attribute(part, "delsp").is_some_and(is_yes));
    let (mut whole, mut goes_on) = (String::with_capacity(text.len()), None);
    for line in text.lines() {
        let quoted = line.len() - line.trim_start_matches('>').len();
        let said = line[quoted..].strip_prefix(' ').unwrap_or(&line[quoted..]);
        if goes_on != Some(quoted) || said == SIGNATURE {
            whole.push('\n');
            whole.push_str(&line[..quoted]);
            whole.push_str(if quoted > 0 { " " } else { "" });
        }
        let is_open = said.ends_with(' ') && said != SIGNATURE;
        goes_on = is_open.then_some(quoted);
        whole.push_str(&said[..said.len() - if is_open { dropped } else { 0 }]);
    }
    Cow::Owned(whole)
}

fn addresses(addresses: Option<&Address<'_>>) -> String {
    let shown = addresses.into_iter().flat_map(Address::iter).map(|one| match (one.name(), one.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => String::new(),
    });
    shown.filter(|one| !one.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::looks;

    #[test]
    fn mails_are_recognised_by_their_headers() {
        let check = |text: &str, expected: bool| assert_eq!(looks(text), expected, "{text}");
        check("From: a@example.com\nTo: b@example.com\n\nHi", true);
        check("MIME-Version: 1.0\nContent-Type: text/plain;\n charset=utf-8\n\nHi", true);
        check("From: here to there\nis a long way\n\n", false);
        check("Note: this\n\nis text", false);
    }
}
