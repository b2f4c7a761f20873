//! Passes each event on to every renderer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::human::HumanRenderer;
use super::json::{JsonRenderer, LogDestination};
use super::metrics::MetricsFile;
use super::renderer::Renderer;
use super::syslog::SyslogRenderer;
use super::verbosity::Verbosity;
use crate::cli::{Color, LogFormat};
use crate::error::Outcome;
use crate::event::{Event, Summary};

/// What is reported, and how. A new renderer has its options here.
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
    renderers: Vec<Box<dyn Renderer>>,
    attached: OnceLock<Box<dyn Renderer>>,
    summary: Mutex<Summary>,
}

impl Reporter {
    pub fn new(options: ReportOptions) -> Reporter {
        let ReportOptions { verbosity, color, log_format, log_file, syslog, metrics_file } = options;
        let mut renderers: Vec<Box<dyn Renderer>> = Vec::new();
        // Before what is on stderr: the last lines there may say that a file could not be written.
        if let Some(path) = log_file {
            renderers.push(Box::new(JsonRenderer::new(LogDestination::File(path), Verbosity::Verbose)));
        }
        if syslog {
            renderers.push(Box::new(SyslogRenderer::new()));
        }
        if let Some(path) = metrics_file {
            renderers.push(Box::new(MetricsFile::new(path)));
        }
        renderers.push(match log_format {
            LogFormat::Text => Box::new(HumanRenderer::new(verbosity, color)),
            LogFormat::Json => Box::new(JsonRenderer::new(LogDestination::Stderr, verbosity)),
        });
        Reporter(Arc::new(Report { renderers, attached: OnceLock::new(), summary: Mutex::default() }))
    }

    pub fn report(&self, event: &Event) {
        self.summary().note(event);
        let all = self.0.attached.get().into_iter().chain(&self.0.renderers);
        all.for_each(|renderer| renderer.render(event));
    }

    /// Passes events on to one more, which waits for no reader, before the others.
    pub fn attach(&self, renderer: Box<dyn Renderer>) {
        let _ = self.0.attached.set(renderer);
    }

    /// Reports what the call came to, if it asked for a lock.
    pub fn end(&self, outcome: Outcome) {
        let summary = self.summary().end(outcome).cloned();
        if let Some(summary) = summary {
            self.report(&Event::Ended { summary: &summary });
        }
    }

    /// What the call has come to so far, should it end like this.
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
