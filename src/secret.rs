//! Files with a password or an owner token.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use nix::unistd::geteuid;

/// Refuses a file that others can read or change. What was opened is looked at: at its path may be another one by now.
///
/// A pipe, as of `<(…)`, is seen by those only to whom it was given.
///
/// # Errors
///
/// Why, and what to do.
pub fn refuse_shared(file: &File) -> Result<(), String> {
    let metadata = file.metadata().map_err(|error| format!("cannot be looked at: {error}"))?;
    if !metadata.is_file() {
        return Ok(());
    }
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(format!("it belongs to user {}, neither to you nor to root; chown it", metadata.uid()));
    }
    match metadata.mode() & 0o066 {
        0 => Ok(()),
        _ => Err("others can read or change it; chmod 600 it".to_owned()),
    }
}
