//! A witness of level `full` that meets a log for the first time: it fetches every receipt, puts each to the rule of
//! admission, and cosigns. Both are processes of their own on this machine, and share its processors.

use crate::arguments::WitnessRow;
use crate::failure::Failure;
use crate::house::House;
use crate::http::{self, Connection};
use crate::process;
use crate::report::{Bar, Figure, Section, Unit, thousands};
use crate::stand::{Stand, in_one_thread};
use note::{Origin, SignedCheckpoint};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::stage::ORIGIN;

/// Issuers of the log.
const ISSUERS: usize = 64;
/// Receipts that the bar is for.
const LEAST: u64 = 200_000;
/// Receipts a second to reach.
const BAR: f64 = 35_000.0;
/// How often it is looked whether the witness is done.
const GLANCE: Duration = Duration::from_millis(10);
/// A witness that is slower than a thousand receipts a second is not waited for.
const SLOWEST: f64 = 1_000.0;

/// Measures one catch-up from nothing over a log of `receipts`, made in `dir`. `checks`: strict checks a second of a core.
pub(crate) fn measure(dir: &Path, receipts: u64, checks: f64) -> Result<Section, Failure> {
    let mut stand = Stand::build(&dir.join("log"), 0)?;
    stand.fill_by(ISSUERS, receipts)?;
    let (size, log) = (stand.size, stand.log_process()?);
    let section = format!(
        "\n[[log]]\nvkey = \"{}\"\nurl = \"{}\"\nprivate_address = true\nissuers = {:?}\n",
        stand.stage.log_vkey(),
        stand.stage.log_url(),
        stand.stage.issuers_file()
    );
    let origin = Origin::new(ORIGIN).map_err(Failure::unexpected)?;
    let path = format!("/{}/checkpoint", client::witness::origin_hash(&origin));

    let (before, started) = (process::Usage::now(log)?, Instant::now());
    let house = House::build_with(&dir.join("witness"), &[("level", &"\"full\"")], &section)?;
    let patience = Duration::from_secs_f64(60.0 + size as f64 / SLOWEST);
    while held_size(house.address, &path)? != Some(size) {
        if started.elapsed() > patience {
            return Err(Failure::Answer("the witness does not cosign; see its witness.stderr".to_owned()));
        }
        std::thread::sleep(GLANCE);
    }
    let wall = started.elapsed();
    let used = process::Usage::now(log)?.since(before, wall);
    let of_witness = process::cpu_time(Some(house.id()))?.total();
    let peak = process::memory(house.id())?.peak;
    house.stop()?;

    let a_receipt = |time: Duration| time.as_secs_f64() * 1e6 / size as f64;
    let rate = Figure::new("level full, receipts checked", size as f64 / wall.as_secs_f64(), Unit::PerSecond);
    let figures = vec![
        rate.bar_from(Bar::AtLeast(BAR), LEAST, size).beside(checks),
        Figure::new("  processor time of the witness, a receipt", a_receipt(of_witness), Unit::CpuMicroseconds),
        Figure::new("  processor time of the log, a receipt", a_receipt(used.log.total()), Unit::CpuMicroseconds),
        Figure::new("  most that was ever resident of the witness", peak as f64 / 1e6, Unit::Megabytes),
    ];
    let how = format!(
        "A log of {} receipts of 700 bytes by {ISSUERS} issuers, and a witness of level full that meets it over loopback; timed \
         from before the witness is made to its cosigned checkpoint over all of them.",
        thousands(size as f64)
    );
    // The witness is among the others there.
    let others = used.others - of_witness.as_secs_f64() / wall.as_secs_f64();
    Ok(Section::new(WitnessRow::Full, figures, how).others(others))
}

/// The size of the cosigned checkpoint, once there is one.
fn held_size(address: SocketAddr, path: &str) -> Result<Option<u64>, Failure> {
    let asked = in_one_thread(async {
        let mut connection = Connection::open(address).await?;
        let answer = connection.exchange(&http::request("GET", path, "", b"")).await?;
        Ok::<_, std::io::Error>((answer.status == 200).then(|| answer.body.to_vec()))
    })?;
    let body = asked.map_err(Failure::Connection)?;
    let head = body.map(|body| SignedCheckpoint::parse(&body).map_err(Failure::unexpected)).transpose()?;
    Ok(head.map(|head| head.claimed().size.0))
}
