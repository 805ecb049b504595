//! Where a witness goes, and where it does not.

use crate::stage;
use stage::{FakeLog, House};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_inside_is_followed_only_where_the_configuration_says_so() {
    let (log, house) = (FakeLog::start("log.example/agents", 20).await, House::new());
    let url = log.url.replace("127.0.0.1", "localhost");
    let configure = |more: &str| {
        let section = format!("[[log]]\nvkey = \"{}\"\nurl = \"{url}\"\n{more}", log.vkey());
        std::fs::write(house.home().join("config.toml"), format!("interval_ms = 3600000\n{section}")).unwrap();
    };
    configure("");
    let witness = house.start().await;
    let head = log.offer(20, 0, 0);
    assert_eq!(witness.nudge(&log, &head).await, Err("unreachable".to_owned()));
    let last = witness.status().await.last.unwrap();
    assert_eq!(last.code.as_deref(), Some("private-address"));
    assert!(last.error.unwrap().contains("private_address = true"));
    assert_eq!(log.checkpoints_asked(), 0);

    configure("private_address = true\n");
    witness.reload(&house).await;
    while witness.cosigned(&log).await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    witness.stop().await;
}
