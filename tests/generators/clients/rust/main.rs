// Makes a broker and reads a record, by the client of openapi-generator for Rust.
use openapi::apis::{broker_api, brokers_api, configuration::Configuration, Error};
use openapi::models::{PostBrokersRequest, PostProduceRequest};

#[tokio::main]
async fn main() {
    let mut api = Configuration::new();
    api.base_path = std::env::args().nth(1).unwrap();
    let name = "rust/1";
    let request = PostBrokersRequest { name: Some(name.to_string()), ..Default::default() };
    brokers_api::post_brokers(&api, Some(request)).await.unwrap();
    let records = vec![serde_json::json!({"value": "first", "timestamp": 1_700_000_000_000i64})];
    let request = PostProduceRequest::new("orders".to_string(), records);
    let ends = broker_api::post_produce(&api, name, request).await.unwrap();
    let record = broker_api::get_consume_all(&api, name, "orders", None).await.unwrap().remove(0);
    let value = record.value.unwrap();
    println!("{} {} {} {}", record.topic, ends["orders"]["0"], record.timestamp, value.as_str().unwrap());
    match broker_api::get_broker(&api, "none").await {
        Err(Error::ResponseError(found)) => {
            let problem: openapi::models::Problem = serde_json::from_str(&found.content).unwrap();
            println!("{}", problem.detail);
        }
        other => panic!("{:?}", other),
    }
}
