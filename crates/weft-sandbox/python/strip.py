"""Takes the names of functions and the notes of compilers out of a WebAssembly component.

    strip.py IN OUT
"""

import sys

CUSTOM, CORE_MODULE, COMPONENT = 0, 1, 4
PREAMBLE = 8
# The layer, in the second half of the version, is 0 for modules and 1 for components.
LAYER = 6
NEEDLESS = (b"name", b"producers", b"target_features", b"component-name")


def number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def written(value):
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def stripped(data):
    out = bytearray(data[:PREAMBLE])
    component = data[LAYER] == 1
    at = PREAMBLE
    while at < len(data):
        kind = data[at]
        size, start = number(data, at + 1)
        body = data[start : start + size]
        at = start + size
        if kind == CUSTOM:
            length, name = number(body, 0)
            name = body[name : name + length]
            if name in NEEDLESS or name.startswith(b".debug"):
                continue
        elif component and kind in (CORE_MODULE, COMPONENT):
            body = stripped(body)
        out.append(kind)
        out += written(len(body)) + body
    return bytes(out)


if __name__ == "__main__":
    source, target = sys.argv[1:]
    with open(source, "rb") as file:
        data = file.read()
    with open(target, "wb") as file:
        file.write(stripped(data))
