//! The entry: the library does the rest, see `lib.rs`.

#![cfg_attr(not(test), no_main)]

redlock::start_with!(redlock::command::execute);
