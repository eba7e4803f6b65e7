//! Listing of records: `SCAN` on one master after the other, then the head of each record that it
//! named. Values stay where they are.

use super::answers::ttl_of;
use super::error::{Failure, misconfigured, unexpected};
use super::eviction::primaries;
use super::links::Failed;
use super::mark;
use super::moved::is_beside;
use super::name::Name;
use super::script;
use super::server::Server;
use crate::key::RecordKey;
use crate::store::scan::LIMIT_MAX;
use crate::store::{Cursor, Filter, Listed, Page, StoreError, StoreErrorKind, wire};
use redis::{Cmd, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A place in a listing: the server's own cursor, and in a cluster the master that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    at: u64,
    master: Option<Address>,
}

/// Host and port of a master.
type Address = (String, u16);

impl Place {
    fn read(cursor: &Cursor) -> Option<Self> {
        let (at, master) = match cursor.as_str().split_once('@') {
            None => (cursor.as_str(), None),
            Some((at, address)) => {
                let (host, port) = address.rsplit_once(':')?;
                (at, Some((host.to_owned(), port.parse().ok()?)))
            }
        };
        Some(Self { at: at.parse().ok()?, master })
    }

    fn cursor(&self) -> Cursor {
        Cursor::new(match &self.master {
            None => self.at.to_string(),
            Some((host, port)) => format!("{}@{host}:{port}", self.at),
        })
    }
}

/// A key that a server named.
enum Named {
    Record(RecordKey),
    /// A record of another kind than the one that is looked for.
    Other,
    Foreign,
}

impl Server {
    pub(super) async fn scan(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, Failed> {
        let masters = self.masters().await?;
        let (place, slot) = start(after, &masters)?;
        let (at, names) = self.names(&place, slot, filter, limit).await?;
        let mut page =
            Page { next: next(place, at, &masters).map(|it| it.cursor()), ..Page::default() };
        let mut keys = Vec::with_capacity(names.len());
        for name in names {
            match named(&name, filter) {
                Named::Record(key) => keys.push(key),
                Named::Other => {}
                Named::Foreign => page.skipped += 1,
            }
        }
        // Sent together: a connection puts into one message what is there to be sent.
        for found in super::join(keys.into_iter().map(|key| self.head(key))).await {
            match found {
                Ok(Some(found)) if filter.admits_head(&found.head, found.ttl) => {
                    page.records.push(found)
                }
                // Expired since it was named, or of another kind.
                Ok(_) => {}
                Err(Failed::Answered(error)) if error.kind() == StoreErrorKind::Undecodable => {
                    page.skipped += 1;
                }
                // Something else since it was named.
                Err(failed) if failed.failure() == Failure::WrongType => page.skipped += 1,
                Err(failed) => return Err(failed),
            }
        }
        Ok(page)
    }

    /// The masters of a cluster in the order in which they are asked, and a slot of each; none where
    /// there is one server.
    async fn masters(&self) -> Result<BTreeMap<Address, u16>, Failed> {
        if !self.links.target().is_cluster() {
            return Ok(BTreeMap::new());
        }
        let answer = self.links.command(redis::cmd("CLUSTER").arg("SLOTS").to_owned()).await?;
        let ranges = redis::from_redis_value(answer)
            .map_err(|_| Failed::Answered(unexpected("CLUSTER SLOTS")))?;
        Ok(primaries(ranges).into_iter().collect())
    }

    /// Some of the names that a master has, and its cursor behind them.
    async fn names(
        &self,
        place: &Place,
        slot: Option<u16>,
        filter: &Filter,
        limit: usize,
    ) -> Result<(u64, Vec<Vec<u8>>), Failed> {
        let mut command = redis::cmd("SCAN");
        command.arg(place.at).arg("MATCH").arg(pattern(filter));
        command.arg("COUNT").arg(limit.clamp(1, LIMIT_MAX)).arg("TYPE").arg("string");
        let answer = self.links.command_to(slot, command).await?;
        redis::from_redis_value(answer).map_err(|_| Failed::Answered(unexpected("SCAN")))
    }

    /// A record without its value; `None` if there is none by now.
    async fn head(&self, key: RecordKey) -> Result<Option<Listed>, Failed> {
        let name = Name::of(&key);
        let arguments = |command: &mut Cmd| {
            command.arg(1).arg(name.as_str()).arg(wire::HEAD_MAX + 1);
        };
        let answer = self.run(&script::HEAD, &arguments).await?;
        let (start, whole, ttl): (Vec<u8>, u64, Value) = redis::from_redis_value(answer)
            .map_err(|_| Failed::Answered(unexpected("a script")))?;
        let Some(ttl) = ttl_of(&ttl)? else { return Ok(None) };
        let decoded = wire::decode_head(&mark::unmarked(start), whole);
        let (head, value_bytes) = decoded.map_err(Failed::Answered)?;
        Ok(Some(Listed::new(key, head, ttl, value_bytes)))
    }
}

/// The place at which a page begins, and in a cluster a slot of its master.
fn start(
    after: Option<&Cursor>,
    masters: &BTreeMap<Address, u16>,
) -> Result<(Place, Option<u16>), Failed> {
    let place = match after {
        None => Some(Place { at: 0, master: masters.keys().next().cloned() }),
        Some(cursor) => Place::read(cursor),
    };
    let Some(place) = place.filter(|place| place.master.is_some() != masters.is_empty()) else {
        return Err(Failed::NotSent(misconfigured("the cursor is not one of this redis store")));
    };
    let Some(master) = &place.master else { return Ok((place, None)) };
    match masters.get(master) {
        Some(slot) => Ok((place.clone(), Some(*slot))),
        // Its successor has another order of its own, in which this place means nothing.
        None => {
            let (host, port) = master;
            let text = format!("{host}:{port} is no longer a master\nhelp: start the scan again");
            Err(Failed::NotSent(StoreError::new(StoreErrorKind::Unavailable, text)))
        }
    }
}

/// The place after the names of a master up to its cursor; `None` behind those of the last.
fn next(place: Place, at: u64, masters: &BTreeMap<Address, u16>) -> Option<Place> {
    use std::ops::Bound::{Excluded, Unbounded};
    if at != 0 {
        return Some(Place { at, ..place });
    }
    let (next, _) = masters.range((Excluded(place.master?), Unbounded)).next()?;
    Some(Place { at: 0, master: Some(next.clone()) })
}

/// Tells what a name stands for, before anything is read.
fn named(name: &[u8], filter: &Filter) -> Named {
    let Some(key) = std::str::from_utf8(name).ok().and_then(Name::key_of) else {
        return Named::Foreign;
    };
    match key.parts() {
        Err(_) => Named::Foreign,
        Ok(_) if is_beside(key.as_str()) => Named::Other,
        Ok(parts) if filter.admits_parts(&parts) => Named::Record(key),
        Ok(_) => Named::Other,
    }
}

/// A pattern that all names have which the filter admits, and few others. In front of the prefix
/// there may be a hash tag, or the empty pair of a name with braces.
fn pattern(filter: &Filter) -> String {
    let mut pattern = String::from("*");
    for name in filter.names() {
        match name {
            Some(name) => escape(&mut pattern, name),
            None if pattern.ends_with('*') => {}
            None => pattern.push('*'),
        }
        pattern.push('|');
    }
    pattern.push('*');
    pattern
}

/// Appends a text whose characters stand for themselves in a pattern.
fn escape(pattern: &mut String, text: &str) {
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        let _ = pattern.write_char(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_narrows_to_prefix_and_operation() {
        assert_eq!(pattern(&Filter::new()), "*|*|*");
        assert_eq!(pattern(&Filter::new().prefix("p:")), "*p:|*|*");
        assert_eq!(pattern(&Filter::new().operation("orders")), "*|orders|*");
        assert_eq!(pattern(&Filter::new().prefix("p").operation("o")), "*p|o|*");
        assert_eq!(pattern(&Filter::new().operation(r"a*[b]?\|")), r"*|a\*\[b\]\?\\\\\\||*");
    }

    #[test]
    fn a_place_comes_back_from_its_cursor() {
        for master in [None, Some(("::1".to_owned(), 7_000)), Some((String::new(), 1))] {
            let place = Place { at: u64::MAX, master };
            assert_eq!(Place::read(&place.cursor()), Some(place));
        }
        for bad in ["", "x", "1@", "1@host", "1@host:x", "-1"] {
            assert_eq!(Place::read(&Cursor::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn masters_are_asked_one_after_the_other() {
        let address = |port| ("h".to_owned(), port);
        let masters = BTreeMap::from([(address(1), 0), (address(2), 100)]);
        let (first, slot) = start(None, &masters).unwrap();
        assert_eq!((&first, slot), (&Place { at: 0, master: Some(address(1)) }, Some(0)));
        let inside = next(first.clone(), 7, &masters).unwrap();
        assert_eq!(inside, Place { at: 7, master: Some(address(1)) });
        let second = next(inside, 0, &masters).unwrap();
        assert_eq!(second, Place { at: 0, master: Some(address(2)) });
        assert_eq!(next(second, 0, &masters), None);

        let gone = Place { at: 7, master: Some(address(3)) }.cursor();
        let error = StoreError::from(start(Some(&gone), &masters).unwrap_err());
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let of_one_server = Place { at: 7, master: None }.cursor();
        let error = StoreError::from(start(Some(&of_one_server), &masters).unwrap_err());
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    }
}
