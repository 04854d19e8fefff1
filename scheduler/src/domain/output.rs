//! shim
/// p
pub fn parse(bytes: &[u8]) -> Result<String, String> {
    if bytes.is_empty() {
        return Ok(String::new());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let map: std::collections::BTreeMap<&str, &str> = text.lines().filter_map(|l| l.split_once('=')).collect();
    serde_json::to_string(&map).map_err(|e| e.to_string())
}
