//! The start of a consumer: its stream, its consumer at the server and its places are looked at, and made
//! where that was asked for.

use super::aside::Places;
use super::publisher::is_literal;
use super::suitable::{check_consumer, check_place, wait_for};
use crate::{PrepareError, Prepared, QueueError, Terms};
use async_nats::jetstream::consumer::{self, AckPolicy, pull};
use async_nats::jetstream::context::{
    ConsumerInfoError, ConsumerInfoErrorKind, CreateStreamErrorKind, GetStreamByNameErrorKind,
    GetStreamErrorKind,
};
use async_nats::jetstream::stream::{self, ConsumerErrorKind};
use async_nats::jetstream::{self, Context, ErrorCode};
use std::fmt;

/// A consumer at the server, by the name of its stream and its own.
#[derive(Clone)]
pub(super) struct Names {
    pub(super) stream: String,
    pub(super) consumer: String,
}

impl fmt::Display for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the consumer `{}` of the stream `{}`", self.consumer, self.stream)
    }
}

impl Names {
    pub(super) async fn consumer_info(
        &self,
        context: &Context,
    ) -> Result<consumer::Info, ConsumerInfoError> {
        let stream = context.get_stream_no_info(&self.stream).await;
        let stream = stream.map_err(|_| ConsumerInfoErrorKind::InvalidName)?;
        stream.consumer_info(&self.consumer).await
    }
}

/// Returns `true` if there is no such consumer.
pub(super) fn absent(error: &ConsumerInfoError) -> bool {
    matches!(error.kind(), ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound)
}

pub(super) async fn prepare(
    context: &Context,
    names: &Names,
    places: &Places,
    create: Option<&[String]>,
    terms: &Terms,
) -> Result<Prepared, PrepareError> {
    let stream = find_stream(context, names, create).await?;
    let consumer = find_consumer(context, names, create.is_some(), terms).await?;
    check_consumer(names, &consumer, terms).map_err(refused)?;
    let mut missing = vec![];
    for subject in places.subjects() {
        if !is_literal(subject) {
            return Err(refused(format!(
                "nothing can be put aside in {subject:?}; help: name a subject without wildcards and \
                 white space"
            )));
        }
        match find_place(context, subject).await? {
            Some(place) => {
                check_place(names, &consumer.filter_subject, subject, &place).map_err(refused)?;
            }
            None => missing.push(subject.to_owned()),
        }
    }
    missing.dedup();
    if !missing.is_empty() {
        make_place(context, names, create.is_some(), missing).await?;
    }
    let prepared = Prepared::default();
    let max_age = stream.max_age;
    Ok(if max_age.is_zero() { prepared } else { prepared.redelivered_for(max_age) })
}

async fn find_stream(
    context: &Context,
    names: &Names,
    create: Option<&[String]>,
) -> Result<stream::Config, PrepareError> {
    let name = &names.stream;
    let error = match context.get_stream(name).await {
        Ok(stream) => return Ok(stream.cached_info().config.clone()),
        Err(error) => error,
    };
    match (error.kind(), create) {
        (GetStreamErrorKind::JetStream(answer), Some(subjects)) if is_missing(&answer) => {
            make_stream(context, name.clone(), subjects.to_vec()).await
        }
        (GetStreamErrorKind::JetStream(answer), None) if is_missing(&answer) => {
            Err(refused(format!(
                "the stream `{name}` does not exist; help: nats stream add {name} --subjects SUBJECTS \
                 --defaults, or `.create([\"SUBJECT\"])` on its deliveries"
            )))
        }
        (GetStreamErrorKind::JetStream(answer), _) => Err(answered(&answer)),
        (GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName, _) => {
            Err(refused(format!(
                "{name:?} is no name of a stream; help: a name has no white space, dots and wildcards"
            )))
        }
        (GetStreamErrorKind::Request, _) => Err(unavailable(error)),
    }
}

async fn make_stream(
    context: &Context,
    name: String,
    subjects: Vec<String>,
) -> Result<stream::Config, PrepareError> {
    let config = stream::Config { name: name.clone(), subjects, ..stream::Config::default() };
    let error = match context.create_stream(config).await {
        Ok(stream) => {
            tracing::info!(target: "idempotent", stream = &*name, "stream created");
            return Ok(stream.cached_info().config.clone());
        }
        Err(error) => error,
    };
    match error.kind() {
        CreateStreamErrorKind::JetStream(answer) if answer.code() < 500 => {
            Err(refused(format!("the stream `{name}` cannot be made: {answer}")))
        }
        _ => Err(unavailable(error)),
    }
}

async fn find_consumer(
    context: &Context,
    names: &Names,
    create: bool,
    terms: &Terms,
) -> Result<consumer::Config, PrepareError> {
    let error = match names.consumer_info(context).await {
        Ok(info) => return Ok(info.config),
        Err(error) => error,
    };
    match error.kind() {
        ConsumerInfoErrorKind::NotFound if create => make_consumer(context, names, terms).await,
        ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound => {
            let Names { stream, consumer } = names;
            let wait = wait_for(terms).as_secs();
            Err(refused(format!(
                "{names} does not exist; help: nats consumer add {stream} {consumer} --pull --ack explicit \
                 --wait={wait}s --max-deliver=-1 --defaults, or `.create([\"SUBJECT\"])` on its deliveries"
            )))
        }
        ConsumerInfoErrorKind::InvalidName => Err(refused(format!(
            "{:?} is no name of a consumer; help: a name has no white space, dots and wildcards",
            names.consumer
        ))),
        ConsumerInfoErrorKind::JetStream(answer) => Err(answered(&answer)),
        _ => Err(unavailable(error)),
    }
}

async fn make_consumer(
    context: &Context,
    names: &Names,
    terms: &Terms,
) -> Result<consumer::Config, PrepareError> {
    let config = pull::Config {
        durable_name: Some(names.consumer.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: wait_for(terms),
        // No limit: the attempts are counted here.
        max_deliver: -1,
        max_ack_pending: -1,
        ..pull::Config::default()
    };
    let error = match context.create_consumer_on_stream(config, &names.stream).await {
        Ok(consumer) => {
            let (stream, consumer_name) = (&*names.stream, &*names.consumer);
            tracing::info!(target: "idempotent", stream, consumer_name, "consumer created");
            return Ok(consumer.cached_info().config.clone());
        }
        Err(error) => error,
    };
    match error.kind() {
        ConsumerErrorKind::JetStream(answer) if answer.code() < 500 => {
            Err(refused(format!("{names} cannot be made: {answer}")))
        }
        _ => Err(unavailable(error)),
    }
}

/// The stream that has a subject.
async fn find_place(
    context: &Context,
    subject: &str,
) -> Result<Option<stream::Config>, PrepareError> {
    let name = match context.stream_by_subject(subject).await {
        Ok(name) => name,
        Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unavailable(error)),
    };
    let stream = context.get_stream(&name).await.map_err(unavailable)?;
    Ok(Some(stream.cached_info().config.clone()))
}

async fn make_place(
    context: &Context,
    names: &Names,
    create: bool,
    subjects: Vec<String>,
) -> Result<(), PrepareError> {
    let name = format!("{}_{}_aside", names.stream, names.consumer);
    if create {
        return make_stream(context, name, subjects).await.map(drop);
    }
    let list = subjects.join(",");
    Err(refused(format!(
        "no stream has the subjects `{list}`, so dead letters and parked messages would be lost; help: \
         nats stream add {name} --subjects '{list}' --defaults, or `.create([\"SUBJECT\"])` on the \
         deliveries"
    )))
}

fn is_missing(answer: &jetstream::Error) -> bool {
    answer.error_code() == ErrorCode::STREAM_NOT_FOUND
}

/// The error for an answer of the server that is not about what was asked for.
fn answered(answer: &jetstream::Error) -> PrepareError {
    let code = answer.error_code();
    if [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT]
        .contains(&code)
    {
        let text =
            format!("{answer}; help: start the server with -js, and enable it for the account");
        return refused(text);
    }
    PrepareError::Unavailable(QueueError::new(answer.clone()))
}

fn refused(text: String) -> PrepareError {
    PrepareError::Refused(QueueError::new(text))
}

fn unavailable(error: impl fmt::Display) -> PrepareError {
    PrepareError::Unavailable(QueueError::new(format!("JetStream does not answer: {error}")))
}
