//! What every store must do, through the real program.

#[path = "../harness/mod.rs"]
mod harness;

mod acquiring;
mod breaking;
mod commands;
mod death;
mod fencing;
mod free;
mod history;
mod index;
mod keys;
mod mixed_crowd;
mod modes;
mod one_of;
mod permits;
mod redis_only;
mod reservation;
mod round_trips;
mod several_keys;
mod status;
mod succession;
mod trees;
mod waiting;
mod while_pid;
mod witness;

/// One test for each store and promise.
macro_rules! promises {
    ($store:ident) => {
        tests! { $store:
            acquiring {
                one_job_at_a_time
                a_second_release_says_so
                a_wrong_token_changes_nothing
                a_token_may_be_used_twice_at_once
                a_lease_ends_with_its_ttl
                min_hold_outlasts_the_job
                a_release_is_final_while_min_hold_goes_on
                a_job_may_take_its_own_lock_again
                a_job_may_take_its_own_lock_again_below_another
                a_lock_taken_by_hand_may_be_taken_again
                a_job_does_not_outlive_the_lock_taken_by_hand
                a_job_elsewhere_does_not_outlive_the_lock
                a_lock_that_another_holds_at_the_end_is_lost
                a_lock_that_another_held_meanwhile_is_lost
                a_long_kill_after_leaves_time_to_renew
            }
            fencing { tokens_grow tokens_grow_when_the_store_forgets }
            waiting {
                first_come_first_served
                a_full_queue_takes_no_more
                nobody_overtakes_a_waiter
                nobody_overtakes_a_waiter_when_a_lease_ends
                giving_up_leaves_nothing
                a_signal_ends_the_wait
            }
            succession { the_last_one_supersedes }
            death {
                a_dead_waiter_is_skipped
                a_dead_waiter_of_acquire_is_skipped
                who_moves_up_sees_the_holder_die
                a_dead_holder_is_followed
            }
            while_pid {
                a_killed_script_frees_its_lock
                a_script_that_ends_frees_its_lock
                a_release_ends_the_keeper
                a_lease_is_kept_while_the_script_runs
                a_script_may_take_its_lock_again
                a_lost_lock_ends_the_script
                a_release_that_failed_hides_no_loss
                a_lock_broken_twice_ends_the_script
                a_script_may_outlive_its_lock
                a_dead_keeper_leaves_the_lease
                a_keeper_ends_with_its_script_alone
                nobody_waits_for_a_script_that_has_ended
                a_dead_acquire_leaves_no_lock
                no_stream_is_held_open
                a_job_without_its_lock_is_stopped
                a_job_does_not_outlive_a_lock_that_is_gone
                a_script_does_not_outlive_a_lock_that_is_gone
            }
            breaking {
                breaking_needs_a_yes
                breaking_stops_the_job_first
                breaking_ends_a_min_hold
                breaking_what_nobody_keeps_takes_one_command
            }
            free { an_exit_status_says_whether_it_is_free a_wait_ends_with_the_lock_and_takes_nothing }
            reservation { a_person_reserves_it }
            keys { odd_keys_are_keys odd_keys_are_apart }
            status { holder_and_waiters kept_by_min_hold hostile_labels_are_harmless }
            modes {
                readers_hold_it_together
                a_reader_does_not_overtake_a_writer
                readers_in_a_row_are_let_in_together
                a_writer_waits_for_the_last_reader
                permits_are_handed_over
                one_kind_at_a_time
                a_dead_writer_in_line_lets_readers_in
                a_shared_lock_is_broken_for_all
                one_of_two_readers_is_broken
                a_permit_kept_by_min_hold
                by_hand
                a_writer_inside_readers_is_refused
            }
            several_keys {
                they_are_held_together
                all_of_them_or_none
                what_is_free_is_not_touched
                what_is_held_is_kept_while_waiting
                what_is_lost_while_waiting_is_taken_again
                giving_up_gives_all_back
                who_waits_for_one_does_not_hold_up_another
                one_that_is_lost_ends_the_job
                the_others_are_kept_for_a_job_that_goes_on
                the_others_are_kept_for_a_script_that_goes_on
                who_gives_up_half_way_holds_up_nobody
                an_acquire_killed_half_way_leaves_nothing
                some_of_them_may_be_held_around
                by_hand_as_well
                a_script_gives_them_back_one_by_one
            }
        }
    };
}

/// Where the store keeps the last runs.
macro_rules! runs {
    ($store:ident) => {
        tests! { $store:
            history {
                each_run_says_how_it_ended
                who_did_not_get_it_is_counted
                a_broken_lock_says_who_broke_it
                a_command_that_cannot_start_is_a_run
                the_last_ones_are_kept
                one_success_per_period
                a_failure_leaves_the_period_to_the_next
                a_success_without_the_lock_is_none
                no_run_starts_behind_a_later_one
            }
        }
    };
}

/// Where a permit has a number.
macro_rules! numbers {
    ($store:ident) => {
        tests! { $store:
            permits {
                each_permit_has_a_number
                by_hand_a_permit_has_a_number
                only_permits_have_numbers
                the_number_of_the_dead_is_given_again
                a_permit_that_heals_keeps_its_number
                a_heavy_job_takes_several
                a_light_job_does_not_overtake_a_heavy_one
                a_job_inside_has_the_permits_of_the_outer_one
                several_permits_are_one_lease
                the_number_of_permits_changes
                a_waiter_that_is_too_heavy_learns_of_it
            }
        }
    };
}

/// What needs a queue and a holder that can be told, once for each kind of store.
macro_rules! replacements {
    ($store:ident) => {
        tests! { $store:
            succession {
                the_old_job_is_dead_before_its_replacement_begins
                a_replacement_waits_for_those_who_came_before
                who_reserved_it_is_not_replaced
            }
        }
    };
}

/// Where a waiter may overtake others.
macro_rules! priorities {
    ($store:ident) => {
        tests! { $store:
            succession {
                the_highest_priority_goes_first
                a_dead_waiter_of_a_high_priority_is_skipped
                who_does_not_wait_overtakes_nobody
            }
        }
    };
}

/// Where a request can wait for one of several locks.
macro_rules! choices {
    ($store:ident) => {
        tests! { $store:
            one_of {
                whichever_is_free_is_taken
                first_come_first_served_over_all_of_them
                a_dead_waiter_for_one_of_them_is_skipped
                giving_up_on_all_of_them_leaves_nothing
                by_hand_it_is_one
            }
        }
    };
}

/// Many at once, for some seconds each.
macro_rules! crowds {
    ($store:ident) => {
        tests! { $store:
            death { deaths_while_taking_leave_the_store_usable }
            witness {
                fifty_workers_never_meet
                readers_and_writers_never_meet
                never_more_than_the_permits
                never_two_with_one_number
                never_two_on_one_device
                holders_of_two_keys_never_meet
                fifty_pairs_never_deadlock
            }
        }
    };
}

/// Once for each kind of store that has readers.
macro_rules! trees {
    ($store:ident) => {
        tests! { $store:
            trees {
                a_key_excludes_those_above_and_below
                who_wants_a_part_waits_for_who_wants_all
                a_job_may_lock_parts_of_its_own_tree
                a_tree_by_hand
            }
        }
    };
}

/// All kinds of requests, on every kind of store.
macro_rules! mixed_crowd {
    ($store:ident) => {
        tests! { $store: mixed_crowd { a_mixed_crowd } }
    };
}

/// Of a store in which the death of a waiter is seen late. They wait most of the time, so tests/run has them apart.
macro_rules! crowd_of_twenty {
    ($store:ident) => {
        tests! { $store: witness { twenty_workers_never_meet } }
    };
}

/// A store without a queue: there is no order, and nobody in it to be shown.
macro_rules! promises_without_a_queue {
    ($store:ident) => {
        tests! { $store:
            acquiring {
                one_job_at_a_time
                a_second_release_says_so
                a_wrong_token_changes_nothing
                a_token_may_be_used_twice_at_once
                a_lease_ends_with_its_ttl
                min_hold_outlasts_the_job
                a_release_is_final_while_min_hold_goes_on
                a_job_may_take_its_own_lock_again
                a_job_may_take_its_own_lock_again_below_another
                a_lock_taken_by_hand_may_be_taken_again
                a_job_does_not_outlive_the_lock_taken_by_hand
                a_job_elsewhere_does_not_outlive_the_lock
                a_lock_that_another_holds_at_the_end_is_lost
                a_lock_that_another_held_meanwhile_is_lost
                a_long_kill_after_leaves_time_to_renew
            }
            fencing { tokens_grow tokens_grow_when_the_store_forgets }
            waiting { giving_up_leaves_nothing a_signal_ends_the_wait }
            death { a_dead_holder_is_followed }
            while_pid {
                a_killed_script_frees_its_lock
                a_script_that_ends_frees_its_lock
                a_release_ends_the_keeper
                a_lease_is_kept_while_the_script_runs
                a_script_may_take_its_lock_again
                a_lost_lock_ends_the_script
                a_release_that_failed_hides_no_loss
                a_lock_broken_twice_ends_the_script
                a_script_may_outlive_its_lock
                a_dead_keeper_leaves_the_lease
                a_keeper_ends_with_its_script_alone
                nobody_waits_for_a_script_that_has_ended
                a_dead_acquire_leaves_no_lock
                no_stream_is_held_open
                a_job_without_its_lock_is_stopped
                a_job_does_not_outlive_a_lock_that_is_gone
                a_script_does_not_outlive_a_lock_that_is_gone
            }
            breaking {
                breaking_needs_a_yes
                breaking_stops_the_job_first
                breaking_ends_a_min_hold
                breaking_what_nobody_keeps_takes_one_command
            }
            free { an_exit_status_says_whether_it_is_free a_wait_ends_with_the_lock_and_takes_nothing }
            reservation { a_person_reserves_it }
            keys { odd_keys_are_apart }
            several_keys {
                they_are_held_together
                all_of_them_or_none
                what_is_held_is_kept_while_waiting
                what_is_lost_while_waiting_is_taken_again
                giving_up_gives_all_back
                who_waits_for_one_does_not_hold_up_another
                one_that_is_lost_ends_the_job
                the_others_are_kept_for_a_job_that_goes_on
                the_others_are_kept_for_a_script_that_goes_on
                some_of_them_may_be_held_around
                by_hand_as_well
                a_script_gives_them_back_one_by_one
            }
        }
    };
}

/// A quorum counts no permits.
macro_rules! promises_of_a_quorum {
    ($store:ident) => {
        tests! { $store:
            modes {
                readers_hold_it_together
                a_writer_waits_for_the_last_reader
                a_shared_lock_is_broken_for_all
                one_of_two_readers_is_broken
            }
            trees { a_key_excludes_those_above_and_below a_job_may_lock_parts_of_its_own_tree a_tree_by_hand }
            several_keys { what_is_free_is_not_touched }
        }
    };
}

/// The same server by another way.
macro_rules! promises_of_a_transport {
    ($store:ident) => {
        tests! { $store:
            acquiring { one_job_at_a_time min_hold_outlasts_the_job }
            waiting { first_come_first_served }
            modes { permits_are_handed_over }
            several_keys { they_are_held_together }
            status { holder_and_waiters }
        }
    };
}

/// A Memcached has one item for each lock.
macro_rules! promises_of_memcached {
    ($store:ident) => {
        tests! { $store: status { kept_by_min_hold } }
    };
}

macro_rules! tests {
    ($store:ident: $($file:ident { $($promise:ident)* })*) => { $($(
        #[test]
        fn $promise() {
            crate::$file::$promise(&crate::harness::Store::$store());
        }
    )*)* };
}

macro_rules! contract {
    ($($store:ident: $($part:ident)*;)*) => { $(
        mod $store {
            $($part! { $store })*
        }
    )* };
}

// A new store is a new line. What is a Redis all the same needs no crowds of its own.
contract! {
    redis: promises replacements numbers priorities choices runs crowds mixed_crowd trees;
    local: promises replacements numbers priorities choices runs crowds mixed_crowd trees;
    redis62: promises numbers priorities choices runs;
    tls: promises runs;
    unix: promises;
    acl: promises numbers priorities choices runs;
    quorum3: promises_without_a_queue promises_of_a_quorum runs mixed_crowd;
    quorum5: promises_without_a_queue promises_of_a_quorum;
    sentinel: promises numbers priorities choices runs;
    cluster: promises replacements numbers priorities runs trees;
    etcd: promises replacements crowd_of_twenty mixed_crowd trees;
    etcd3: promises crowd_of_twenty;
    zookeeper: promises replacements crowd_of_twenty mixed_crowd trees;
    zookeeper3: promises crowd_of_twenty;
    postgres: promises replacements numbers priorities choices runs crowds mixed_crowd trees;
    postgres_on_a_socket: promises_of_a_transport;
    pgbouncer: promises numbers priorities choices crowd_of_twenty;
    memcached: promises_without_a_queue promises_of_memcached crowd_of_twenty mixed_crowd;
}
