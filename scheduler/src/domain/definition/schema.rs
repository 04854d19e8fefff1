//! The JSON Schema of a job file, made from the table of keys that the reader reads by: editors complete what the
//! scheduler accepts.

use serde_json::{Map, Value, json};

use super::{
    keys::{
        CALLBACK, CONCURRENCY, EMAIL_CALLBACK, HTTP, HTTP_CALLBACK, JOB_CALLBACK, JOB_CONFIG, LABEL_EXPRESSION, Object,
        RETRY, RUNNER, SCHEDULE, SHARDS, Shape, TASK_CONFIG, TASK_DEFAULTS,
    },
    limits::NAME_MAX,
};

/// The schema of one document of a job file.
pub fn schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Baton job file",
        "description": "A job: a graph of tasks. A file may hold several documents.",
    });
    let objects = [
        &JOB_CONFIG,
        &SCHEDULE,
        &TASK_DEFAULTS,
        &TASK_CONFIG,
        &HTTP,
        &SHARDS,
        &RUNNER,
        &LABEL_EXPRESSION,
        &RETRY,
        &CONCURRENCY,
        &CALLBACK,
        &HTTP_CALLBACK,
        &EMAIL_CALLBACK,
        &JOB_CALLBACK,
    ];
    let defs: Map<String, Value> = objects.iter().map(|object| (object.name.to_owned(), of_object(object))).collect();
    schema["$ref"] = reference(&JOB_CONFIG);
    schema["$defs"] = Value::Object(defs);
    schema
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
        "JobCallback" => &["name"],
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
}
