//! The contestants of a server, by their names.

use crate::floors::{Plain, Same, Way};
use crate::packer::Packer;
use crate::peers::{Cached, Fenced, Kit};
use crate::product::Product;
use crate::servers::Server;
use crate::subject::Contestant;
use crate::workload::Body;
use std::sync::Arc;

/// `SET NX PX` and `SET`, or one `SET NX GET`, by hand.
pub const PLAIN: &str = "plain commands";
/// The commands of the product, by hand.
pub const SAME: &str = "the same commands, raw";
/// The commands of the product, by hand, with those of other tasks.
pub const PACKED: &str = "the same commands, packed";
/// The attribute.
pub const PRODUCT: &str = "`#[idempotent]`";
/// The peer that has a lock and a fence.
pub const FENCED: &str = "idempotent 2.0";
/// The peer that has a lock.
pub const KIT: &str = "idempotency-kit 1.0";
/// The peer that has neither.
pub const CACHED: &str = "cached 4.1";

/// Contestants of a set of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Floors and the product.
    Floors,
    /// Floors, the product and the peers.
    All,
}

/// Connects the contestants to a server.
///
/// # Errors
/// The product does not send the commands of a begin and a complete.
pub async fn line_up(
    server: &Server,
    body: &Body,
    field: Field,
) -> Result<Vec<Contestant>, String> {
    let product = Product::connect(server, body).await;
    let commands = Arc::new(product.commands(server).await?);
    let same = |way| Same { body: body.clone(), way, commands: Arc::clone(&commands) };
    let plain = Plain { connection: server.connect().await, body: body.clone() };
    let mut all = vec![
        Contestant::new(PLAIN, plain),
        Contestant::new(SAME, same(Way::Alone(server.connect().await))),
        Contestant::new(PACKED, same(Way::Packed(Packer::new(server.connect().await)))),
        Contestant::new(PRODUCT, product),
    ];
    if field == Field::All {
        all.push(Contestant::new(FENCED, Fenced::connect(server, body).await));
        all.push(Contestant::new(KIT, Kit::connect(server, body).await));
        all.push(Contestant::new(CACHED, Cached::connect(server, body).await));
    }
    Ok(all)
}
