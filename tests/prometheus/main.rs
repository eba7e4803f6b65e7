//! The dashboard and the alert rules of `docs/monitoring`, asked of a real Prometheus that scrapes the
//! service of `examples/metrics`.
//!
//! A metric or a label that is renamed leaves a panel without data, or an alert with a name that nobody
//! serves: both are failures here.
#![allow(missing_docs)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::prometheus::{Exporter, Prometheus, promtool};

/// Time limit for data to appear: rates need two scrapes, and records have to expire.
const PATIENCE: Duration = Duration::from_secs(60);

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn monitoring(file: &str) -> PathBuf {
    workspace().join("docs/monitoring").canonicalize().unwrap().join(file)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The service, and the Prometheus that scrapes it.
struct Monitored {
    prometheus: Prometheus,
    client: reqwest::Client,
    _service: Exporter,
}

impl Monitored {
    fn start() -> Self {
        let binary = Path::new(env!("CARGO_BIN_EXE_metrics-example"));
        let service = Exporter::start(binary, &["--port", "0"], "Ctrl-C");
        let prometheus = Prometheus::start(&service.address(), &monitoring("alerts.yml"));
        Self { prometheus, client: reqwest::Client::new(), _service: service }
    }

    /// Asks Prometheus, and returns the field `data` of its answer.
    async fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let url = self.prometheus.url(path);
        let url = reqwest::Url::parse_with_params(&url, parameters).unwrap();
        let answer = self.client.get(url).send().await.unwrap().text().await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].clone()),
            _ => Err(format!("{path} {parameters:?}: {}", answer["error"])),
        }
    }

    /// The numbers that an expression has now.
    async fn values(&self, expression: &str) -> Result<Vec<f64>, String> {
        let data = self.ask("/api/v1/query", &[("query", expression)]).await?;
        let series = data["result"].as_array().expect("a vector");
        let number = |series: &Value| series["value"][1].as_str().unwrap().parse().unwrap();
        Ok(series.iter().map(number).collect())
    }

    /// The names of all metrics that the service has shown.
    async fn names(&self) -> BTreeSet<String> {
        let names = self.ask("/api/v1/label/__name__/values", &[]).await.unwrap();
        let names = names.as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    }
}

/// Asks until there is nothing left to complain of.
async fn until_none<F: Future<Output = Vec<String>>>(mut complaints: impl FnMut() -> F) {
    let started = Instant::now();
    loop {
        let left = complaints().await;
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{left:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An expression of a panel, and the title of that panel.
struct Query {
    panel: String,
    expression: String,
}

/// The expressions of the dashboard, as Grafana sends them with every variable at `All`.
fn dashboard() -> Vec<Query> {
    let dashboard: Value = serde_json::from_str(&read(&monitoring("dashboard.json"))).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().expect("every panel has a title");
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].is_string(), "{title} has no description");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression
                .replace("$__rate_interval", "10s")
                .replace("$job", ".*")
                .replace("$operation", ".*");
            assert!(!expression.contains('$'), "a variable that nobody sets: {expression}");
            queries.push(Query { panel: title.to_owned(), expression });
        }
    }
    assert!(queries.len() > 20, "the dashboard was not read");
    queries
}

/// Members of a dashboard, as Grafana 10.2 exports them: those of each object, and no others.
const DASHBOARD: &[&str] = &[
    "editable",
    "panels",
    "refresh",
    "schemaVersion",
    "tags",
    "templating",
    "time",
    "timezone",
    "title",
    "uid",
    "version",
];
const ROW: &[&str] = &["collapsed", "gridPos", "id", "panels", "title", "type"];
const PANEL: &[&str] = &[
    "datasource",
    "description",
    "fieldConfig",
    "gridPos",
    "id",
    "options",
    "targets",
    "title",
    "type",
];
const TARGET: &[&str] = &["datasource", "expr", "legendFormat", "refId"];
const TIMESERIES_OPTIONS: &[&str] = &["legend", "tooltip"];
const STAT_OPTIONS: &[&str] =
    &["colorMode", "graphMode", "justifyMode", "orientation", "reduceOptions", "textMode"];

fn assert_members(of: &str, object: &Value, known: &[&str]) {
    for name in object.as_object().unwrap_or_else(|| panic!("{of} is no object")).keys() {
        assert!(known.contains(&name.as_str()), "{of}: Grafana has no `{name}` here");
    }
}

/// The rectangle of a panel, in cells of the grid: left, top, right, bottom.
fn area(panel: &Value) -> [u64; 4] {
    let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
    [x, y, x + w, y + h]
}

#[test]
fn the_dashboard_has_the_structure_of_those_that_grafana_exports() {
    let dashboard: Value = serde_json::from_str(&read(&monitoring("dashboard.json"))).unwrap();
    assert_members("the dashboard", &dashboard, DASHBOARD);
    assert_eq!(dashboard["schemaVersion"], 38, "that of Grafana 10.2");
    let source = serde_json::json!({"type": "prometheus", "uid": "${datasource}"});
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!(variables[0]["type"], "datasource");
    assert!(variables[1..].iter().all(|it| it["type"] == "query" && it["datasource"] == source));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have one id");
    for (number, panel) in panels.iter().enumerate() {
        let title = panel["title"].as_str().unwrap();
        let [left, top, right, bottom] = area(panel);
        assert!(left < right && right <= 24 && top < bottom, "{title} is not on the grid");
        for other in panels[..number].iter().map(area) {
            let beside = right <= other[0] || other[2] <= left;
            assert!(beside || bottom <= other[1] || other[3] <= top, "{title} is on another panel");
        }
        let options = match panel["type"].as_str().unwrap() {
            "row" => {
                assert_members(title, panel, ROW);
                continue;
            }
            "timeseries" => TIMESERIES_OPTIONS,
            "stat" => STAT_OPTIONS,
            other => panic!("{title}: {other}"),
        };
        assert_members(title, panel, PANEL);
        assert_members(title, &panel["options"], options);
        assert_members(title, &panel["fieldConfig"], &["defaults", "overrides"]);
        assert_eq!(panel["datasource"], source, "{title}");
        let targets = panel["targets"].as_array().unwrap();
        for target in targets {
            assert_members(title, target, TARGET);
            assert_eq!(target["datasource"], source, "{title}");
        }
        let names: BTreeSet<_> = targets.iter().map(|it| it["refId"].as_str().unwrap()).collect();
        assert_eq!(names.len(), targets.len(), "{title}: two targets have one name");
    }
}

/// The metrics of `docs/observability.md`, which `documented` compares with the code: those of every
/// service, and those of consumers.
fn documented() -> (BTreeSet<String>, BTreeSet<String>) {
    let page = read(&workspace().join("docs/observability.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `idempotent_"));
    let (mut all, mut consumers) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        let (name, rest) = row.split_once('`').unwrap();
        let is_consumer = rest.split('|').nth(3).unwrap().trim().starts_with("consumers:");
        let metrics = if is_consumer { &mut consumers } else { &mut all };
        metrics.insert(format!("idempotent_{name}"));
    }
    assert!(!all.is_empty() && !consumers.is_empty(), "the table was not read");
    (all, consumers)
}

/// The names of metrics in an expression, as they are served.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let words =
        expression.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
    words.filter(|word| word.contains("idempotent")).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_panel_has_data_and_every_alert_speaks_of_metrics_that_are_served() {
    let monitored = Monitored::start();

    let panels = dashboard();
    until_none(|| async {
        let mut without_data = Vec::new();
        for Query { panel, expression } in &panels {
            let values = monitored.values(expression).await.unwrap();
            if !values.iter().any(|value| value.is_finite()) {
                without_data.push(format!("{panel}: {expression} gives {values:?}"));
            }
        }
        without_data
    })
    .await;

    // Every kind of call is made by the example, so it serves every metric but those of consumers.
    let (documented, consumers) = documented();
    let served = monitored.names().await;
    let is_served =
        |name: &String| served.contains(name) || served.contains(&format!("{name}_count"));
    let missing: Vec<_> = documented.iter().filter(|name| !is_served(name)).collect();
    assert!(missing.is_empty(), "never counted: {missing:?}");

    let groups = monitored.ask("/api/v1/rules", &[]).await.unwrap();
    let groups = groups["groups"].as_array().unwrap();
    let rules: Vec<&Value> =
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() > 10, "the rules were not read");
    let tests = read(&monitoring("alerts.test.yml"));
    for rule in &rules {
        let name = rule["name"].as_str().unwrap();
        let expression = rule["query"].as_str().unwrap();
        monitored.values(expression).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_recorded = |metric: &str| rules.iter().any(|rule| rule["name"] == metric);
        for metric in metrics_in(expression) {
            let is_known =
                served.contains(&metric) || consumers.contains(&metric) || is_recorded(&metric);
            assert!(is_known, "{name} speaks of {metric}, which nobody serves");
        }
        if rule["type"] == "alerting" {
            assert!(tests.contains(&format!("alertname: {name}\n")), "{name} has no test");
            assert!(rule["labels"]["severity"].is_string(), "{name} has no severity");
            for annotation in ["summary", "description"] {
                assert!(rule["annotations"][annotation].is_string(), "{name} has no {annotation}");
            }
        }
    }

    // The example has every trouble at once: alerts on single events fire in the real server, too.
    let at_once = ["IdempotentUnprotected", "IdempotentSuperseded", "IdempotentKeyBlocked"];
    until_none(|| async {
        let alerts = monitored.ask("/api/v1/alerts", &[]).await.unwrap();
        let alerts = alerts["alerts"].as_array().unwrap();
        let fires = |name: &str| {
            let named = alerts.iter().filter(|alert| alert["labels"]["alertname"] == name);
            named.into_iter().any(|alert| alert["state"] == "firing")
        };
        let silent = at_once.iter().filter(|name| !fires(name));
        silent.map(|name| format!("{name} does not fire")).collect()
    })
    .await;
}

#[test]
fn the_alert_rules_pass_their_tests() {
    let directory = monitoring("");
    promtool(&directory, &["check", "rules", "alerts.yml"]);
    promtool(&directory, &["test", "rules", "alerts.test.yml"]);
}
