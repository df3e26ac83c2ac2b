//! Inputs of every command.

use weft_app::{App, Config};

use crate::failure::{Failure, Outcome};
use crate::models;
use crate::report::Colour;
use crate::settings::{self, Environment, Flags};
use crate::settings_parts::Parts;
use crate::store_place;
use crate::words::quoted;

/// The settings, and properties of the output.
#[derive(Debug)]
pub(crate) struct Setup {
    /// All settings, with the models that were found.
    pub config: Config,
    /// A sentence that names the model in use.
    pub model: String,
    /// The parts of the settings that were read.
    pub parts: Parts,
    /// Whether reports on standard error are coloured.
    pub colour: Colour,
    /// Flags that select the same data in another command, each with a space before it.
    pub same_place: String,
    /// The flag that selects the same model in another command, with a space before it.
    pub same_model: String,
}

impl Setup {
    /// Reads the settings and looks for models.
    ///
    /// # Errors
    /// When a setting is not valid.
    pub(crate) async fn read(environment: &Environment, flags: &Flags) -> Outcome<Self> {
        let setup = Self::without_models(environment, flags)?;
        let mut config = setup.config;
        let model = models::find(&mut config, environment).await?;
        models::check_flag(&config.models, flags.model.as_deref())?;
        Ok(Self { config, model, ..setup })
    }

    /// The same for a command that calls no model.
    ///
    /// # Errors
    /// When a setting is not valid, or the command needs a store and there is none.
    pub(crate) fn without_models(environment: &Environment, flags: &Flags) -> Outcome<Self> {
        let config = settings::read(environment, flags)?;
        store_place::check(&config, flags)?;
        let given = [("--config", &flags.config), ("--data", &flags.data)];
        let same_place = given.iter().filter_map(|(flag, path)| {
            Some(format!(" {flag} {}", quoted(&path.as_ref()?.to_string_lossy())))
        });
        let same_place = same_place.collect();
        let same_model = flags.model.as_deref().map(|name| format!(" --model {}", quoted(name)));
        Ok(Self {
            config,
            model: String::new(),
            parts: flags.parts,
            colour: Colour::for_people(environment),
            same_place,
            same_model: same_model.unwrap_or_default(),
        })
    }

    /// The same for a command that only uses the store, which works whatever is wrong with models and plugins.
    ///
    /// # Errors
    /// When another setting is not valid, or the command needs a store and there is none.
    pub(crate) fn of_store(environment: &Environment, flags: &Flags) -> Outcome<Self> {
        Self::without_models(environment, &Flags { parts: Parts::Store, ..flags.clone() })
    }

    /// Opens the store, and all else unless the command only uses the store.
    ///
    /// # Errors
    /// When a part cannot be opened.
    pub(crate) async fn open(&self) -> Outcome<App> {
        let opened = match self.parts {
            Parts::All => weft_app::assemble(&self.config).await,
            Parts::Store => weft_app::assemble_store(&self.config).await,
        };
        opened.map_err(|error| Failure::before_running(&error))
    }
}
