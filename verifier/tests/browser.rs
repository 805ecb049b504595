//! The page in a real browser: it says nothing on the console, asks nothing of the network, overflows no phone, and can
//! be read in light and in dark.
//!
//! Runs where Chromium and its driver are installed; nothing is fetched. Elsewhere it says SKIPPED on standard error.

use crate::verdicts;
use counterfoil_verifier::report::{html, named};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long an answer of the driver's may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser under a driver; both end with it.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts one, or says what is missing here.
    fn start() -> Result<Browser, String> {
        let chromium = ["chromium", "chromium-browser", "google-chrome", "chrome"]
            .into_iter()
            .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
            .ok_or("no Chromium is installed")?;
        let binary = path_of(chromium).ok_or("no Chromium is in PATH")?;
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("chromedriver cannot be started: {error}"))?;
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.rsplit_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        // Whoever writes into a closed pipe is killed.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser =
            Browser { driver, port: port.unwrap_or(0), session: String::new(), _profile: tempfile::tempdir().unwrap() };
        if port.is_none() {
            return Err("chromedriver did not say where it listens".to_owned());
        }
        let profile = format!("--user-data-dir={}", browser._profile.path().display());
        let options = json!({"binary": binary, "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", profile,
        ]});
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}});
        let started = browser.call("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}}));
        match started["sessionId"].as_str() {
            Some(session) => browser.session = format!("/session/{session}"),
            None => return Err(format!("the browser cannot be started: {}", started["message"])),
        }
        Ok(browser)
    }

    /// One call of the driver's; what it answers.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        // The driver keeps the connection open, whatever it is told.
        let mut answer = BufReader::new(stream);
        let mut length = None;
        loop {
            let mut line = String::new();
            assert!(answer.read_line(&mut line).unwrap() > 0, "{path}: the driver ended in the middle of an answer");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(told) = line.strip_prefix("content-length:") {
                length = told.trim().parse().ok();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length.unwrap()];
        answer.read_exact(&mut body).unwrap();
        let mut value: Value = serde_json::from_slice(&body).unwrap();
        value["value"].take()
    }

    fn of_session(&self, path: &str, body: &Value) -> Value {
        let answer = self.call("POST", &format!("{}{path}", self.session), body);
        assert!(answer["error"].is_null(), "{path}: {answer}");
        answer
    }

    /// A command of the browser's own protocol.
    fn command(&self, name: &str, parameters: Value) -> Value {
        self.of_session("/goog/cdp/execute", &json!({"cmd": name, "params": parameters}))
    }

    fn open(&self, page: &Path) {
        self.of_session("/url", &json!({"url": format!("file://{}", page.display())}));
    }

    fn look(&self, width: u32, scheme: &str) {
        self.command(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}),
        );
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    fn value_of(&self, expression: &str) -> Value {
        let told = self.command("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(told["exceptionDetails"].is_null(), "{told}");
        told["result"]["value"].clone()
    }

    /// Everything that was logged since the last time.
    fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.of_session("/se/log", &json!({"type": kind}));
        entries.as_array().unwrap().clone()
    }

    fn picture(&self, file: &Path) {
        use base64::Engine;
        let picture = self.command("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ended = self.call("DELETE", &self.session, &json!({}));
        }
        let _already_gone = self.driver.kill();
        let _already_gone = self.driver.wait();
    }
}

fn path_of(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The smallest contrast between a text and what is behind it, and that text.
const CONTRAST: &str = r#"(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const parts = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  let worst = {ratio: 99, text: '', texts: 0};
  for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim()).map(n => n.data.trim()).join(' ');
    if (!own || ['TITLE', 'title', 'STYLE'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const front = parts(element instanceof SVGElement ? style.fill : style.color);
    let behind = element, back = [0, 0, 0, 0];
    while (behind && back[3] === 0) { back = parts(getComputedStyle(behind).backgroundColor); behind = behind.parentElement; }
    const [a, b] = [light(front), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    worst.texts += 1;
    if (back[3] !== 255) return {ratio: 0, text: 'no background behind: ' + own};
    if (ratio < worst.ratio) { worst.ratio = ratio; worst.text = own; }
  }
  return worst;
})()"#;

/// What reaches beyond the window: elements by name and text.
const OVERFLOW: &str = r#"(() => {
  const width = document.documentElement.clientWidth;
  const beyond = [...document.body.querySelectorAll('*')].filter(e => !e.closest('svg svg, svg g, defs'))
    .filter(e => { const box = e.getBoundingClientRect(); return box.width > 1 && (box.right > width + 1 || box.left < -1); })
    .map(e => e.tagName + ' ' + e.textContent.slice(0, 40));
  return {scrolls: document.documentElement.scrollWidth > width, beyond: beyond.slice(0, 5)};
})()"#;

#[test]
fn a_browser_shows_the_page_whole_in_light_and_dark_and_asks_for_nothing() {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(missing) => {
            // Not through `eprintln!`, which the test runner keeps to itself.
            let told = format!("SKIPPED: the report in a browser: {missing}\n");
            std::io::stderr().write_all(told.as_bytes()).unwrap();
            return;
        }
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports");
    fs::create_dir_all(&folder).unwrap();
    let telling = verdicts::telling();
    let bodies = named::read_bodies(&telling.bundle, &telling.verdict).unwrap();
    let mut pages = vec![(String::from("telling"), html::page(&telling.verdict, &bodies))];
    let honest = verdicts::real().into_iter().nth(1).unwrap();
    pages.push((String::from("honest"), html::page(&honest.verdict, &named::Bodies::new())));
    for (place, text) in verdicts::hostile().iter().enumerate() {
        let verdict = verdicts::of_text(text);
        let bodies =
            verdict.checks[0].findings[0].receipts.iter().map(|receipt| (receipt.id.0, text.clone())).collect();
        pages.push((format!("hostile-{place}"), html::page(&verdict, &bodies)));
    }
    browser.command("Network.enable", json!({}));
    for (name, page) in &pages {
        let file = folder.join(format!("{name}.html"));
        fs::write(&file, page).unwrap();
        browser.log("performance");
        browser.open(&file);
        let mut backgrounds = Vec::new();
        for scheme in ["light", "dark"] {
            // Names that never end do not end on a wide screen either.
            let widths = if name.starts_with("hostile") { &[360][..] } else { &[360, 390, 1280] };
            for width in widths.iter().copied() {
                browser.look(width, scheme);
                let overflow = browser.value_of(OVERFLOW);
                assert_eq!(overflow, json!({"scrolls": false, "beyond": []}), "{name} at {width} in {scheme}");
                if width != 360 && !name.starts_with("hostile") {
                    browser.picture(&folder.join(format!("{name}-{scheme}-{width}.png")));
                }
            }
            let contrast = browser.value_of(CONTRAST);
            let (ratio, texts) = (contrast["ratio"].as_f64().unwrap(), contrast["texts"].as_u64().unwrap());
            assert!(ratio >= 4.5 && texts > 50, "{name} in {scheme}: {contrast}");
            backgrounds.push(browser.value_of("getComputedStyle(document.body).backgroundColor"));
        }
        assert_ne!(backgrounds[0], backgrounds[1], "{name}: light and dark look alike");
        // Every link leads somewhere on the page.
        let dead = "[...document.links].filter(a => !a.getAttribute('href').startsWith('#') || !document.getElementById(a.hash.slice(1))).map(a => a.outerHTML)";
        assert_eq!(browser.value_of(dead), json!([]), "{name}");
        assert_eq!(browser.value_of("document.scripts.length"), json!(0), "{name}");
        assert_eq!(browser.log("browser"), [] as [Value; 0], "{name}");
        let asked: Vec<String> = browser
            .log("performance")
            .iter()
            .map(|entry| serde_json::from_str::<Value>(entry["message"].as_str().unwrap()).unwrap()["message"].clone())
            .filter(|message| message["method"] == "Network.requestWillBeSent")
            .map(|message| message["params"]["request"]["url"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(asked, [format!("file://{}", file.display())], "{name}");
    }
}
