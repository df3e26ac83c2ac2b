//! Sheets of XLSX.
#![no_main]

use weft_fuzz::OFFICE;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weft_fuzz::read_part(
    "a.xlsx",
    "xl/worksheets/sheet1.xml",
    bytes,
    &[
        (
            "xl/workbook.xml",
            &format!(
                "<workbook xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main' xmlns:r='{OFFICE}'>
                 <sheets><sheet name='a' sheetId='1' r:id='a'/></sheets></workbook>"
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            &format!(
                "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'>
                 <Relationship Id='a' Type='{OFFICE}/worksheet' Target='worksheets/sheet1.xml'/></Relationships>"
            ),
        ),
    ],
)
});
