//! Slides of PPTX.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::read_part(
    "a.pptx",
    "ppt/slides/slide1.xml",
    bytes,
    &[
        ("ppt/presentation.xml", "<p:sldIdLst><p:sldId r:id='a'/></p:sldIdLst>"),
        ("ppt/_rels/presentation.xml.rels", "<R><R Id='a' Type='x/slide' Target='slides/slide1.xml'/></R>"),
    ],
));
