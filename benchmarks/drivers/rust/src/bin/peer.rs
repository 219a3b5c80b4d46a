// graphile_worker, the Rust crate, as a live peer of Ferryman: what benchmarks/rust_peer asks of it, one command per run.

use graphile_worker::{
    worker_utils::types::RescheduleJobOptions, IntoTaskHandlerResult, JobKeyMode, JobSpec, LocalQueueConfig,
    RawJobSpec, TaskHandler, WorkerContext, WorkerOptions, WorkerRecoveryConfig, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

const SCHEMA: &str = "graphile_worker";
static HISTORY: OnceLock<String> = OnceLock::new();
static HURRIES: OnceLock<bool> = OnceLock::new();

/// A job that both sides run. Its fields: a number, its queue if any, how long it takes, and how it ends.
#[derive(Deserialize, Serialize)]
struct Shared {
    n: u64,
    queue: Option<String>,
    ms: Option<u64>,
    fails: Option<bool>,
}

impl TaskHandler for Shared {
    const IDENTIFIER: &'static str = "shared";

    async fn run(self, _ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        note(&self, "start");
        if let (Some(length), false) = (self.ms, HURRIES.get().unwrap()) {
            tokio::time::sleep(Duration::from_millis(length)).await;
        }
        if self.fails == Some(true) {
            return Err(String::from("asked to fail"));
        }
        note(&self, "end");
        Ok(())
    }
}

/// One write per line, appended: the order of the lines is the order of the events, whoever wrote them.
fn note(job: &Shared, what: &str) {
    let line = json!({"by": "rust", "what": what, "n": job.n, "queue": job.queue});
    let mut history = OpenOptions::new().append(true).create(true).open(HISTORY.get().unwrap()).unwrap();
    history.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn options(url: &str, settings: &Value) -> WorkerOptions {
    let mut options = WorkerOptions::default()
        .database_url(url)
        .schema(SCHEMA)
        .concurrency(settings["concurrency"].as_u64().unwrap_or(4) as usize)
        .define_job::<Shared>();
    if let Some(size) = settings["local_queue"].as_u64() {
        options = options.local_queue(LocalQueueConfig::default().with_size(size as usize));
    }
    if let Some(threshold) = settings["sweep_threshold_ms"].as_u64() {
        options = options.worker_recovery(
            WorkerRecoveryConfig::default()
                .heartbeat_interval(Duration::from_millis(threshold / 10))
                .sweep_interval(Duration::from_millis(threshold / 4))
                .sweep_threshold(Duration::from_millis(threshold))
                .recovery_delay(Duration::ZERO),
        );
    }
    options
}

/// Runs until its input ends.
async fn work(options: WorkerOptions) {
    let worker = Arc::new(options.init().await.unwrap());
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.run().await.unwrap() }
    });
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await.unwrap().is_some() {}
    worker.request_shutdown();
    running.await.unwrap();
    println!("stopped");
}

async fn utils(url: &str) -> WorkerUtils {
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(2).connect(url).await.unwrap();
    WorkerUtils::new(pool, SCHEMA)
}

fn payload(number: u64, settings: &Value) -> (Value, JobSpec) {
    let queue = settings["queues"].as_u64().map(|queues| format!("queue {}", number % queues));
    let payload = json!({"n": number, "queue": queue, "ms": settings["ms"], "fails": settings["fails"]});
    let max_attempts = settings["max_attempts"].as_i64().map(|attempts| attempts as i16);
    (payload, JobSpec { queue_name: queue, max_attempts, ..JobSpec::default() })
}

/// Adds jobs with the numbers from "first" on: half of them one by one, half of them a hundred at a time.
async fn add(utils: &WorkerUtils, settings: &Value) {
    let (first, count) = (settings["first"].as_u64().unwrap(), settings["count"].as_u64().unwrap());
    let alone = first + count / 2;
    for number in first..alone {
        let (payload, spec) = payload(number, settings);
        utils.add_raw_job("shared", payload, spec).await.unwrap();
    }
    let numbers: Vec<u64> = (alone..first + count).collect();
    for some in numbers.chunks(100) {
        let specs: Vec<RawJobSpec> = some
            .iter()
            .map(|number| {
                let (payload, spec) = payload(*number, settings);
                RawJobSpec { identifier: "shared".to_string(), payload, spec }
            })
            .collect();
        utils.add_raw_jobs(&specs).await.unwrap();
    }
}

/// Uses one key so many times, in every mode; prints the ids that it was given.
async fn add_keyed(utils: &WorkerUtils, settings: &Value) {
    let modes = [JobKeyMode::Replace, JobKeyMode::PreserveRunAt, JobKeyMode::UnsafeDedupe];
    for number in 0..settings["count"].as_u64().unwrap() {
        let spec = JobSpec {
            job_key: Some(settings["key"].as_str().unwrap().to_string()),
            job_key_mode: Some(modes[number as usize % modes.len()].clone()),
            ..JobSpec::default()
        };
        let job = utils.add_raw_job("shared", payload(number, settings).0, spec).await.unwrap();
        println!("{}", json!(job.id()));
    }
}

/// Every operation of the crate's utilities, once.
async fn manage(utils: &WorkerUtils) {
    let mut ids = Vec::new();
    for number in 0..3 {
        let (payload, spec) = payload(number, &json!({}));
        ids.push(*utils.add_raw_job("shared", payload, spec).await.unwrap().id());
    }
    add_keyed(utils, &json!({"count": 3, "key": "managed"})).await;
    utils.remove_job("managed").await.unwrap();
    utils.reschedule_jobs(&ids, RescheduleJobOptions { priority: Some(5), ..Default::default() }).await.unwrap();
    utils.complete_jobs(&ids[..1]).await.unwrap();
    utils.permanently_fail_jobs(&ids[1..2], "for a reason").await.unwrap();
    utils.force_unlock_workers(&["nobody"]).await.unwrap();
    utils.complete_jobs(&ids).await.unwrap();
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let settings: Value = serde_json::from_str(&arguments[2]).unwrap();
    let url = std::env::var("DATABASE_URL").unwrap();
    HISTORY.set(settings["history"].as_str().unwrap_or("/dev/null").to_string()).unwrap();
    HURRIES.set(settings["hurries"] == json!(true)).unwrap();
    match arguments[1].as_str() {
        "migrate" => {
            if let Err(problem) = options(&url, &settings).init().await {
                eprintln!("{problem:?}");
                std::process::exit(1);
            }
        }
        "work" => work(options(&url, &settings)).await,
        "add" => add(&utils(&url).await, &settings).await,
        "add_keyed" => add_keyed(&utils(&url).await, &settings).await,
        "manage" => manage(&utils(&url).await).await,
        other => panic!("unknown command {other}"),
    }
}
