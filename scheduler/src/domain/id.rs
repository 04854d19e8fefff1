//! What people call a thing that has an id.

use uuid::Uuid;

/// How many digits of an id are told.
const SHORT_DIGITS: usize = 8;

/// The last 8 digits of an id: the first ones tell the time of its making, and are those of its neighbours.
pub fn short(id: Uuid) -> String {
    let mut digits = id.simple().to_string();
    digits.split_off(digits.len() - SHORT_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_called_by_its_last_digits() {
        assert_eq!(short(Uuid::from_u128(0x0193_66ab_7be0_7d21_8c00_0000_dead_beef)), "deadbeef");
    }
}
