//! Canvases are checked before they run: against the components, models and secrets there are.

use std::sync::Arc;

use weft_core::seam::secrets::PREFIX;
use weft_core::{Error, ErrorKind, Result, TenantId};
use weft_dsl::{CompileOptions, Plan, Problem};

use crate::app::App;
use crate::plans::compact;

/// Whether the models that a canvas names have to be there.
#[derive(Clone, Copy)]
pub(crate) enum Models {
    /// To run it.
    Needed,
    /// To look at what it did, or to do that again from its journal.
    NotAsked,
}

impl App {
    /// The names of the secrets there are, for a canvas that may name some and is to be checked.
    async fn secrets_to_check(
        &self,
        tenant: &TenantId,
        dsl: &str,
        models: Models,
    ) -> Result<Option<Vec<String>>> {
        if matches!(models, Models::NotAsked) || !dsl.contains(PREFIX) {
            return Ok(None);
        }
        let known = self.secrets.list(tenant).await?;
        Ok(Some(known.into_iter().map(|info| info.name.to_string()).collect()))
    }

    /// Everything that was found in a canvas, as it stands in the JSON.
    ///
    /// # Errors
    /// `Invalid` when the text is no JSON object.
    pub async fn check_canvas(&self, tenant: &TenantId, dsl: &str) -> Result<Vec<Problem>> {
        let dsl: Arc<str> = compact(dsl)?.into();
        Ok(match self.compiled(tenant, dsl, Models::Needed).await? {
            Ok((_, warnings)) => warnings,
            Err(problems) => problems,
        })
    }

    /// Compiling a large canvas takes long enough to hold up others on the same thread.
    pub(crate) async fn compiled(
        &self,
        tenant: &TenantId,
        dsl: Arc<str>,
        models: Models,
    ) -> Result<Result<(Plan, Vec<Problem>), Vec<Problem>>> {
        let (catalog, check, tenant) =
            (Arc::clone(&self.catalog), Arc::clone(&self.model_check), tenant.clone());
        let measuring = self.measuring;
        let no_voice = self.models.speech(&tenant, "").err().map(|error| error.full());
        let secrets = self.secrets_to_check(&tenant, &dsl, models).await?;
        let compiled = tokio::task::spawn_blocking(move || {
            let canvas = weft_dsl::load(dsl.as_bytes())?;
            let check = |llm_id: &str| check(&tenant, llm_id);
            let check: &dyn Fn(&str) -> Result<Option<String>, String> = &check;
            let models = matches!(models, Models::Needed).then_some(check);
            let no_voice = models.and(no_voice.as_deref());
            let secrets = secrets.as_deref();
            let options =
                CompileOptions { models, no_voice, secrets, measuring, ..CompileOptions::default() };
            weft_dsl::compile(&canvas, &catalog, &options).map(|compiled| (compiled.plan, compiled.warnings))
        });
        compiled
            .await
            .map_err(|cause| Error::internal("the check of the canvas stopped unexpectedly").because(cause))
    }
}

/// All problems that keep a canvas from running, as one error.
pub fn refusal(problems: &[Problem]) -> Error {
    let errors: Vec<String> =
        problems.iter().filter(|problem| problem.is_error()).map(ToString::to_string).collect();
    let count = match errors.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    Error::new(ErrorKind::Invalid, format!("the canvas cannot run, it has {count}: {}", errors.join("; ")))
}
