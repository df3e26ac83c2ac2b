#!/usr/bin/env bash
# Makes `program.wasm.zst`, the interpreter that runs programs in Python: CPython as a WebAssembly component whose
# memory holds the standard library, the time zones, `guest.py` and what follows it. Needs Python 3 with venv, its package registry, and zstd.
#
# The result is kept beside this file, so that nobody needs this to build Weft. `sources.sha256` says what it was made
# of, and `program.sha256` names it; a test compares both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly COMPONENTIZE=componentize-py==0.25.1
readonly ZONES=tzdata==2026.6
readonly SOURCES=(app.py files.py guest.py modules.py threads.py world.wit zones.py)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install "$COMPONENTIZE" "$ZONES"
mkdir "$work/app"
cp app.py modules.py zones.py "$work/app"
cat guest.py files.py threads.py > "$work/app/guest.py"
"$work/venv/bin/python" - "$work/app/zone_data.py" <<'PYTHON'
import sys
from importlib.resources import files

folder = files("tzdata")
names = (folder / "zones").read_text().split()
zones = {name: folder.joinpath("zoneinfo", *name.split("/")).read_bytes() for name in names}
with open(sys.argv[1], "w") as data:
    data.write(f"ZONES = {zones!r}\n")
PYTHON
# A virtual environment of whoever runs this has no part in it.
env -u VIRTUAL_ENV "$work/venv/bin/componentize-py" --wit-path world.wit --world program \
  componentize app --python-path "$work/app" --output "$work/whole.wasm"
python3 strip.py "$work/whole.wasm" "$work/program.wasm"
zstd --quiet --force -19 "$work/program.wasm" -o program.wasm.zst
sha256sum "${SOURCES[@]}" > sources.sha256
sha256sum program.wasm.zst > program.sha256
ls -l program.wasm.zst
