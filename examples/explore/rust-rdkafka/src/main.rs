//! rust-rdkafka as a driver of `fencepost explore`: it answers each line of JSON with a line.

use std::io::{stdin, stdout, Write};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::util::get_rdkafka_version;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{json, Value};

#[derive(Default)]
struct Driver {
    bootstrap: String,
    producer: Option<FutureProducer>,
    consumer: Option<BaseConsumer>, // it names the group, and is no member of it
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Driver {
    fn init(&mut self, command: &Value, timeout: Duration) -> KafkaResult<Value> {
        self.producer = None; // this purges its queue and closes it
        self.consumer = None;
        self.bootstrap = text(&command["bootstrap"]).to_owned();
        let producer: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("transactional.id", text(&command["transactional_id"]))
            .set(
                "transaction.timeout.ms",
                number(&command["transaction_timeout_ms"]).to_string(),
            )
            .create()?;
        for topic in each(&command["topics"]) {
            producer
                .client()
                .fetch_metadata(Some(text(topic)), timeout)?;
        }
        let initialized = producer.init_transactions(timeout);
        self.producer = Some(producer);
        initialized.map(|()| json!({ "version": get_rdkafka_version().1 }))
    }

    fn send(&self, producer: &FutureProducer, command: &Value) -> KafkaResult<Value> {
        let mut sent = Vec::new();
        for record in each(&command["records"]) {
            let headers = each(&record["headers"]).fold(OwnedHeaders::new(), |all, pair| {
                all.insert(Header {
                    key: text(&pair[0]),
                    value: Some(text(&pair[1])),
                })
            });
            let record = FutureRecord::to(text(&record["topic"]))
                .partition(number(&record["partition"]) as i32)
                .key(text(&record["key"]))
                .payload(text(&record["value"]))
                .headers(headers);
            sent.push(producer.send_result(record).map_err(|(error, _)| error)?);
        }
        let mut offsets = Vec::new();
        for delivery in sent {
            let delivered =
                futures_executor::block_on(delivery).map_err(|_| KafkaError::Canceled)?;
            offsets.push(delivered.map_err(|(error, _)| error)?.offset);
        }
        Ok(json!({ "offsets": offsets }))
    }

    fn send_offsets(&mut self, command: &Value, timeout: Duration) -> KafkaResult<Value> {
        if self.consumer.is_none() {
            let mut config = ClientConfig::new();
            config
                .set("bootstrap.servers", &self.bootstrap)
                .set("group.id", text(&command["group"]));
            self.consumer = Some(config.create()?);
        }
        let mut offsets = TopicPartitionList::new();
        for each in each(&command["offsets"]) {
            let mut place =
                offsets.add_partition(text(&each["topic"]), number(&each["partition"]) as i32);
            place.set_offset(Offset::Offset(number(&each["offset"])))?;
            place.set_metadata(text(&each["metadata"]));
        }
        let group = self
            .consumer
            .as_ref()
            .and_then(|consumer| consumer.group_metadata());
        let (producer, group) = (self.producer.as_ref().unwrap(), group.unwrap());
        producer
            .send_offsets_to_transaction(&offsets, &group, timeout)
            .map(|()| json!({}))
    }

    fn carry_out(&mut self, command: &Value) -> KafkaResult<Value> {
        let timeout = Duration::from_millis(number(&command["timeout_ms"]) as u64);
        match (text(&command["do"]), &self.producer) {
            ("init", _) => self.init(command, timeout),
            ("offsets", _) => self.send_offsets(command, timeout),
            ("send", Some(producer)) => self.send(producer, command),
            ("begin", Some(producer)) => producer.begin_transaction().map(|()| json!({})),
            ("commit", Some(producer)) => producer.commit_transaction(timeout).map(|()| json!({})),
            (_, Some(producer)) => producer.abort_transaction(timeout).map(|()| json!({})),
            (_, None) => Err(KafkaError::Canceled),
        }
    }
}

fn meaning(error: &KafkaError, is_send: bool) -> &'static str {
    match error {
        KafkaError::Transaction(error) if error.code() == RDKafkaErrorCode::Fenced => "fenced",
        KafkaError::Transaction(error) if error.is_fatal() => "fatal",
        KafkaError::Transaction(error) if error.txn_requires_abort() => "abortable",
        KafkaError::Transaction(error) if error.is_retriable() => "retriable",
        _ if is_send => "abortable",
        _ => "fatal",
    }
}

fn main() {
    let mut driver = Driver::default();
    for line in stdin().lines().map_while(Result::ok) {
        let command: Value = serde_json::from_str(&line).expect("a line of JSON");
        let answer = match driver.carry_out(&command) {
            Ok(mut answer) => {
                answer["ok"] = json!(true);
                answer
            }
            Err(error) => {
                json!({ "error": error.to_string(), "meaning": meaning(&error, command["do"] == "send") })
            }
        };
        println!("{answer}");
        stdout().flush().expect("the run reads");
    }
}
