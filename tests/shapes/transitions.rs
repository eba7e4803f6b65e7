mod inner {
    pub(super) use idempotent_sql as sql;
}

pub mod status {
    use idempotent_sql::Transitions;

    /// Visible outside, with several sources, several targets, circles and raw names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Transitions)]
    #[transitions(pay: Pending => Paid, ship: Paid => InTransit)]
    #[transitions(
        cancel: Pending | Paid => Cancelled,
        r#return: InTransit => Paid,
        r#return: Paid => Pending,
        touch: Pending => Pending,
    )]
    pub enum OrderStatus {
        Pending,
        Paid,
        InTransit,
        #[transitions(rename = "called off")]
        Cancelled,
        #[deprecated]
        r#Lost = 9,
    }
}

/// Neither `Debug` nor `Copy`, not used, and names of the prelude taken.
mod shadowed {
    #![allow(unused)]
    struct Option;
    struct Result;
    struct Some;
    struct None;
    #[allow(non_camel_case_types)]
    struct str;

    #[derive(super::inner::sql::Transitions)]
    #[transitions(crate = "super::inner::sql", open: Closed => Open)]
    enum Door {
        Closed,
        Open,
    }

    #[derive(idempotent_sql::Transitions)]
    #[transitions(crate = super::inner::sql, open: Closed => Open)]
    enum Window {
        Closed,
        Open,
    }
}

/// Declared by a macro of the user's own.
macro_rules! machine {
    ($name:ident, $event:ident, $from:ident, $to:ident) => {
        #[derive(idempotent_sql::Transitions)]
        #[transitions($event: $from => $to)]
        enum $name {
            $from,
            $to,
        }
    };
}
machine!(Valve, open, Shut, Wide);

pub fn main() {
    use idempotent_sql::transitions::State;
    use status::OrderStatus;

    assert_eq!(OrderStatus::InTransit.as_str(), "in_transit");
    assert_eq!(OrderStatus::Cancelled.as_str(), "called off");
    assert_eq!("called off".parse(), Ok(OrderStatus::Cancelled));
    let error = "cancelled".parse::<OrderStatus>().unwrap_err().to_string();
    assert!(error.starts_with("not the name of a state; the states are `pending`, `paid`"));
    assert_eq!(OrderStatus::r#return().event(), "return");
    let edges: Vec<_> = OrderStatus::r#return().edges().map(|edge| (edge.from, edge.to)).collect();
    use OrderStatus::{Cancelled, InTransit, Paid, Pending};
    assert_eq!(edges, [(InTransit, Paid), (Paid, Pending)]);
    assert_eq!(OrderStatus::TRANSITIONS.len(), 7);
    assert!(OrderStatus::cancel().edges().all(|edge| edge.to == Cancelled));
    assert_eq!(<OrderStatus as State>::NAMES.len(), 5);
    assert_eq!(
        Valve::MERMAID,
        "stateDiagram-v2\n    [*] --> Shut\n    Shut --> Wide: open\n    Wide --> [*]\n"
    );
    assert_eq!(Valve::open().event(), "open");
}
