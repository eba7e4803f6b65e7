//! What must hold on every schedule, and the search through all of them.

use crate::ledger::Guarantee;
use crate::seen::Event;
use crate::world::{Action, Protocol, World};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::num::NonZero;
use std::thread::available_parallelism;

impl Guarantee {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Integrity => "G0: an answer was returned by a body",
            Self::Agreement => "G1: one answer under a record, and all replays equal it",
            Self::OneHolder => "G1: nobody is taken over while its lease lasts",
            Self::NoStartAfterSuccess => "G2: no body starts after an answer is stored",
            Self::Starts => "G3: no more starts than failures and lost leases allow",
            Self::Fences => "G5: fences grow from start to start",
            Self::Payload => "no body starts with another payload than the one before it",
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.ledger.broken.is_none() {
            self.possible(world, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        Some(self.after(world.clone(), action)).filter(|next| next != world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! holds {
            ($($guarantee:ident),*) => {
                vec![$(Property::always(Guarantee::$guarantee.name(), |_, world: &World| {
                    world.ledger.broken != Some(Guarantee::$guarantee)
                })),*]
            };
        }
        holds!(Integrity, Agreement, OneHolder, NoStartAfterSuccess, Starts, Fences, Payload)
    }

    fn within_boundary(&self, world: &World) -> bool {
        // Numbers are given back, fences are not.
        let greatest_seed = self.seeds.iter().copied().max().unwrap_or(0);
        let greatest = greatest_seed + self.attempts - 1;
        world.kept.is_none_or(|kept| {
            let attempt = kept.record.attempt;
            attempt.number <= self.attempts && attempt.fence <= greatest
        })
    }
}

impl Protocol {
    /// Every guarantee holds on every schedule, and each event happens on some.
    pub(crate) fn holds(self, name: &str, events: &[Event]) {
        let found = self.checker().threads(threads()).spawn_bfs().join();
        println!("{name}: {} states, {} deep", found.unique_state_count(), found.max_depth());
        found.assert_properties();
        for event in events {
            assert!(found.model().seen.has(*event), "{name}: {event:?} never happens");
        }
    }

    /// There are schedules on which these guarantees do not hold.
    pub(crate) fn breaks(self, name: &str, guarantees: &[Guarantee]) {
        let names = guarantees.iter().map(|guarantee| guarantee.name());
        let enough = HasDiscoveries::AllOf(names.clone().collect());
        let found = self.checker().threads(threads()).finish_when(enough).spawn_bfs().join();
        println!("{name}: {} states", found.unique_state_count());
        for broken in names {
            found.assert_any_discovery(broken);
        }
    }

    /// On every schedule, all guarantees but these hold.
    pub(crate) fn breaks_only(self, name: &str, guarantees: &[Guarantee]) {
        let found = self.checker().threads(threads()).spawn_bfs().join();
        println!("{name}: {} states", found.unique_state_count());
        let broken: BTreeSet<_> = found.discoveries().into_keys().collect();
        assert_eq!(broken, guarantees.iter().map(|guarantee| guarantee.name()).collect());
    }
}

fn threads() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}
