//! The log's figures, in one table with the bars they are held against: `counterfoil-bench log`.
//!
//! What is measured is the real program in processes of its own. So that nothing has to be installed beside it, this
//! executable is also that program, when it is called by that name (`stand` makes a link).

mod arguments;
mod disk;
mod failure;
mod gates;
mod http;
mod load;
mod machine;
mod process;
mod report;
mod rows;
mod stand;

use arguments::{Arguments, LogArguments, What};
use failure::Failure;
use service::ExitStatus;
use service::output::{Output, complain};
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
    std::fs::create_dir_all(dir).map_err(Failure::io(dir))?;
    // What is written into configuration files must hold wherever these lie.
    let dir = &dir.canonicalize().map_err(Failure::io(dir))?;
    let report = rows::measure(arguments, dir)?;
    Output::new(arguments.json).print(&report, |to| report.write(to));
    Ok(())
}
