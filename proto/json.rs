//! Messages as proto JSON, the way grpcurl prints them.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};
use serde_json::Value;

/// The descriptors of every message of the protocol.
pub static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::FILE_DESCRIPTOR_SET).expect("the descriptors were written by our own build")
});

/// Turns a message into proto JSON: lowerCamelCase names, fields at their default left out.
pub fn to_value<M: Message + Name>(message: &M) -> Value {
    let dynamic = dynamic(message);
    dynamic
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        .expect("every message of the protocol has a JSON form")
}

/// Reads a message from proto JSON. Unknown fields are an error that names them.
pub fn from_value<M: Message + Name + Default>(value: Value) -> Result<M, serde_json::Error> {
    let descriptor = POOL.get_message_by_name(&M::full_name()).expect("the pool holds every message");
    let dynamic = DynamicMessage::deserialize_with_options(descriptor, value, &DeserializeOptions::new())?;
    dynamic.transcode_to().map_err(serde::de::Error::custom)
}

fn dynamic<M: Message + Name>(message: &M) -> DynamicMessage {
    let descriptor = POOL.get_message_by_name(&M::full_name()).expect("the pool holds every message");
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic.transcode_from(message).expect("a generated message fits its own descriptor");
    dynamic
}
