//! WebAssembly components that are tools, written in the text format: what a compiler would generate.

/// A tool. Its behaviour is given in the text format of core modules.
#[derive(Clone, Copy, Debug)]
pub struct WasmToolText<'a> {
    /// What `describe` returns.
    pub description: &'a str,
    /// Fields of its module, such as `(start …)` with its function, or more memories.
    pub module: &'a str,
    /// Body of `call`, with `$text` and `$length` as address and length of its arguments. It leaves the address of its
    /// result;
    /// [`WasmToolText::OK`] returns the `$length` bytes at `$text`.
    pub call: &'a str,
    /// Imports of the component, which its module gets under the name `outside`.
    pub imports: &'a str,
}

impl Default for WasmToolText<'_> {
    fn default() -> Self {
        Self { description: Self::ECHO, module: "", call: Self::OK, imports: "" }
    }
}

impl WasmToolText<'_> {
    /// The description of a tool that returns its arguments.
    pub const ECHO: &'static str = r#"{"name": "echo", "description": "Says what it is told.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}"#;
    /// Returns the text at `$text`.
    pub const OK: &'static str = "(call $result (i32.const 0) (local.get $text) (local.get $length))";
    /// Returns the text at `$text` as an error.
    pub const ERR: &'static str = "(call $result (i32.const 1) (local.get $text) (local.get $length))";

    /// The bytes of the component.
    ///
    /// # Panics
    /// If the text is not valid.
    #[expect(clippy::expect_used, reason = "the text is a test's own")]
    pub fn bytes(&self) -> Vec<u8> {
        wat::parse_str(self.text()).expect("a component")
    }

    fn text(&self) -> String {
        let Self { description, module, call, imports } = self;
        let outside = if imports.is_empty() { "" } else { "(with \"outside\" (instance $outside))" };
        let (length, pages) = (description.len(), description.len() / 65_536 + 2);
        let escaped: String = description.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        format!(
            r#"(component
  {imports}
  (core module $tool
    {module}
    (memory (export "memory") {pages})
    (data (i32.const 64) "{escaped}")
    (global $free (mut i32) (i32.const {free}))
    (func $room (export "room") (param i32 i32 i32) (param $bytes i32) (result i32)
      (local $at i32)
      (local.set $at (global.get $free))
      (global.set $free (i32.add (global.get $free) (local.get $bytes)))
      (block $enough
        (loop $again
          (br_if $enough (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
          (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
          (unreachable)))
      (local.get $at))
    (func $result (param $kind i32) (param $text i32) (param $length i32) (result i32)
      (i32.store8 (i32.const 16) (local.get $kind))
      (i32.store (i32.const 20) (local.get $text))
      (i32.store (i32.const 24) (local.get $length))
      (i32.const 16))
    (func (export "describe") (result i32)
      (i32.store (i32.const 0) (i32.const 64))
      (i32.store (i32.const 4) (i32.const {length}))
      (i32.const 0))
    (func (export "call") (param $text i32) (param $length i32) (result i32) {call}))
  (core instance $made (instantiate $tool {outside}))
  (func (export "describe") (result string)
    (canon lift (core func $made "describe") (memory (core memory $made "memory")) (realloc (core func $made "room"))))
  (func (export "call") (param "arguments" string) (result (result string (error string)))
    (canon lift (core func $made "call") (memory (core memory $made "memory")) (realloc (core func $made "room")))))"#,
            free = 64 + length.next_multiple_of(64),
        )
    }
}
