//! All sandboxes keep the contract, in every language that they run.

use weft_sandbox::{InProcess, LIMITS};
use weft_testkit::contracts::sandbox::{JAVASCRIPT, PYTHON_FILES, sandbox_keeps_its_contract};

use crate::kit::{sandbox, sandbox_of_python};

#[tokio::test]
async fn programs_in_processes_keep_the_contract() {
    sandbox_keeps_its_contract(&sandbox(), &JAVASCRIPT).await;
}

#[tokio::test]
async fn programs_in_this_process_keep_the_contract() {
    sandbox_keeps_its_contract(&InProcess::new(LIMITS), &JAVASCRIPT).await;
}

#[tokio::test]
async fn programs_in_python_keep_the_contract() {
    sandbox_keeps_its_contract(&sandbox_of_python(), &PYTHON_FILES).await;
}
