//! A gate in a few lines: refunds up to 100 are allowed, everything else is denied, and the log learns of all of it.
//!
//!     cargo run -p counterfoil-client --example gate -- LOG_URL LOG_VKEY KEY_FILE OUTBOX_DIR
//!
//! The log must know the key (`counterfoil keygen --kind issuer`, `counterfoil-log issuer add`). Run it twice, kill it in
//! between: nothing is lost, nothing is told twice.
#![allow(clippy::print_stdout)]

extern crate counterfoil_client as client;

use client::gate::{Decision, Gate, GateConfig};
use note::SigningKey;
use serde_json::{Value, json};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [log_url, log_key, key_file, dir] = arguments.as_slice() else {
        return Err("give LOG_URL LOG_VKEY KEY_FILE OUTBOX_DIR".into());
    };
    let key = SigningKey::from_private_text(std::fs::read_to_string(key_file)?.trim_end())?;
    let mut config = GateConfig::new(dir, key, log_url.parse()?, log_key.parse()?);
    config.gate = Some("example-gate 1.0".into());
    config.heartbeat_ms = Some(60_000);
    let gate = Gate::open(config)?;

    for amount in [20, 5_000, 70] {
        match refund(&gate, "order/17", amount) {
            Ok(answer) => println!("refunded {amount}: {answer}"),
            Err(error) => println!("did not refund {amount}: {error}"),
        }
    }

    gate.flush(Duration::from_secs(10))?;
    print!("{}", gate.metrics());
    Ok(())
}

/// The gate proper: decides, acts, and leaves a receipt of both.
fn refund(gate: &Gate, order: &str, amount: u64) -> Result<Value, Box<dyn Error>> {
    let request = Decision::new(true)
        .operation("refund")
        .resource(order)
        .action_class("PAYMENT")
        .claimed_agent("agent-7")
        .args_in_clear(json!({ "amount": amount }));
    if amount > 100 {
        gate.deny(request.rule("R2_LIMIT").why("refunds above 100 need a person"))?;
        return Err("refunds above 100 need a person".into());
    }
    // On disk when it returns. If this fails, nothing was signed and nothing runs.
    let mut act = gate.decide(request.rule("R1_SMALL"))?;
    // Whatever becomes of this call, its outcome is written: returned, failed, panicked, never ended.
    let answer = act.call(|| pay(order, amount))?;
    act.result(&answer);
    act.finish()?;
    Ok(answer)
}

/// Stands for whatever the gate guards.
fn pay(order: &str, amount: u64) -> Result<Value, String> {
    if amount == 70 {
        Err(format!("{order} was refunded already"))
    } else {
        Ok(json!({"order": order, "paid": amount}))
    }
}
