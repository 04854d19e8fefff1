//! Messages as proto JSON, the way grpcurl prints them.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde_json::Value;

/// The descriptors of every message of the protocol.
pub static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::FILE_DESCRIPTOR_SET).expect("the descriptors were written by our own build")
});

/// Turns a message into proto JSON: lowerCamelCase names in the order of the field numbers, fields at their default
/// left out, maps sorted by key.
pub fn to_value<M: Message + Name>(message: &M) -> Value {
    let dynamic = dynamic(message);
    let mut value = dynamic
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        .expect("every message of the protocol has a JSON form");
    sort_maps(&mut value, &descriptor::<M>());
    value
}

/// Reads a message from proto JSON. Unknown fields are an error that names them.
pub fn from_value<M: Message + Name + Default>(value: Value) -> Result<M, serde_json::Error> {
    let dynamic = DynamicMessage::deserialize_with_options(descriptor::<M>(), value, &DeserializeOptions::new())?;
    dynamic.transcode_to().map_err(serde::de::Error::custom)
}

fn dynamic<M: Message + Name>(message: &M) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    dynamic.transcode_from(message).expect("a generated message fits its own descriptor");
    dynamic
}

fn descriptor<M: Name>() -> MessageDescriptor {
    POOL.get_message_by_name(&M::full_name()).expect("the pool holds every message")
}

/// Puts the entries of every map in the order of their keys. In memory they have none, and two prints of one message
/// must not differ.
fn sort_maps(value: &mut Value, descriptor: &MessageDescriptor) {
    let Value::Object(fields) = value else { return };
    for field in descriptor.fields() {
        let Some(value) = fields.get_mut(field.json_name()) else { continue };
        if field.is_map() {
            if let Value::Object(entries) = value {
                entries.sort_keys();
            }
        } else if let Kind::Message(inner) = field.kind() {
            match value {
                Value::Array(items) => items.iter_mut().for_each(|item| sort_maps(item, &inner)),
                one => sort_maps(one, &inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Job, ListJobsResponse};

    #[test]
    fn two_prints_of_one_message_are_equal() {
        let params = (0..20).map(|n| (format!("key-{n:02}"), "value".to_owned()));
        let job = Job { params: params.collect(), seq: 7, ..Job::default() };
        let list = ListJobsResponse { jobs: vec![job], ..ListJobsResponse::default() };
        let value = to_value(&list);
        let keys: Vec<_> = value["jobs"][0]["params"].as_object().unwrap().keys().cloned().collect();
        assert!(keys.is_sorted());
        assert_eq!(value["jobs"][0]["seq"], "7", "64-bit numbers are text in proto JSON");
        assert_eq!(from_value::<ListJobsResponse>(value).unwrap(), list);
    }
}
