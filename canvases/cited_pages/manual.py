#!/usr/bin/env python3
"""Writes documents/manual.pdf. The device, its maker and every figure are invented for this sample.

    python3 canvases/cited_pages/manual.py

Needs nothing but Python, and gives the same bytes each time. The file is as small as a PDF with real text can be:
the fonts are those that every reader has, and each line is put where it stands.
"""

import pathlib
import textwrap

PAGES = [
    [
        "# Lindqvist Breeze 180 - Operating manual",
        "The Breeze 180 is a ventilation unit with heat recovery for flats and small houses. It blows fresh air into "
        "the bedrooms and living rooms and draws used air out of the kitchen and the bathroom. In the heat exchanger "
        "the outgoing air warms the incoming air without the two being mixed.",
        "## 1 What the unit can do",
        "At full power the unit moves 180 cubic metres of air an hour. The heat exchanger recovers up to 87 percent of "
        "the heat. In normal operation the unit draws 34 watts and makes 28 decibels, which is quieter than a whisper.",
        "The unit weighs 24 kilograms. It works in rooms between 5 and 40 degrees Celsius.",
        "## 2 What is in the box",
        "The unit, a wall bracket with four screws, two filters (already fitted), a drain hose of two metres, a control "
        "panel with a cable of ten metres, and this manual.",
    ],
    [
        "## 3 Mounting",
        "Mount the unit on a solid wall that carries at least 60 kilograms. Leave 50 centimetres free in front of it, so "
        "that the door can be opened and the filters can be taken out.",
        "Hang the unit level. The drain hose must fall by at least 2 centimetres for each metre, and it must end in a "
        "trap. Without a trap the unit sucks air through the hose, and water stays in the housing.",
        "## 4 The first start",
        "Close the door before you switch the unit on; with the door open the fans do not run. The unit measures the "
        "ducts for twelve minutes after the first start and shows a blinking green light for as long as that takes. Do "
        "not open any windows during this time.",
        "## 5 Levels",
        "Level 1 is for absence, level 2 for every day, level 3 for cooking and showering. Level 3 goes back to level 2 "
        "by itself after 45 minutes.",
    ],
    [
        "## 6 Changing the filters",
        "Both filters have to be changed every six months, and after building work at once. When it is time, the light "
        "on the control panel turns yellow. Switch the unit off, open the door, pull both filters out by their tabs and "
        "push the new ones in with the arrow pointing to the wall. Then hold the button on the panel for five seconds: "
        "the light turns green, and the unit begins to count anew.",
        "Use filters of the class ePM1 60 % on the fresh air side and ISO Coarse 70 % on the side of the used air. "
        "Filters must not be washed.",
        "## 7 Cleaning the heat exchanger",
        "Every two years the heat exchanger is drawn out and rinsed with lukewarm water of at most 35 degrees. Let it dry "
        "for a whole day before you put it back. Do not use detergents: they attack the membrane.",
        "## 8 The trap",
        "Fill the trap with half a litre of water each autumn. In summer it may run dry.",
    ],
    [
        "## 9 When something is wrong",
        "The control panel shows a code when the unit stops by itself.",
        "E1: the door is open. Close it.",
        "E3: the supply fan is blocked. Switch the unit off at the fuse, wait for ten minutes, take out the fresh air "
        "filter and remove what has got into the fan.",
        "E5: frost protection. The air from outside is colder than 15 degrees below zero; the unit starts again by itself "
        "when it has become warmer.",
        "E8: the trap is blocked, and water stands in the housing. Clean the trap and the hose.",
        "## 10 Warranty",
        "The warranty lasts for five years from the day of purchase. It ends early when the unit has been run without "
        "filters. Wear of the filters themselves is not covered.",
        "## 11 Disposal",
        "Take the unit to a collection point for electric devices. The heat exchanger and the housing are recycled.",
    ],
]

LEFT, TOP, LEADING = 64, 770, 15
SIZES = {"# ": 18, "## ": 13, "": 11}
WIDTHS = {"# ": 48, "## ": 66, "": 92}


def style(paragraph):
    mark = next(mark for mark in ("## ", "# ", "") if paragraph.startswith(mark))
    return mark, paragraph[len(mark):]


def escaped(text):
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def page(paragraphs, number):
    y, drawn = TOP, []

    def line(text, font, size, x=LEFT):
        drawn.append(f"BT /{font} {size} Tf {x} {y} Td ({escaped(text)}) Tj ET")

    for paragraph in paragraphs:
        mark, text = style(paragraph)
        y -= 10 if mark else 0
        for piece in textwrap.wrap(text, WIDTHS[mark]):
            line(piece, "Bold" if mark else "Plain", SIZES[mark])
            y -= LEADING + (4 if mark == "# " else 0)
        y -= 8
    y = 40
    line(f"Breeze 180 - page {number} of {len(PAGES)}", "Plain", 9)
    return "\n".join(drawn)


def main():
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{6 + 2 * n} 0 R' for n in range(len(PAGES)))}] /Count {len(PAGES)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
        "<< /Title (Lindqvist Breeze 180: operating manual \\(invented for a sample of Weft\\)) >>",
    ]
    for number, paragraphs in enumerate(PAGES, 1):
        drawn = page(paragraphs, number)
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /Plain 3 0 R /Bold 4 0 R >> >> /Contents {len(objects) + 2} 0 R >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    out += "".join(f"{place:010} 00000 n \n" for place in places)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 5 0 R >>\nstartxref\n{start}\n%%EOF\n"
    target = pathlib.Path(__file__).parent / "documents" / "manual.pdf"
    target.write_bytes(out.encode("ascii"))


if __name__ == "__main__":
    main()
