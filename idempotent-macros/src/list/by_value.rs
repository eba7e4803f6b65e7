//! The arguments that are likely for a value: where the name says too little, the value tells more.

use syn::{Expr, Lit};

use super::neighbours::Neighbours;
use super::unknown::refusal;
use crate::suggest::quoted_list;
use crate::value::{Mode, literal};

/// An argument to choose, with its use.
struct Choice {
    name: &'static str,
    example: &'static str,
    verb: &'static str,
    object: &'static str,
}

const TIMES: [Choice; 3] = [
    Choice {
        name: "wait",
        example: "\"300ms\"",
        verb: "limits",
        object: "how long a duplicate waits",
    },
    Choice {
        name: "expire",
        example: "\"5m\"",
        verb: "limits",
        object: "how long an answer is kept",
    },
    Choice {
        name: "max_run",
        example: "\"1h\"",
        verb: "limits",
        object: "how long a body holds its key",
    },
];

const FUNCTIONS: [Choice; 3] = [
    Choice {
        name: "on_replay",
        example: "count_replay",
        verb: "is called",
        object: "with every replayed value",
    },
    Choice {
        name: "expire_with",
        example: "retention",
        verb: "says",
        object: "how long a value is kept",
    },
    Choice {
        name: "final_errors",
        example: "OrderError::is_final",
        verb: "says",
        object: "which errors are kept",
    },
];

const PATHS: [Choice; 3] = [
    Choice { name: "key", example: "\"req.order_id\"", verb: "tells", object: "calls apart" },
    Choice { name: "scope", example: "\"req.tenant\"", verb: "tells", object: "tenants apart" },
    Choice {
        name: "fingerprint",
        example: "\"req.payload()?\"",
        verb: "tells",
        object: "one payload of a key from another",
    },
];

/// Help with the arguments that take such a value.
pub(super) fn likely(
    value: Option<&str>,
    parameters: &[String],
    neighbours: &Neighbours,
) -> Option<String> {
    let written = value?;
    let expr = syn::parse_str::<Expr>(written).ok()?;
    let choices = match (&expr, literal(&expr)) {
        (_, Some(Lit::Str(text))) if Mode::of(&text.value()).is_some() => {
            return Some(neighbours.put_into(&format!("`mode = {written}`")));
        }
        (_, Some(Lit::Str(text))) if is_key(&text.value(), parameters) => &PATHS,
        (_, Some(Lit::Str(text))) if is_sentence(&text.value()) => {
            return Some(neighbours.put_into(&format!("`message = {written}`")));
        }
        (Expr::Field(_) | Expr::Path(_) | Expr::MethodCall(_), _)
            if is_key(written, parameters) =>
        {
            &PATHS
        }
        (Expr::Path(path), _) if path.path.segments.last().is_some_and(is_function) => &FUNCTIONS,
        (Expr::Closure(_), _) => &FUNCTIONS,
        (Expr::Lit(_) | Expr::Path(_) | Expr::Call(_), _)
            if refusal("expire", written).is_none() =>
        {
            &TIMES
        }
        _ => return None,
    };
    choose(choices, value, neighbours)
}

/// Proposes the arguments that limit a time, with the value that was given where they take it.
pub(super) fn limits(value: Option<&str>, neighbours: &Neighbours) -> String {
    choose(&TIMES, value, neighbours).unwrap_or_else(|| {
        let given = TIMES.iter().filter_map(|choice| neighbours.written(choice.name));
        format!("remove it: times are limited by {}", quoted_list(given))
    })
}

/// Those that the list does not have already, and that its mode leaves something to do.
fn choose(choices: &[Choice], value: Option<&str>, neighbours: &Neighbours) -> Option<String> {
    let mut verb = "";
    let open = choices.iter().filter(|choice| {
        neighbours.value(choice.name).is_none() && !neighbours.leave_idle(choice.name)
    });
    let open = open.map(|choice| {
        let Choice { name, example, object, .. } = choice;
        let value = value.filter(|value| refusal(name, value).is_none()).unwrap_or(example);
        let again = std::mem::replace(&mut verb, choice.verb) == choice.verb;
        let verb = if again { String::new() } else { format!(" {}", choice.verb) };
        format!("`{name} = {value}`{verb} {object}")
    });
    let open: Vec<_> = open.collect();
    (!open.is_empty()).then(|| open.join(", "))
}

/// Returns `true` for a path from a parameter, and for a template.
fn is_key(text: &str, parameters: &[String]) -> bool {
    let start: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    refusal("key", &format!("{text:?}")).is_none()
        && (text.contains('{') || start == "self" || parameters.contains(&start))
}

/// Returns `true` for several words.
fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() > 1 && text.chars().any(char::is_alphabetic)
}

/// Returns `true` for the name of a function.
fn is_function(segment: &syn::PathSegment) -> bool {
    segment.ident.to_string().starts_with(char::is_lowercase)
}
