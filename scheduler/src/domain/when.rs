//! shim
use super::reference::{Fault, Reference, Scope};
/// w
#[derive(Debug)]
pub struct When;
impl When {
    /// p
    pub fn parse(_text: &str) -> Result<Self, Fault> {
        Ok(Self)
    }
    /// r
    pub fn references(&self) -> Vec<Reference> {
        Vec::new()
    }
    /// h
    pub fn holds(&self, _scope: &Scope) -> Result<bool, String> {
        Ok(true)
    }
}
