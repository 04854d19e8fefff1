//! The protocol of Baton: messages, clients and servers generated from `proto/baton/v1`, and their descriptors.

/// Version 1 of the protocol.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("baton.v1");
}

pub mod codec;
pub mod json;

/// The encoded `google.protobuf.FileDescriptorSet` of every file of the protocol, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The version of the heartbeat protocol that this build speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// The port everything listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 7420;
