use std::sync::Arc;

use idempotent_runtime::{Error, Idempotency, idempotent};

struct App {
    tenants: Vec<Option<Arc<Idempotency>>>,
}

impl App {
    fn instance(&self, tenant: usize) -> Option<Arc<Idempotency>> {
        self.tenants[tenant].clone()
    }
}

async fn instance_of(app: &App) -> Result<Arc<Idempotency>, Error> {
    Ok(app.instance(0).expect("there is one"))
}

#[idempotent(key = "id", mode = "strong", with = instance_of(app))]
async fn create(app: &App, id: u64) -> Result<u64, Error> {
    drop(app.instance(1));
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = instance_of(app).await)]
async fn capture(app: &App, id: u64) -> Result<u64, Error> {
    drop(app.instance(1));
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = app.instance(tenant))]
async fn cancel(app: &App, tenant: usize, id: u64) -> Result<u64, Error> {
    drop(app.instance(1));
    Ok(id)
}

fn main() {}
