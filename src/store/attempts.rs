//! One server of a cluster after the other, until one of them answers.

use crate::lock::Timeout;

/// Why a server did not do what it was asked.
pub trait ServerError {
    /// Another server may answer.
    fn is_no_answer(&self) -> bool;

    /// There was no answer, and asking again within seconds makes sense.
    fn is_transient(&self) -> bool;
}

/// Makes as many attempts as there is time for, until one has an answer, and returns that. Each has half of the time that is
/// left, as the first one has an answer most of the time, and the last one has all of it.
pub fn one_after_the_other<T, E: ServerError>(
    attempts: usize,
    timeout: &Timeout,
    mut attempt: impl FnMut(&Timeout) -> Result<T, E>,
) -> Result<T, E> {
    let mut left = attempts.max(1);
    let mut failure: Option<E> = None;
    loop {
        let error = match attempt(&timeout.share(left.min(2))) {
            Err(error) if error.is_no_answer() => error,
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

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Failure {
        Down,
        Starting,
        Refused,
    }
    use Failure::*;

    impl ServerError for Failure {
        fn is_no_answer(&self) -> bool {
            *self != Refused
        }

        fn is_transient(&self) -> bool {
            *self == Starting
        }
    }

    /// What comes of attempts with these ends, after all of the time that each had, and how many milliseconds that was.
    fn tried(ends: &[Result<(), Failure>]) -> (Result<(), Failure>, Vec<u128>) {
        fake::start();
        let (mut times, mut ends) = (Vec::new(), ends.iter());
        let outcome = one_after_the_other(ends.len(), &Timeout::of(Duration::from_secs(1)), |timeout| {
            times.push(timeout.until.left().as_millis());
            fake::move_to(timeout.until);
            *ends.next().expect("no more attempts than that")
        });
        (outcome, times)
    }

    #[test]
    fn each_has_half_of_the_time_that_is_left() {
        assert_eq!(tried(&[Ok(())]), (Ok(()), vec![1000]));
        assert_eq!(tried(&[Err(Down), Err(Down), Err(Down), Ok(())]), (Ok(()), vec![500, 250, 125, 125]));
        assert_eq!(tried(&[Err(Down), Err(Refused), Ok(())]), (Err(Refused), vec![500, 250]));
    }

    #[test]
    fn who_may_answer_soon_says_most() {
        for ends in [[Down, Starting, Down], [Starting, Down, Down], [Down, Down, Starting]] {
            assert_eq!(tried(&ends.map(Err)).0, Err(Starting));
        }
        assert_eq!(tried(&[Err(Down); 2]).0, Err(Down));
    }
}
