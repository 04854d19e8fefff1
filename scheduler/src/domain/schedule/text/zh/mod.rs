//! The grammar in Chinese.
//!
//! ```text
//! text     = steps | weekly | monthly | cycle
//! steps    = [days] [TIME "至" TIME "之间"] "每" [N] ("秒" | "分钟" | "小时") ["第" M "分"]
//! weekly   = days TIMES
//! monthly  = ("每月" | "每年" MONTHS) monthday TIMES
//! cycle    = "每" N ("天" | "周的" 周… | "个月的" monthday) TIMES ["，从" DATE "起"]
//! days     = "每天" | "每个工作日" | "每个周末" | "每周" WEEKDAYS
//! monthday = N "日" | "最后一天" | ("第一个" | "最后一个") "工作日" | ("第一个" … "第五个" | "最后一个") 周…
//! ```
//!
//! White space counts for nothing; lists are joined by `、`.

mod read;
mod say;

pub(super) use self::{read::read, say::say};

const WEEKDAYS: [&str; 7] = ["日", "一", "二", "三", "四", "五", "六"];
const COUNTS: [&str; 10] = ["一", "二", "三", "四", "五", "六", "七", "八", "九", "十"];
