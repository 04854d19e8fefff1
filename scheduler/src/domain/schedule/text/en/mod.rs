//! The grammar in English.
//!
//! ```text
//! text     = steps | weekly | monthly | cycle
//! steps    = "every" [N] ("second" | "minute" | "hour") ["at minute" M] ["between" TIME "and" TIME] ["on" days]
//! weekly   = "every" ("day" | "weekday" | "weekend day" | WEEKDAYS) at
//! monthly  = ["on"] ["the"] monthday "of" ("the month" | "every month" | MONTHS) at
//! cycle    = "every" ("other" | N) ("day" | "week on" WEEKDAYS | "month on" ["the"] monthday | WEEKDAY) at ["starting" DATE]
//! monthday = "day" N | "last day" | ("first" | "last") "weekday" | ("first" … "fifth" | "last") WEEKDAY
//! days     = "weekdays" | "weekends" | WEEKDAYS
//! at       = "at" TIME {"," TIME} ["and" TIME]
//! ```

mod read;
mod say;

pub(super) use self::{read::read, say::say};

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
