//! Hooks: commands of the user's for what happens to the locks of a `run`.

use std::env;

use crate::cli::HookArgs;

/// In its environment a hook finds what it runs for.
pub const HOOK: &str = "REDLOCK_HOOK";

/// The event for which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    Wait,
    Acquire,
    LostRun,
    Release,
}

impl HookPoint {
    /// The name of its option.
    pub fn name(self) -> &'static str {
        match self {
            HookPoint::Wait => "on-wait",
            HookPoint::Acquire => "on-acquire",
            HookPoint::LostRun => "on-lost-run",
            HookPoint::Release => "on-release",
        }
    }
}

/// The hooks, each a command for `sh -c`. An empty one undoes a configured one. A redlock started by a hook has no hooks:
/// with those of the files it would start itself again and again.
pub fn hooks(args: &HookArgs) -> Vec<(HookPoint, String)> {
    if env::var_os(HOOK).is_some() {
        return Vec::new();
    }
    let hooks = [
        (HookPoint::Wait, &args.on_wait),
        (HookPoint::Acquire, &args.on_acquire),
        (HookPoint::LostRun, &args.on_lost_run),
        (HookPoint::Release, &args.on_release),
    ];
    let hooks = hooks.into_iter().filter_map(|(point, command)| Some((point, command.clone()?)));
    hooks.filter(|(_, command)| !command.is_empty()).collect()
}
