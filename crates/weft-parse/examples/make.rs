//! Makes a document of every kind from Markdown: `cargo run -p weft-parse --example make -- FILE.md FOLDER`
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for the terminal")]

use weft_core::seam::document_writer::{
    DocumentContent, DocumentFormat, DocumentWriter as _, PageSettings, WriteRequest,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("name a file of Markdown and a folder".into());
    };
    let text = std::fs::read_to_string(file)?;
    let tenant = weft_core::TenantId::new("example");
    for format in DocumentFormat::ALL {
        let page = PageSettings { title: "Sample".to_owned(), page_numbers: true, ..PageSettings::default() };
        let request = WriteRequest { format, content: DocumentContent::Markdown(text.clone()), page };
        match weft_parse::InProcess::default().write(&tenant, &request).await {
            Ok(made) => std::fs::write(format!("{folder}/made.{}", format.ending()), made.bytes)?,
            Err(error) => println!("{}: {}", format.name(), error.full()),
        }
    }
    Ok(())
}
