//! The log's figures, in one table with the bars they are held against: `counterfoil-bench log`.
//!
//! What is measured is the real program in processes of its own. So that nothing has to be installed beside it, this
//! executable is also that program, when it is called by that name (`stand` makes a link).

mod arguments;
mod failure;
mod gates;
mod http;
mod load;
mod process;
mod stand;

use arguments::{Arguments, LogArguments, Row, What};
use failure::Failure;
use service::ExitStatus;
use service::output::complain;
use stand::{BATCH, BATCH_CONNECTIONS, Measured, Stand};
use std::process::ExitCode;

const PROGRAM: &str = "counterfoil-bench";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().peekable();
    let called = arguments.peek().and_then(|name| std::path::Path::new(name).file_name());
    if called == Some(stand::UNDER_TEST.as_ref()) {
        return cli::main_with(arguments);
    }
    let arguments: Arguments = match service::arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(status) => return status.into(),
    };
    let What::Log(arguments) = &arguments.what;
    match measure(arguments) {
        Ok(()) => ExitStatus::Ok.into(),
        Err(failure) => {
            complain(PROGRAM, failure);
            ExitStatus::Failed.into()
        }
    }
}

fn measure(arguments: &LogArguments) -> Result<(), Failure> {
    let above = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let temporary = tempfile::Builder::new().prefix("counterfoil-bench-").tempdir_in(&above);
    let temporary = temporary.map_err(Failure::io(&above))?;
    let dir = arguments.keep.as_deref().unwrap_or(temporary.path());
    let mut stand = Stand::build(&dir.join("plain"), 0)?;
    let receipts = usize::try_from(arguments.receipts).map_err(Failure::unexpected)?;
    anstream::eprintln!("the log is process {}", stand.log_process()?);
    for (row, connections) in [(Row::Single, 256), (Row::Single1024, 1024)] {
        if arguments.asks_for(row) {
            let measured = stand.singles(connections, receipts.div_ceil(connections))?;
            say(&format!("single receipts, {connections} connections"), &measured);
        }
    }
    if arguments.asks_for(Row::Batch) {
        say("batches of 256, 8 connections", &stand.batches(receipts.div_ceil(BATCH * BATCH_CONNECTIONS))?);
    }
    Ok(())
}

fn say(what: &str, measured: &Measured) {
    let load = &measured.load;
    anstream::println!(
        "{what}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms; us a receipt: log {:.1} (user {:.1}), load {:.1}; others {:.2} cores; {} receipts, {} proofs checked",
        load.rate(),
        load.quantile_ms(0.5),
        load.quantile_ms(0.99),
        measured.us_a_receipt(measured.log.total()),
        measured.us_a_receipt(measured.log.user),
        measured.us_a_receipt(measured.generator.total()),
        measured.others,
        load.indices.len(),
        load.proofs_checked,
    );
}
