// graphile_worker, the Rust crate, under the contract of benchmarks/drivers/contract.py.

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

const SCHEMA: &str = "graphile_worker";
static DELAYS: Mutex<Vec<f64>> = Mutex::new(Vec::new());

#[derive(Deserialize, Serialize)]
struct Bench {
    t: Option<f64>,
    ms: Option<u64>,
}

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, _ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(added) = self.t {
            DELAYS.lock().unwrap().push(now() - added);
        }
        if let Some(length) = self.ms {
            tokio::time::sleep(Duration::from_millis(length)).await;
        }
        Ok::<(), String>(())
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0
}

fn say(value: Value) {
    println!("{value}");
}

async fn next(lines: &mut Lines<BufReader<Stdin>>) -> Option<Value> {
    let line = lines.next_line().await.unwrap()?;
    Some(serde_json::from_str(&line).unwrap())
}

async fn work(options: WorkerOptions, lines: &mut Lines<BufReader<Stdin>>) {
    say(json!({"ready": true}));
    if next(lines).await.is_none() {
        return;
    }
    let worker = options.define_job::<Bench>().init().await.unwrap();
    tokio::spawn(async move { worker.run().await.unwrap() });
    while next(lines).await.is_some() {
        let delays = std::mem::take(&mut *DELAYS.lock().unwrap());
        say(json!({"delays": delays}));
    }
}

async fn add(url: &str, lines: &mut Lines<BufReader<Stdin>>) {
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(url).await.unwrap();
    let utils = WorkerUtils::new(pool, SCHEMA);
    say(json!({"ready": true}));
    while let Some(order) = next(lines).await {
        let start = Instant::now();
        add_as_ordered(&utils, &order, start).await;
        say(json!({"seconds": start.elapsed().as_secs_f64()}));
    }
}

async fn add_as_ordered(utils: &WorkerUtils, order: &Value, start: Instant) {
    let count = order["count"].as_u64().unwrap();
    let size = order["size"].as_u64().unwrap_or(0);
    let rate = order["rate"].as_f64();
    let spec = JobSpec { queue_name: order["queue"].as_str().map(String::from), ..JobSpec::default() };
    if size == 0 {
        for number in 0..count {
            let mut payload = json!({"n": number, "ms": order["ms"]});
            if let Some(rate) = rate {
                let due = start + Duration::from_secs_f64(number as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
                payload["t"] = json!(now());
            }
            utils.add_raw_job("bench", payload, spec.clone()).await.unwrap();
        }
        return;
    }
    for first in (0..count).step_by(size as usize) {
        let specs: Vec<RawJobSpec> = (first..count.min(first + size))
            .map(|number| RawJobSpec {
                identifier: "bench".to_string(),
                payload: json!({"n": number}),
                spec: spec.clone(),
            })
            .collect();
        utils.add_raw_jobs(&specs).await.unwrap();
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let settings: Value = serde_json::from_str(&arguments[2]).unwrap();
    let url = std::env::var("DATABASE_URL").unwrap();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let concurrency = settings["concurrency"].as_u64().unwrap_or(24) as usize;
    let mut options = WorkerOptions::default().database_url(&url).schema(SCHEMA).concurrency(concurrency);
    if let Some(size) = settings["local_queue"].as_u64() {
        options = options.local_queue(LocalQueueConfig::default().with_size(size as usize));
    }
    if let Some(delay) = settings["batch_delay"].as_u64() {
        options = options.complete_job_batch_delay(Duration::from_millis(delay));
    }
    if let Some(interval) = settings["poll_interval"].as_u64() {
        options = options.poll_interval(Duration::from_millis(interval));
    }
    if let Some(connections) = settings["connections"].as_u64() {
        options = options.max_pg_conn(connections as u32);
    }
    match arguments[1].as_str() {
        "prepare" => {
            options.define_job::<Bench>().init().await.unwrap();
        }
        "work" => work(options, &mut lines).await,
        "add" => add(&url, &mut lines).await,
        other => panic!("unknown role {other}"),
    }
}
