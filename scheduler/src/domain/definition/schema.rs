//! The JSON Schema of a job file, made from the table of keys that the reader reads by: editors complete what the
//! scheduler accepts.

use serde_json::{Map, Value, json};

use super::{
    keys::{JOB_CONFIG, Object, Shape},
    limits::NAME_MAX,
};

/// The schema of one document of a job file.
pub fn schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Baton job file",
        "description": "A job: a graph of tasks. A file may hold several documents.",
    });
    let mut defs = Map::new();
    define(&JOB_CONFIG, &mut defs);
    schema["$ref"] = reference(&JOB_CONFIG);
    schema["$defs"] = Value::Object(defs);
    schema
}

/// Describes an object and whatever its keys hold, each once: what is not reached from the root is no part of a job file.
fn define(object: &Object, defs: &mut Map<String, Value>) {
    if defs.contains_key(object.name) {
        return;
    }
    defs.insert(object.name.to_owned(), of_object(object));
    for key in object.keys {
        if let Shape::Object(inner) | Shape::Objects(inner) = key.shape {
            define(inner, defs);
        }
    }
}

fn of_object(object: &Object) -> Value {
    let mut properties = Map::new();
    for key in object.keys {
        let mut property = of_shape(key.shape);
        property["description"] = key.doc.into();
        properties.insert(key.name.to_owned(), property);
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let required: &[&str] = match object.name {
        "JobConfig" => &["name", "tasks"],
        "TaskConfig" => &["name"],
        "Retry" => &["max_attempts"],
        "LabelExpression" => &["key", "operator"],
        "Concurrency" => &["key", "limit"],
        "HttpTarget" => &["urls"],
        "Callback" => &["events"],
        "HttpCallback" => &["url"],
        "EmailCallback" => &["to"],
        "JobCallback" | "JobTarget" => &["name"],
        _ => &[],
    };
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if let Some((choice, _)) = object.choice {
        schema["oneOf"] = choice.iter().map(|key| json!({"required": [key]})).collect();
    }
    schema
}

fn of_shape(shape: Shape) -> Value {
    let text = || json!({"type": ["string", "number", "boolean"]});
    match shape {
        Shape::Text => text(),
        Shape::Name => {
            json!({"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]*$", "minLength": 1, "maxLength": NAME_MAX})
        }
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Span => json!({
            "type": "string",
            "pattern": "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
            "examples": ["90s", "15m", "1h30m", "1d", "500ms"],
        }),
        Shape::Time => json!({"type": "string", "format": "date-time", "examples": ["2026-12-01T09:00:00+08:00"]}),
        Shape::Integer(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        Shape::Number(low, high) => json!({"type": "number", "minimum": low, "maximum": high}),
        Shape::Integers(low, high) => {
            json!({"type": "array", "items": {"type": "integer", "minimum": low, "maximum": high}})
        }
        Shape::Word(words, _) => json!({"type": "string", "enum": words}),
        Shape::Words(words) => json!({"type": "array", "items": {"type": "string", "enum": words}, "minItems": 1}),
        Shape::Texts => json!({"type": "array", "items": text()}),
        Shape::ShortTexts(inner) => json!({"anyOf": [
            {"type": "array", "items": text()},
            {"type": "object", "properties": {inner: {"type": "array", "items": text()}}, "required": [inner],
             "additionalProperties": false},
        ]}),
        Shape::Pairs => json!({"type": "object", "additionalProperties": text()}),
        Shape::Object(object) => json!({"$ref": reference(object)}),
        Shape::Objects(object) => json!({"type": "array", "items": {"$ref": reference(object)}, "minItems": 1}),
    }
}

fn reference(object: &Object) -> Value {
    format!("#/$defs/{}", object.name).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_schema_describes_what_the_reader_takes() {
        let schema = schema();
        assert_eq!(schema["$ref"], "#/$defs/JobConfig");
        let task = &schema["$defs"]["TaskConfig"];
        assert_eq!(task["additionalProperties"], false);
        assert_eq!(task["properties"]["shards"]["$ref"], "#/$defs/Shards");
        assert_eq!(
            task["properties"]["on_failure"]["enum"],
            serde_json::json!(["fail", "stop", "ignore", "transfer", "retry_then_transfer"])
        );
        assert_eq!(task["properties"]["priority"]["minimum"], -100);
    }

    #[test]
    fn every_reference_leads_to_a_definition_and_every_definition_is_referred_to() {
        let schema = schema();
        let mut named = BTreeSet::new();
        references(&schema, &mut named);
        let defs = schema["$defs"].as_object().unwrap();
        let defined: BTreeSet<String> = defs.keys().map(|name| format!("#/$defs/{name}")).collect();
        assert_eq!(named, defined);
        assert_eq!(defs["JobTarget"]["required"], serde_json::json!(["name"]));
        for (name, object) in defs {
            let properties = &object["properties"];
            for required in object["required"].as_array().into_iter().flatten() {
                assert!(properties.get(required.as_str().unwrap()).is_some(), "{name} requires {required}");
            }
        }
    }

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
}
