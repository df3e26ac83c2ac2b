//! Source code, as one element.

use super::{FileContents, FileFormat, FileInput, ReadResult};
use crate::parts::PartCollector;
use crate::words::decode;

/// Source code, recognized by the usual file name extensions.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "source code",
    endings: &[
        "py",
        "pyi",
        "js",
        "mjs",
        "cjs",
        "jsx",
        "ts",
        "tsx",
        "java",
        "kt",
        "kts",
        "scala",
        "groovy",
        "c",
        "h",
        "cc",
        "cpp",
        "cxx",
        "hpp",
        "hh",
        "cs",
        "go",
        "rs",
        "rb",
        "php",
        "swift",
        "m",
        "mm",
        "r",
        "jl",
        "lua",
        "pl",
        "pm",
        "sh",
        "bash",
        "zsh",
        "fish",
        "ps1",
        "bat",
        "sql",
        "hs",
        "ml",
        "mli",
        "fs",
        "clj",
        "erl",
        "ex",
        "exs",
        "dart",
        "zig",
        "nim",
        "vue",
        "svelte",
        "css",
        "scss",
        "less",
        "proto",
        "graphql",
        "cmake",
        "mk",
        "gradle",
        "tf",
        "toml",
        "yaml",
        "yml",
        "ini",
        "cfg",
        "conf",
        "properties",
        "env",
        "dockerfile",
        "vb",
        "asm",
        "s",
        "f90",
        "f",
        "pas",
        "lisp",
        "el",
        "vim",
    ],
    is_binary: false,
    looks: |contents: &FileContents<'_>| contents.bytes.starts_with(b"#!"),
    read,
};

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::default();
    let text = decode(file.bytes);
    let ending = file.ending();
    let language = FORMAT.endings.contains(&&*ending).then(|| language(&ending).to_owned());
    parts.code(language, &text.replace("\r\n", "\n"));
    Ok(parts.finish())
}

/// Name of a language whose file name extension differs from it.
fn language(ending: &str) -> &str {
    match ending {
        "py" | "pyi" => "python",
        "js" | "mjs" | "cjs" | "jsx" => "javascript",
        "ts" | "tsx" => "typescript",
        "kt" | "kts" => "kotlin",
        "h" => "c",
        "cc" | "cxx" | "hpp" | "hh" => "cpp",
        "cs" => "csharp",
        "rs" => "rust",
        "rb" => "ruby",
        "jl" => "julia",
        "pl" | "pm" => "perl",
        "bash" | "zsh" | "fish" => "sh",
        "hs" => "haskell",
        "ml" | "mli" => "ocaml",
        "ex" | "exs" => "elixir",
        "erl" => "erlang",
        "yml" => "yaml",
        other => other,
    }
}
