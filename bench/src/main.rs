//! The figures of log, witness, verifier and gate, in one table each with the bars they are held against:
//! `counterfoil-bench log`, `counterfoil-bench witness`, `counterfoil-bench verify`, `counterfoil-bench gate`.
//!
//! What is measured is the real program in processes of its own. So that nothing has to be installed beside it, this
//! executable is also that program, when it is called by that name (`stand` makes a link).

mod arguments;
mod bundle;
mod disk;
mod failure;
mod full;
mod gate_rows;
mod gates;
mod house;
mod http;
mod idle;
mod load;
mod machine;
mod process;
mod pushes;
mod report;
mod rows;
mod split_view;
mod stand;
mod verify_rows;
mod witness_rows;

use arguments::{Arguments, What};
use failure::Failure;
use report::Report;
use service::ExitStatus;
use service::output::{Output, complain};
use std::path::Path;
use std::process::ExitCode;

const PROGRAM: &str = "counterfoil-bench";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().peekable();
    let called = arguments.peek().and_then(|name| Path::new(name).file_name());
    if called == Some(stand::UNDER_TEST.as_ref()) {
        return cli::main_with(arguments);
    }
    let arguments: Arguments = match service::arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(status) => return status.into(),
    };
    let place = match &arguments.what {
        What::Log(log) => &log.place,
        What::Witness(witness) => &witness.place,
        What::Verify(verify) => &verify.place,
        What::Gate(gate) => &gate.place,
    };
    let measured = in_directory(place.dir.as_deref(), place.keep.as_deref(), |dir| match &arguments.what {
        What::Log(log) => rows::measure(log, dir),
        What::Witness(witness) => witness_rows::measure(witness, dir),
        What::Verify(verify) => verify_rows::measure(verify, dir),
        What::Gate(gate) => gate_rows::measure(gate, dir),
    });
    match measured {
        Ok(report) => {
            Output::new(place.json).print(&report, |to| report.write(to));
            ExitStatus::Ok.into()
        }
        Err(failure) => {
            complain(PROGRAM, failure);
            ExitStatus::Failed.into()
        }
    }
}

/// Measures in a new directory: one that is kept, or a temporary one below `above`.
fn in_directory(
    above: Option<&Path>,
    keep: Option<&Path>,
    measure: impl FnOnce(&Path) -> Result<Report, Failure>,
) -> Result<Report, Failure> {
    let above = above.map_or_else(std::env::temp_dir, Path::to_owned);
    let temporary = tempfile::Builder::new().prefix("counterfoil-bench-").tempdir_in(&above);
    let temporary = temporary.map_err(Failure::io(&above))?;
    let dir = keep.unwrap_or(temporary.path());
    std::fs::create_dir_all(dir).map_err(Failure::io(dir))?;
    // What is written into configuration files must hold wherever these lie.
    measure(&dir.canonicalize().map_err(Failure::io(dir))?)
}
