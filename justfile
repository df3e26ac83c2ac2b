# Names for commands. `just check` is exactly what runs before anything lands.

# Lists the names.
default:
    @just --list

# Everything that must pass.
check:
    .ci/run

# The shortest way to see Weft work.
demo *arguments:
    cargo run -p weft-cli -- demo {{arguments}}

# All tests.
test:
    cargo test --workspace

# The tests of one crate: just test-one engine
test-one crate:
    cargo test -p weft-{{crate}}

# Formatting, lints, and the checks of the whole.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask check

# Writes the expected events of the sample canvases again; read the diff.
update-events:
    UPDATE=1 cargo test --workspace

# Licences, advisories and sources; needs cargo-deny.
deny:
    cargo deny check
