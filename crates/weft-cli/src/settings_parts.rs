//! Parts of the settings that refer to something else: keys in the environment, and files of plugins.

use weft_app::Config;

use crate::settings::Environment;

/// The parts of the settings that a command needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parts {
    /// All of them.
    #[default]
    All,
    /// What the store needs: a missing key or a wrong plugin must not keep anybody from revoking a token.
    Store,
}

impl Parts {
    /// Adds what models and MCP servers need from elsewhere, or removes both.
    pub(crate) fn complete(
        self,
        mut config: Config,
        environment: &Environment,
        wrong: &mut Vec<String>,
    ) -> Config {
        if self == Self::Store {
            let Config { models, mcp, .. } = Config::default();
            return Config { models, mcp, ..config };
        }
        let variable = |name: &str| environment.text(name).map(str::to_owned);
        match config.models.clone().with_keys(variable) {
            Ok(models) => config.models = models,
            Err(error) => wrong.push(error.full()),
        }
        match config.clone().with_plugin_servers() {
            Ok(with) => config = with,
            Err(error) => wrong.push(error.full()),
        }
        match config.mcp.clone().with_environment(variable) {
            Ok(mcp) => config.mcp = mcp,
            Err(unset) => wrong.extend(unset),
        }
        config
    }
}
