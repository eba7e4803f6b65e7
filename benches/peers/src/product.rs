//! The product: an attributed function.

use crate::capture::capture;
use crate::floors::Commands;
use crate::servers::Server;
use crate::subject::Subject;
use crate::workload::{Body, Order, check, fresh_ids};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, Idempotency, idempotent};

#[idempotent(key = "id", expire = 3600, mode = "strong", name = "orders.create", with = idem)]
pub(crate) async fn create(idem: &Idempotency, id: u64, body: &Body) -> Result<Order, Error> {
    Ok(body.run(id))
}

/// An attributed function in strong mode.
#[derive(Clone, Debug)]
pub struct Product {
    /// The instance.
    pub idem: Idempotency,
    /// The body.
    pub body: Body,
}

impl Product {
    /// An instance with default settings on a server.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn connect(server: &Server, body: &Body) -> Self {
        let store = RedisStore::connect(&server.url()).await.expect("the server is up");
        let idem = Idempotency::builder().store(store).build().expect("default settings are valid");
        Self { idem, body: body.clone() }
    }

    /// The commands of a first execution.
    ///
    /// # Errors
    /// They are not those of a begin and a complete.
    pub async fn commands(&self, server: &Server) -> Result<Commands, String> {
        // The first call may have to send the text of a script.
        self.first(fresh_ids(1)).await;
        let id = fresh_ids(1);
        let captured = capture(server, self.first(id)).await;
        Commands::of(&captured, id, &self.body)
    }
}

impl Subject for Product {
    async fn first(&self, id: u64) {
        check(&create(&self.idem, id, &self.body).await.expect("the call is answered"), id);
    }
}
