//! `counterfoil demo`: a log, three witnesses, a gate and an auditor on one machine, and six scenes that end as
//! they must.
//!
//! Every part is the real program in a process of its own; only the second history of the last scene comes from
//! the test kit, because no real program can sign one.

mod scenes;
mod tamper;

use anstream::println;
use anstyle::{AnsiColor, Style};
use clap::Args;
use scenes::Scene;
use service::ExitStatus;
use service::output::complain;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use testkit::stage::{Setup, Stage, StageError};

/// What `counterfoil demo` takes.
#[derive(Args, Debug)]
#[command(after_help = "Example: counterfoil demo --dir try --once")]
pub(crate) struct DemoArgs {
    /// Where keys, stores, bundles and evidence go; must be new or empty [default: a new directory in the
    /// system's temporary one, named in the output]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// End after the scenes; the exit code is 0 only if every scene ended as it must
    #[arg(long)]
    once: bool,
    /// Port of the log; the witnesses take the next three [default: free ports]
    #[arg(long)]
    port: Option<u16>,
}

/// Why the demo could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{0} is not empty; name a directory that does not exist yet, or leave --dir out")]
    NotEmpty(PathBuf),
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error("`counterfoil {0}` answered something else than it should")]
    Answer(&'static str),
    #[error("the bundle in {0} is not as the demo left it")]
    Bundle(PathBuf),
    #[error("{0}")]
    Key(String),
    #[error(transparent)]
    Malicious(#[from] testkit::malicious::MaliciousError),
}

impl DemoError {
    fn io(path: &Path, source: io::Error) -> DemoError {
        DemoError::Io { path: path.to_owned(), source }
    }
}

/// Runs the scenes and prints one line for each. Ok when every scene ended as it must, failed otherwise.
pub(crate) fn run(args: &DemoArgs) -> ExitStatus {
    match play(args) {
        Ok(true) => ExitStatus::Ok,
        Ok(false) => ExitStatus::Failed,
        Err(error) => {
            complain(crate::PROGRAM, error);
            ExitStatus::Failed
        }
    }
}

fn play(args: &DemoArgs) -> Result<bool, DemoError> {
    let dir = directory(args.dir.as_deref())?;
    println!("One log, three witnesses (two must agree), one gate, one auditor.");
    println!("Their files are kept in {}\n", dir.display());
    let runtime = tokio::runtime::Runtime::new().map_err(|error| DemoError::io(&dir, error))?;
    let executable = std::env::current_exe().map_err(|error| DemoError::io(&dir, error))?;
    let setup =
        Setup { dir: &dir, executable: &executable, port: args.port, witnesses: scenes::WITNESSES, more_issuers: &[] };
    let mut stage = Stage::build(&setup)?;
    stage.start_log()?;
    stage.start_witnesses()?;
    stage.wait_until_ready()?;
    println!("    {:<16} {:<32} {:<5} by", "scene", "what was done", "found");
    let mut all = true;
    let mut show = |scene: Scene| {
        all &= scene.as_it_must;
        print_scene(&scene);
    };
    show(scenes::honest(&stage)?);
    show(scenes::receipt_torn_out(&stage)?);
    show(scenes::heads_left_out(&stage)?);
    show(scenes::pair_over_two_sessions(&stage)?);
    show(scenes::empty_history_claimed(&stage)?);
    show(scenes::second_history(&mut stage, &runtime)?);
    println!();
    println!("{}", if all { "Every scene ended as it must." } else { "NOT every scene ended as it must." });
    if !args.once {
        stage.start_log()?;
        // Whoever follows what is printed next must find the log at its place.
        stage.wait_until_ready()?;
        println!("\nThe log is at {}.", stage.log_url());
        println!("The witnesses, which now refuse it until somebody looks, are at");
        for number in 0..scenes::WITNESSES {
            println!("  {}", stage.witness_url(number));
        }
        // The other terminal may be anywhere.
        let anywhere = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let (policy, issuers) = (anywhere(stage.policy_file()), anywhere(stage.issuers_file()));
        println!("Go on in another terminal, as an auditor does:");
        println!("  counterfoil verify fetch --policy {} \\", policy.display());
        println!("    --out bundle");
        println!("  counterfoil verify audit --policy {} \\", policy.display());
        println!("    --issuers {} bundle", issuers.display());
        println!("Ctrl-C ends them all.");
        // Without a signal handler the demo could only be killed; then nothing is lost but the processes stay.
        let _ = runtime.block_on(tokio::signal::ctrl_c());
    }
    Ok(all)
}

fn print_scene(scene: &Scene) {
    let (mark, colour) = if scene.as_it_must { ("ok ", AnsiColor::Green) } else { ("BAD", AnsiColor::Red) };
    let style = Style::new().fg_color(Some(colour.into()));
    println!("{style}{mark}{style:#} {:<16} {:<32} {:<5} {}", scene.name, scene.done, scene.verdict, scene.check);
}

/// The directory to work in: the one named, if it is new or empty; else a new one in the temporary directory.
fn directory(named: Option<&Path>) -> Result<PathBuf, DemoError> {
    if let Some(dir) = named {
        fs::create_dir_all(dir).map_err(|error| DemoError::io(dir, error))?;
        let mut entries = fs::read_dir(dir).map_err(|error| DemoError::io(dir, error))?;
        return if entries.next().is_none() { Ok(dir.to_owned()) } else { Err(DemoError::NotEmpty(dir.to_owned())) };
    }
    // Private to this user, and kept: the evidence is worth a look.
    let made = tempfile::Builder::new().prefix("counterfoil-demo-").tempdir();
    Ok(made.map_err(|error| DemoError::io(&std::env::temp_dir(), error))?.keep())
}
