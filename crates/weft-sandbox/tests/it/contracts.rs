//! Both sandboxes keep the contract.

use weft_sandbox::{InProcess, LIMITS};
use weft_testkit::contracts::sandbox::{JAVASCRIPT, sandbox_keeps_its_contract};

use crate::kit::sandbox;

#[tokio::test]
async fn programs_in_processes_keep_the_contract() {
    sandbox_keeps_its_contract(&sandbox(), &JAVASCRIPT).await;
}

#[tokio::test]
async fn programs_in_this_process_keep_the_contract() {
    sandbox_keeps_its_contract(&InProcess::new(LIMITS), &JAVASCRIPT).await;
}
