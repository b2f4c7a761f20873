//! The command line of this process as `ps` and `pgrep -f` show it: the words of the job belong to the command alone, so
//! that `pkill -f backup.sh` reaches that and nothing else.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The arguments of `main`, which the kernel shows.
static WORDS: AtomicPtr<*mut c_char> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub fn note(count: c_int, words: *mut *mut c_char) {
    WORDS.store(words, Ordering::Relaxed);
    COUNT.store(count as usize, Ordering::Relaxed);
}

/// The arguments of `main`, as far as they were neither replaced nor hidden. Only glibc hands them to Rust where `main` is not
/// Rust's.
pub fn words() -> Vec<OsString> {
    // SAFETY: the words lie where the kernel put them, and end with a zero.
    let word = |index| unsafe { CStr::from_ptr(*WORDS.load(Ordering::Relaxed).add(index)) };
    (0..COUNT.load(Ordering::Relaxed))
        .map(|index| OsStr::from_bytes(word(index).to_bytes()).to_owned())
        .collect()
}

/// Shows `title` instead of the command line, as far as there is room. To be called by a process with one thread.
pub fn replace(title: &CStr) {
    let mut title = title.to_bytes().iter();
    (0..COUNT.load(Ordering::Relaxed)).for_each(|index| overwrite(index, || title.next().copied()));
}

/// Takes the last words away that are those of the `command`. To be called while this process has one thread.
pub fn hide(command: &[OsString]) {
    let last = (0..COUNT.load(Ordering::Relaxed)).rev().zip(command.iter().rev());
    // SAFETY: the words lie where the kernel put them, and end with a zero.
    let is_same = |index: usize, word: &OsString| unsafe {
        CStr::from_ptr(*WORDS.load(Ordering::Relaxed).add(index)).to_bytes() == word.as_bytes()
    };
    last.take_while(|(index, word)| is_same(*index, word)).for_each(|(index, _)| overwrite(index, || None));
}

/// Writes the bytes, and then zeroes, over a word.
fn overwrite(index: usize, mut next: impl FnMut() -> Option<u8>) {
    // SAFETY: the words belong to this process, and lie where the kernel put them, one after the other. Rust copies them
    // when it is asked for them.
    unsafe {
        let word = *WORDS.load(Ordering::Relaxed).add(index);
        for offset in 0..libc::strlen(word) {
            *word.add(offset) = next().unwrap_or(0) as c_char;
        }
    }
}
