//! Settings from files, the environment and flags.

use std::process::Stdio;

use crate::weft::{Home, ended, sample};

#[test]
fn every_wrong_setting_is_named_at_once_with_its_source() {
    let home = Home::new();
    home.write(
        "weft.toml",
        "lisen = \"x\"\n[limits]\nrun_seconds = \"soon\"\nnodes_at_once = 0\n[net]\nallow = [\"http://x\"]\n",
    );
    let mut command = home.command(&["check", "c.json"]);
    command.env("WEFT_STORE__URI", "sqlite:x").env("WEFT_LIMITS__PAGE_SIZE", "many");
    ended(&mut command).with(2).says(&[
        "`lisen` in weft.toml, line 1: ",
        "`limits.run_seconds` in weft.toml, line 3: ",
        "WEFT_STORE__URI in the environment",
        "WEFT_LIMITS__PAGE_SIZE in the environment",
        "limits.nodes_at_once must be at least 1",
        "net.allow",
    ]);
}

#[test]
fn a_missing_settings_file_is_reported_by_every_command() {
    let home = Home::new();
    let check = |command: &[&str], words: &str| {
        home.weft(&[&["--config", "absent.toml"], command].concat()).with(2).says(&[words]);
    };
    check(&["settings"], "there is no file absent.toml, which --config names");
    check(&["runs", "list"], "cannot use the settings: cannot read absent.toml");
    home.weft(&["settings"]).with(0);
}

#[test]
fn the_command_that_prints_settings_reports_the_wrong_ones_of_a_named_file() {
    let home = Home::new();
    home.write("wrong.toml", "[limits]\npage_size = -1\n");
    let printed = home.weft(&["--config", "wrong.toml", "settings"]).with(2);
    assert!(printed.stdout.is_empty(), "{}", printed.stdout);
    printed.says(&["cannot use the settings", "`limits.page_size` in wrong.toml, line 2"]);
    home.write("right.toml", "[limits]\npage_size = 7\n");
    home.weft(&["--config", "right.toml", "settings"]).with(0);
}

#[test]
fn two_models_with_the_same_name_are_refused() {
    let entry = |more: &str| {
        format!("[[models.entries]]\nname = \"a\"\nbase_url = \"http://127.0.0.1:9/v1\"\n{more}")
    };
    let home = Home::new();
    home.settings([entry(""), entry("kind = \"embedding\"\n"), entry("kind = \"vision\"\n")].concat());
    let told = ["models.entries.0 and models.entries.2 are both the model `a@openai`"];
    home.weft(&["tasks"]).with(2).says(&told);
    // Models of another provider or of another kind are different.
    home.settings([entry(""), entry("factory = \"VLLM\"\n"), entry("kind = \"embedding\"\n")].concat());
    home.weft(&["tasks"]).with(0);
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let home = Home::new();
    home.settings("data = \"from-file\"\n[[models.entries]]\nname = \"e\"\nprovider = \"extractive\"\n");
    let greet = sample("greet");
    let run = |more: &[&str], variable: Option<&str>| {
        let arguments = [&["run", &greet, "--query", "x"], more].concat();
        let mut command = home.command(&arguments);
        ended(command.envs(variable.map(|value| ("WEFT_DATA", value))).stdin(Stdio::null())).with(0)
    };
    let there = || ["from-file", "from-environment", "from-flag"].map(|name| home.path().join(name).exists());
    run(&["--data", "from-flag"], Some("from-environment"));
    assert_eq!(there(), [false, false, true]);
    run(&[], Some("from-environment"));
    assert_eq!(there(), [false, true, true]);
    run(&[], None);
    assert_eq!(there(), [true, true, true]);
}

#[test]
fn a_named_settings_file_must_exist() {
    let home = Home::new();
    home.write(
        "other.toml",
        "data = \"named\"\n[[models.entries]]\nname = \"e\"\nprovider = \"extractive\"\n",
    );
    home.weft(&["run", &sample("greet"), "--config", "other.toml"]).with(0);
    assert!(home.path().join("named").exists());
    home.weft(&["runs", "list", "--config", "absent.toml"])
        .with(2)
        .says(&["cannot use the settings: cannot read absent.toml"]);
    home.write("broken.toml", "data = [");
    home.weft(&["runs", "list", "--config", "broken.toml"])
        .with(2)
        .says(&["broken.toml is not TOML", "line 1"]);
}

#[test]
fn variables_set_by_a_container_scheduler_are_not_settings() {
    let home = Home::quoting();
    let mut command = home.command(&["runs", "list"]);
    ended(command.env("WEFT_PORT_9380_TCP", "tcp://10.0.0.1:9380"))
        .with(0)
        .says(&["WEFT_PORT_9380_TCP", "not a setting"]);
}

#[test]
fn a_missing_key_variable_is_named() {
    let home = Home::new();
    home.settings("[[models.entries]]\nname = \"m\"\napi_key_env = \"MY_KEY\"\n");
    home.weft(&["run", &sample("greet")]).with(2).says(&["MY_KEY"]);
}
