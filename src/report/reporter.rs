//! Passes each event on to every renderer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::human::HumanRenderer;
use super::json::{JsonRenderer, LogDestination};
use super::log_file::LogFile;
use super::metrics::MetricsFile;
use super::renderer::Renderer;
use super::stderr;
use super::syslog::SyslogRenderer;
use super::verbosity::Verbosity;
use crate::cli::{Color, LogFormat};
use crate::error::{Outcome, without_number};
use crate::event::{Event, Summary};

/// The options that decide which events are reported, and how. A new renderer has its options here.
#[derive(Clone, Default)]
pub struct ReportOptions {
    pub verbosity: Verbosity,
    pub color: Color,
    pub log_format: LogFormat,
    /// Takes every event as a line of JSON.
    pub log_file: Option<PathBuf>,
    /// The host's log takes every event.
    pub syslog: bool,
    /// Takes the sum of the runs.
    pub metrics_file: Option<PathBuf>,
}

#[derive(Clone)]
pub struct Reporter(Arc<Report>);

struct Report {
    /// Logs and metrics, each with whether it was reported that it cannot be written.
    logs: Vec<(Box<dyn Renderer>, AtomicBool)>,
    /// People read one line about all logs that cannot be written.
    joins_failures: bool,
    stderr: Box<dyn Renderer>,
    attached: OnceLock<Box<dyn Renderer>>,
    summary: Mutex<Summary>,
}

impl Reporter {
    pub fn new(options: ReportOptions) -> Reporter {
        let ReportOptions { verbosity, color, log_format, log_file, syslog, metrics_file } = options;
        let mut logs: Vec<Box<dyn Renderer>> = Vec::new();
        if let Some(path) = log_file {
            logs.push(Box::new(JsonRenderer::new(
                LogDestination::File(LogFile::new(path)),
                Verbosity::Verbose,
            )));
        }
        if syslog {
            logs.push(Box::new(SyslogRenderer::new()));
        }
        if let Some(path) = metrics_file {
            logs.push(Box::new(MetricsFile::new(path)));
        }
        let stderr: Box<dyn Renderer> = match log_format {
            LogFormat::Text => Box::new(HumanRenderer::new(verbosity, color)),
            LogFormat::Json => Box::new(JsonRenderer::new(LogDestination::Stderr, verbosity)),
        };
        let logs = logs.into_iter().map(|log| (log, AtomicBool::new(false))).collect();
        Reporter(Arc::new(Report {
            logs,
            joins_failures: log_format == LogFormat::Text,
            stderr,
            attached: OnceLock::new(),
            summary: Mutex::default(),
        }))
    }

    /// Passes the event on to every renderer. A log that cannot be written is reported once, on stderr, before the event.
    pub fn report(&self, event: &Event) {
        self.summary().note(event);
        if let Some(attached) = self.0.attached.get() {
            let _ = attached.render(event);
        }
        self.with_logs(|log| log.render(event));
        let _ = self.0.stderr.render(event);
    }

    /// Passes events on to one more, which waits for no reader, before the others.
    pub fn attach(&self, renderer: Box<dyn Renderer>) {
        let _ = self.0.attached.set(renderer);
    }

    /// From now on no log holds up who reports. To be called by a process that makes no others any more.
    pub fn start_threads(&self) {
        self.0.logs.iter().for_each(|(log, _)| log.start_thread());
    }

    /// Gives the logs some time to take what was reported.
    pub fn finish(&self) {
        self.with_logs(|log| log.finish());
    }

    /// Reports once for each log that it cannot be written. Behind the first failure all others are looked for.
    fn with_logs(&self, work: impl Fn(&dyn Renderer) -> Result<(), String>) {
        let mut reasons = self.failures(work);
        if !reasons.is_empty() {
            reasons.extend(self.failures(|log| log.probe()));
        }
        if self.0.joins_failures && reasons.len() > 1 {
            reasons = vec![reasons.join("; ")];
        }
        for reason in &reasons {
            let _ = self.0.stderr.render(&Event::LogFailed { reason });
        }
    }

    /// The failures of logs that had none before.
    fn failures(&self, work: impl Fn(&dyn Renderer) -> Result<(), String>) -> Vec<String> {
        let failure = |(log, has_failed): &(Box<dyn Renderer>, AtomicBool)| {
            let reason = work(log.as_ref()).err()?;
            (!has_failed.swap(true, Ordering::Relaxed)).then(|| without_number(reason))
        };
        self.0.logs.iter().filter_map(failure).collect()
    }

    /// Reports what the call came to, if it asked for a lock.
    pub fn end(&self, outcome: Outcome) {
        let summary = self.summary().end(outcome).cloned();
        if let Some(summary) = summary {
            self.report(&Event::Ended { summary: &summary });
        }
        self.finish();
        stderr::flush();
    }

    /// The summary of the call so far, if it ended with this outcome.
    pub fn summary_at(&self, outcome: Outcome) -> Summary {
        let mut summary = self.summary().clone();
        summary.exit = Some(outcome);
        summary
    }

    fn summary(&self) -> std::sync::MutexGuard<'_, Summary> {
        self.0.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Reporter {
    fn default() -> Reporter {
        Reporter::new(ReportOptions::default())
    }
}
