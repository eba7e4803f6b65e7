use std::net::SocketAddr;

use idempotent_runtime::{Error, idempotent};

struct Request {
    order_id: u64,
}

#[idempotent(key = "peer.to_string"(), message = "order {req.order_id}"())]
async fn greet(peer: SocketAddr, req: Request) -> Result<u64, Error> {
    drop(peer);
    Ok(req.order_id)
}

#[idempotent(key = "(peer.ip, req.order_id)"())]
async fn visit(peer: SocketAddr, req: Request) -> Result<u64, Error> {
    drop(peer);
    Ok(req.order_id)
}

fn main() {}
