//! What the targets have in common.

use std::io::{Cursor, Write as _};
use std::panic::PanicHookInfo;
use std::sync::Once;

use weft_core::seam::document_reader::{ChunkMethod, ReadRequest};
use weft_parse::DocumentSettings;
use zip::write::SimpleFileOptions;

/// Reads a file of this name. Whatever comes of it, something has to.
pub fn read(name: &str, bytes: &[u8]) {
    watch();
    let _ = weft_parse::parse(name, bytes, &DocumentSettings::new());
}

/// Reads an archive with one changed part, since changes of the archive itself only break its checksums.
pub fn read_part(name: &str, path: &str, bytes: &[u8], others: &[(&str, &str)]) {
    read(name, &archive(path, bytes, others).unwrap_or_default());
}

/// Reads a file and cuts it: the first bytes say how, the rest is Markdown.
pub fn cut(bytes: &[u8]) {
    watch();
    let Some((&[method, limit, overlap, context, delimiter, children, html, _], bytes)) =
        bytes.split_first_chunk()
    else {
        return;
    };
    let mut settings = DocumentSettings::new();
    settings.insert("chunk_token_num".to_owned(), (u32::from(limit) * 8 + 1).into());
    settings.insert("overlapped_percent".to_owned(), (overlap % 91).into());
    settings.insert("table_context_size".to_owned(), context.into());
    settings.insert("delimiter".to_owned(), delimiters(delimiter).unwrap_or("\n").into());
    settings.insert("children_delimiter".to_owned(), delimiters(children).unwrap_or_default().into());
    settings.insert("html4excel".to_owned(), (html % 2 == 1).into());
    let name = if html & 2 == 0 { "a.md" } else { "a.csv" };
    let method = ChunkMethod::ALL[usize::from(method) % ChunkMethod::ALL.len()];
    let _ = weft_parse::read(&ReadRequest { name: name.to_owned(), method, settings }, bytes);
}

fn delimiters(number: u8) -> Option<&'static str> {
    ["\n", "\n!?。；！？", "`##`", "a`bc`d", "``", " "].get(usize::from(number)).copied()
}

/// A panic of a library is caught where the file is read, and is its reason; one of ours is found.
///
/// The hook of the fuzzer ends the process on every panic, caught or not.
fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let fail = std::panic::take_hook();
        let all = std::env::var_os("FUZZ_LIBRARIES").is_some();
        std::panic::set_hook(Box::new(move |panic| {
            if all || !is_of_library(panic) {
                fail(panic);
            }
        }));
    });
}

fn is_of_library(panic: &PanicHookInfo<'_>) -> bool {
    panic.location().is_some_and(|place| place.file().contains("/registry/src/"))
}

fn archive(path: &str, bytes: &[u8], others: &[(&str, &str)]) -> std::io::Result<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(path, SimpleFileOptions::default())?;
    writer.write_all(bytes)?;
    for (path, text) in others {
        writer.start_file(*path, SimpleFileOptions::default())?;
        writer.write_all(text.as_bytes())?;
    }
    Ok(writer.finish()?.into_inner())
}

/// What the kinds of relations between parts begin with.
pub const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
