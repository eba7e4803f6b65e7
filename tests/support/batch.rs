//! Batches of calls, written to a journal one by one.

use crate::calls::{Call, Caller, Told, Unfinished, listen, supervise, work};
use crate::journal::Step;
use crate::plan::Plan;

impl Caller {
    /// Calls different keys with one body, in a task of its own that may be cancelled or panic.
    pub async fn call_batch(&self, keys: &[String], plan: Plan) -> Vec<Told> {
        let calls: Vec<_> = keys.iter().map(|key| self.new_call(key)).collect();
        let Some(first) = keys.first() else { return Vec::new() };
        let run = run(self.clone(), first.clone(), calls.clone(), plan.clone());
        supervise(tokio::spawn(run), &plan).await.unwrap_or_else(|| {
            calls.iter().for_each(|call| call.note(Step::Gone));
            vec![Told::Gone; calls.len()]
        })
    }
}

async fn run(caller: Caller, first: String, calls: Vec<Call>, plan: Plan) -> Vec<Told> {
    let items = calls.iter().map(|call| (call.key.clone(), call.clone()));
    let body = |granted: Vec<Call>| async move {
        for call in &granted {
            call.note(Step::Start { number: 0, fence: 0 });
        }
        let mut unfinished: Vec<_> = granted.iter().map(|call| Unfinished(Some(call))).collect();
        work(&plan).await;
        let ends = granted.iter().zip(&mut unfinished);
        ends.map(|(call, unfinished)| call.end(&plan, unfinished)).collect()
    };
    let (answers, unrecorded) = listen(caller.operation(&first).run_batch(items, body)).await;
    calls.iter().zip(answers).map(|(call, answer)| call.tell(answer, unrecorded)).collect()
}
