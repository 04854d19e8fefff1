//! Stories of the whole system: real programs on free ports, from the outside.

mod callbacks;
mod clocks;
mod crowds;
mod data;
mod database;
mod definitions;
mod demo;
mod disks;
mod errors;
mod examples;
mod graphs;
mod grpcurl;
mod http;
mod loss;
mod network;
mod newcomer;
mod output;
mod processes;
mod protocol;
mod restarts;
mod rules;
mod schedulers;
mod schedules;
mod servers;
mod slow;
mod upgrades;
