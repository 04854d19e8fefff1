//! Compiles `proto/` with protox, so that a fresh machine needs no protoc.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const FILES: [&str; 13] = [
    "baton/v1/audit.proto",
    "baton/v1/backfill.proto",
    "baton/v1/calendar.proto",
    "baton/v1/callback.proto",
    "baton/v1/command.proto",
    "baton/v1/heartbeat.proto",
    "baton/v1/http.proto",
    "baton/v1/job.proto",
    "baton/v1/job_config.proto",
    "baton/v1/log.proto",
    "baton/v1/runner.proto",
    "baton/v1/schedule.proto",
    "baton/v1/scheduler.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/baton");
    let descriptors = protox::compile(FILES.map(|file| format!("proto/{file}")), ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    // Frames are boxed once instead of carrying their largest variant around.
    config.enable_type_names().boxed(".baton.v1.SlotCommand.run").boxed(".baton.v1.SlotReport.result");
    tonic_prost_build::configure()
        .build_transport(false)
        .codec_path("crate::codec::Codec")
        .bytes(".")
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}
