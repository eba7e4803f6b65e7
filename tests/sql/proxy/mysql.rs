//! The messages of MySQL.

use super::Part;
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;

/// Reads a packet: three bytes of length, its number within its exchange, and the payload.
pub(super) async fn read(client: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    client.read_exact(&mut packet).await?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]) as usize;
    packet.resize(4 + length, 0);
    client.read_exact(&mut packet[4..]).await?;
    Ok(packet)
}

pub(super) fn understand(packet: &[u8]) -> Part {
    let text = match (packet[3], packet[4..].split_first()) {
        // A query; others are pings and goodbyes.
        (0, Some((3, text))) => String::from_utf8_lossy(text).into_owned(),
        (0, Some((code, _))) => format!("command {code}"),
        // The login, and parts of a long message.
        _ => return Part::Other,
    };
    if text.starts_with("SET ") { Part::Other } else { Part::Whole(text) }
}
