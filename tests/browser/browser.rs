//! A browser with one page, driven by the WebDriver protocol.
//!
//! Going somewhere and clicking return before the next page is there. What is looked for is waited
//! for.

use crate::driver::{Driver, HELP};
use http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Far beyond what any page takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at a page.
const PAUSE: Duration = Duration::from_millis(20);

/// The name under which the protocol hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser that ends with this value.
pub(crate) struct Browser {
    client: reqwest::Client,
    session: String,
    _driver: Driver,
}

/// A point on a page.
pub(crate) struct Place {
    x: f64,
    y: f64,
}

/// The driver's reason for a refusal.
type Refused = String;

impl Browser {
    /// One that knows nothing of any other.
    pub(crate) async fn start() -> Self {
        let driver = Driver::start();
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let profile = format!("--user-data-dir={}", driver.directory().join("profile").display());
        let arguments = [
            "--headless",
            // The sandbox does not start for root, and no page here is foreign.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=900,700",
            &profile,
        ];
        let wanted = json!({
            "browserName": "chrome",
            "pageLoadStrategy": "none",
            "goog:chromeOptions": { "binary": &driver.browser, "args": arguments },
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": wanted } });
        let sessions = format!("http://127.0.0.1:{}/session", driver.port);
        let begun = call(&client, Method::POST, &sessions, &wanted).await;
        let begun = begun.unwrap_or_else(|why| panic!("chromium does not start: {why}; {HELP}"));
        let session = format!("{sessions}/{}", begun["sessionId"].as_str().unwrap());
        Self { client, session, _driver: driver }
    }

    pub(crate) async fn open(&self, address: &str) {
        self.post("/url", &json!({ "url": address })).await.unwrap();
    }

    pub(crate) async fn back(&self) {
        self.post("/back", &json!({})).await.unwrap();
    }

    pub(crate) async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        self.post(&format!("/element/{element}/click"), &json!({})).await.unwrap();
    }

    /// Two clicks as the mouse makes them, without a look at the page in between.
    pub(crate) async fn double_click(&self, selector: &str) {
        let element = self.find(selector).await;
        let origin = json!({ ELEMENT: element });
        let to = json!({ "type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin });
        let down = json!({ "type": "pointerDown", "button": 0 });
        let up = json!({ "type": "pointerUp", "button": 0 });
        let mouse = json!({
            "type": "pointer",
            "id": "mouse",
            "parameters": { "pointerType": "mouse" },
            "actions": [to, down, up, down, up],
        });
        self.post("/actions", &json!({ "actions": [mouse] })).await.unwrap();
    }

    /// The centre of an element.
    pub(crate) async fn place_of(&self, selector: &str) -> Place {
        let element = self.find(selector).await;
        let shape = self.get(&format!("/element/{element}/rect")).await.unwrap();
        let number = |name: &str| shape[name].as_f64().unwrap();
        let (x, y) = (number("x") + number("width") / 2.0, number("y") + number("height") / 2.0);
        Place { x, y }
    }

    /// Clicks there, also while the next page is awaited. Until that is there, the driver finds no
    /// elements on the present one and moves no pointer.
    pub(crate) async fn click_at(&self, place: &Place) {
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({
                "type": kind, "x": place.x, "y": place.y, "button": "left", "clickCount": 1,
            });
            let command = json!({ "cmd": "Input.dispatchMouseEvent", "params": event });
            self.post("/goog/cdp/execute", &command).await.unwrap();
        }
    }

    pub(crate) async fn enter(&self, selector: &str, text: &str) {
        let element = self.find(selector).await;
        let keys = json!({ "text": text });
        self.post(&format!("/element/{element}/value"), &keys).await.unwrap();
    }

    /// The path of the page that is shown.
    pub(crate) async fn path(&self) -> String {
        let address = self.get("/url").await.unwrap();
        address.as_str().unwrap().parse::<http::Uri>().unwrap().path().to_owned()
    }

    /// Waits until the page shows all of these, and returns everything that it shows.
    ///
    /// # Panics
    /// It does not.
    pub(crate) async fn shows(&self, texts: &[&str]) -> String {
        let started = Instant::now();
        loop {
            // Between two pages there is nothing to read.
            let shown = self.text().await;
            if let Ok(shown) = &shown
                && texts.iter().all(|text| shown.contains(text))
            {
                return shown.clone();
            }
            assert!(started.elapsed() < PATIENCE, "{texts:?} are not shown, but {shown:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn text(&self) -> Result<String, Refused> {
        let body = self.try_find("body").await?;
        let text = self.get(&format!("/element/{body}/text")).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    async fn find(&self, selector: &str) -> String {
        let started = Instant::now();
        loop {
            match self.try_find(selector).await {
                Ok(element) => return element,
                Err(refused) => {
                    assert!(started.elapsed() < PATIENCE, "there is no `{selector}`: {refused}");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_find(&self, selector: &str) -> Result<String, Refused> {
        let by = json!({ "using": "css selector", "value": selector });
        let found = self.post("/element", &by).await?;
        Ok(found[ELEMENT].as_str().expect("an element").to_owned())
    }

    async fn get(&self, path: &str) -> Result<Value, Refused> {
        call(&self.client, Method::GET, &format!("{}{path}", self.session), &Value::Null).await
    }

    async fn post(&self, path: &str, argument: &Value) -> Result<Value, Refused> {
        call(&self.client, Method::POST, &format!("{}{path}", self.session), argument).await
    }
}

/// Sends a command to the driver.
async fn call(
    client: &reqwest::Client,
    method: Method,
    address: &str,
    argument: &Value,
) -> Result<Value, Refused> {
    let mut request = client.request(method, address);
    if !argument.is_null() {
        request = request.header("content-type", "application/json").body(argument.to_string());
    }
    let answer = request.send().await.expect("chromedriver answers");
    let refused = !answer.status().is_success();
    let answer = answer.bytes().await.expect("chromedriver answers");
    let mut answer: Value = serde_json::from_slice(&answer).expect("chromedriver speaks JSON");
    let value = answer["value"].take();
    if refused { Err(format!("{}: {}", value["error"], value["message"])) } else { Ok(value) }
}
