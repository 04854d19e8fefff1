//! Draws the table of `docs/placement.md` from the functions that choose, so that a change of behaviour shows up in review
//! as a changed line.

use std::fmt::Write as _;

use super::*;

/// The mark before the drawn part of the page; what stands above it is written by hand.
const MARK: &str = "<!-- drawn by a test; everything below is overwritten -->\n";

/// Four runners: id, slots, idle slots, the number of its last dispatch, how much it was given lately.
const RUNNERS: [(&str, usize, usize, u64, f64); 4] =
    [("a", 2, 1, 41, 9.0), ("b", 8, 3, 40, 7.5), ("c", 4, 2, 44, 3.0), ("d", 1, 1, 43, 8.0)];

fn choose(strategy: Routing, draw: &Draw<'_>, left_out: &[&str]) -> String {
    let seats =
        RUNNERS.iter().filter(|(runner, ..)| !left_out.contains(runner)).map(|(runner, slots, idle, last, often)| {
            (*runner, Seat { runner, slots: *slots, idle: *idle, used: Used { last: *last, often: *often } })
        });
    strategy.choose(seats, draw).unwrap_or("nobody").to_owned()
}

fn draw() -> String {
    let mut page = String::from(MARK);
    page.push_str("\n## The strategies, tried\n\nFour runners may take the task and have idle slots:\n\n");
    page.push_str("| runner | idle slots | its last task was number | given lately |\n|---|---|---|---|\n");
    for (runner, slots, idle, last, often) in RUNNERS {
        writeln!(page, "| {runner} | {idle} of {slots} | {last} | {often} |").unwrap();
    }
    page.push_str("\n| routing | chooses | here | when that one has no idle slot |\n|---|---|---|---|\n");
    for strategy in Routing::ALL {
        let mut cells = [String::new(), String::new()];
        let draws: &[(&str, Draw<'_>)] = match strategy {
            Routing::RoundRobin => &[
                ("after b: ", Draw { previous: Some("b"), key: "", chance: 0 }),
                ("after d: ", Draw { previous: Some("d"), key: "", chance: 0 }),
            ],
            Routing::ConsistentHash => &[
                ("key `eu`: ", Draw { previous: None, key: "eu", chance: 0 }),
                ("key `us`: ", Draw { previous: None, key: "us", chance: 0 }),
            ],
            Routing::Random => &[
                ("", Draw { previous: None, key: "", chance: 1 }),
                ("or ", Draw { previous: None, key: "", chance: 4 }),
            ],
            _ => &[("", Draw { previous: None, key: "", chance: 0 })],
        };
        for (place, (words, draw)) in draws.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let first = choose(strategy, draw, &[]);
            let next = choose(strategy, draw, &[&first]);
            write!(cells[0], "{comma}{words}{first}").unwrap();
            write!(cells[1], "{comma}{words}{next}").unwrap();
        }
        writeln!(page, "| `{}` | {} | {} | {} |", strategy.name(), strategy.meaning(), cells[0], cells[1]).unwrap();
    }
    page.push_str("\n## One key, several limits, tried\n\n| holds the key | its limits | a task with limit 1 | with limit 2 | with limit 5 |\n|---|---|---|---|---|\n");
    for held in [&[][..], &[1], &[2], &[5], &[2, 5], &[5, 5], &[5, 5, 5, 5, 5]] {
        let mut holders = Holders::default();
        for limit in held {
            holders.take(*limit);
        }
        let cells: Vec<&str> = [1, 2, 5].map(|own| if holders.admits(own) { "starts" } else { "waits" }).into();
        let limits: Vec<String> = held.iter().map(u32::to_string).collect();
        writeln!(page, "| {} | {} | {} |", held.len(), limits.join(", "), cells.join(" | ")).unwrap();
    }
    page
}

#[test]
fn the_tables_in_the_docs_are_the_ones_that_choose() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/placement.md");
    let drawn = draw();
    let page = std::fs::read_to_string(path).unwrap_or_default();
    let (by_hand, written) = page.split_once(MARK).expect("docs/placement.md has the mark");
    if std::env::var_os("BATON_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{by_hand}{drawn}")).expect("docs/placement.md can be written");
        return;
    }
    let out_of_date = "docs/placement.md is out of date: run the test with BATON_WRITE_DOCS=1";
    assert!(format!("{MARK}{written}") == drawn, "{out_of_date}");
}
