//! The machine that a run was made on.

use std::fs::read_to_string;

/// A description in one line: processors, kernel, compiler.
pub fn description() -> String {
    let cpus = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = cpu_model(&cpus).unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = total_memory(&memory).unwrap_or(0) >> 20;
    format!("{model}, {cores} cores, {memory} GiB, Linux {}", kernel.trim())
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// In KiB.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// A version of `Cargo.lock`, which is part of the program: peers are named by what was built.
pub fn locked(package: &str) -> String {
    let name = format!("name = \"{package}\"\nversion = \"");
    let versions = include_str!("../Cargo.lock").split(&name).skip(1);
    let versions = versions.filter_map(|rest| rest.split_once('"')).map(|(version, _)| version);
    versions.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_read() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(total_memory("MemTotal:       24689184 kB\nMemFree: 1 kB"), Some(24_689_184));
    }

    #[test]
    fn versions_of_peers_are_those_that_were_built() {
        assert!(locked("idempotency-kit").starts_with("1."));
        // Ours and that of idempotency-kit.
        assert!(locked("redis").starts_with("0.27") && locked("redis").contains(" and 1."));
    }
}
