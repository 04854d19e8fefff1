//! The keys of a job file are exactly the field names of the protocol.

use std::collections::BTreeSet;

use prost_reflect::DescriptorPool;

#[test]
fn the_keys_of_a_job_file_are_the_fields_of_the_protocol() {
    let pool = DescriptorPool::decode(baton::FILE_DESCRIPTOR_SET).expect("our own descriptors");
    let schema = baton_scheduler::domain::definition::schema();
    for (name, keys) in schema["$defs"].as_object().expect("definitions") {
        let message = pool.get_message_by_name(&format!("baton.v1.{name}")).expect("a message of the protocol");
        let fields: BTreeSet<String> = message.fields().map(|field| field.name().to_owned()).collect();
        let keys: BTreeSet<String> = keys["properties"].as_object().expect("keys").keys().cloned().collect();
        assert_eq!(keys, fields, "{name}");
    }
}
