//! One server of a cluster after the other, until one of them answers.

use super::call_error::CallError;
use crate::lock::Timeout;

/// Makes as many attempts as there is time for, until one has an answer, and returns that. Each has half of the time that is
/// left, as the first one has an answer most of the time, and the last one has all of it.
pub fn one_after_the_other<T>(
    attempts: usize,
    timeout: &Timeout,
    mut attempt: impl FnMut(&Timeout) -> Result<T, CallError>,
) -> Result<T, CallError> {
    let mut left = attempts.max(1);
    let mut failure: Option<CallError> = None;
    loop {
        let error = match attempt(&timeout.share(left.min(2))) {
            Err(error @ CallError::NoAnswer { .. }) => error,
            answer => return answer,
        };
        left -= 1;
        // That of a server that may answer soon says more.
        let says_most = match failure {
            Some(earlier) if earlier.is_transient() && !error.is_transient() => earlier,
            _ => error,
        };
        if left == 0 || timeout.until.has_passed() {
            return Err(says_most);
        }
        failure = Some(says_most);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::fake;

    type End = Result<(), CallError>;

    fn down() -> End {
        Err(CallError::no_answer("down"))
    }

    fn starting() -> End {
        Err(CallError::transient("starting"))
    }

    /// The result of attempts with these ends, after all of the time that each had, and how many milliseconds that was.
    fn tried<const N: usize>(ends: [End; N]) -> (End, Vec<u128>) {
        fake::start();
        let (mut times, mut ends) = (Vec::new(), ends.into_iter());
        let outcome = one_after_the_other(N, &Timeout::of(Duration::from_secs(1)), |timeout| {
            times.push(timeout.until.left().as_millis());
            fake::move_to(timeout.until);
            ends.next().expect("no more attempts than that")
        });
        (outcome, times)
    }

    #[test]
    fn each_has_half_of_the_time_that_is_left() {
        assert_eq!(tried([Ok(())]), (Ok(()), vec![1000]));
        assert_eq!(tried([down(), down(), down(), Ok(())]), (Ok(()), vec![500, 250, 125, 125]));
        let refused = || Err(CallError::Denied("refused".to_owned()));
        assert_eq!(tried([down(), refused(), Ok(())]), (refused(), vec![500, 250]));
    }

    #[test]
    fn who_may_answer_soon_says_most() {
        for ends in [[down(), starting(), down()], [starting(), down(), down()], [down(), down(), starting()]]
        {
            assert_eq!(tried(ends).0, starting());
        }
        assert_eq!(tried([down(), down()]).0, down());
    }
}
