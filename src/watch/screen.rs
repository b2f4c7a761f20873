//! Draws the view.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::lines::folded;
use super::view::{LISTED, Prompt, View};
use crate::lock::{DurationText, Holder, LockStatus, unix_millis};
use crate::report::{Row, aligned, bar, clock, cut, details, headings, rows_of, time_left};
use crate::sanitize::sanitize;

/// In columns, of a host or a user.
const LONGEST_NAME: usize = 20;

/// An answer that is older is worth a word.
const OLD: Duration = Duration::from_secs(5);

pub struct Screen {
    pub colour: bool,
    /// Whose locks these are, and the words that choose them: two windows look alike.
    pub server: String,
    pub words: String,
}

impl Screen {
    /// Draws all of it: the locks, or one in full, the events, and the keys.
    pub fn draw(&self, view: &mut View, frame: &mut Frame) {
        let area = frame.area();
        let columns = usize::from(area.width);
        let trouble = trouble(view);
        let lines = usize::from(area.height.max(3)) - 2;
        view.room = (columns, lines);
        view.check_room();
        // The end of the typed text counts.
        let mut prompt = prompt(view, columns);
        prompt.drain(..prompt.len().saturating_sub(lines));
        let [top, warning, body, recent, bottom] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(trouble.is_some().into()),
            Constraint::Fill(1),
            Constraint::Length(if area.height < 12 { 0 } else { (area.height / 4).min(10) }),
            Constraint::Length(prompt.len() as u16),
        ])
        .areas(area);
        frame.render_widget(self.title(view, columns), top);
        if let Some(trouble) = trouble {
            frame.render_widget(line(&trouble, columns).style(self.of(Color::Red)), warning);
        }
        match view.full.and(view.selected()) {
            Some(lock) => {
                let text = details(lock, view.age(), None, Some(columns));
                frame.render_widget(lines_of(&text, view, body.height.into()), body);
            }
            None => self.list(view, frame, body),
        }
        events(view, frame, recent);
        frame.render_widget(Paragraph::new(prompt), bottom);
    }

    fn list(&self, view: &mut View, frame: &mut Frame, area: Rect) {
        let height = usize::from(area.height).saturating_sub(1);
        let place = view.place().unwrap_or(0);
        view.top = first_shown(view, place, height);
        let mut rows = vec![columns_of(headings())];
        let mut styles = vec![Style::new().add_modifier(Modifier::UNDERLINED)];
        for (at, index) in view.shown.iter().enumerate().skip(view.top) {
            let lock = &view.locks[*index];
            for row in listed(lock, view.age()) {
                rows.push(row);
                let style = self.style_of(lock);
                styles.push(if at == place { style.add_modifier(Modifier::REVERSED) } else { style });
            }
            view.page = (at - view.top).max(1);
            if rows.len() > height {
                break;
            }
        }
        let columns = area.width.into();
        let lines = aligned(&rows, columns).into_iter().zip(styles).map(|(line, style)| {
            let width = Span::raw(&line).width();
            Line::styled(line + &" ".repeat(columns.saturating_sub(width)), style)
        });
        let mut lines: Vec<Line> = lines.collect();
        if view.shown.is_empty() {
            let nothing = match (view.locks.is_empty(), &self.words[..]) {
                (true, "") => "no locks are in use".to_owned(),
                (true, words) => format!("no lock that is in use matches {words}"),
                (false, _) => format!("no lock has '{}' in it; Esc shows all", view.filter),
            };
            lines = vec![line(&nothing, columns)];
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn title(&self, view: &View, columns: usize) -> Line<'static> {
        let waiting: usize = view.locks.iter().map(|lock| lock.waiters.len()).sum();
        let (shown, all) = (view.shown.len(), view.locks.len());
        let shown = if shown == all { String::new() } else { format!("{shown} of ") };
        let plural = if all == 1 { "" } else { "s" };
        let words = if self.words.is_empty() { String::new() } else { format!("{} at ", self.words) };
        let of = sanitize(&format!("{words}{}", self.server));
        let title = format!("redlock: {shown}{all} lock{plural}, {waiting} waiting   {of}");
        let now = clock(unix_millis());
        let title = cut(title.trim_end(), columns.saturating_sub(now.len() + 1));
        let room = columns.saturating_sub(Span::raw(&title).width() + 1);
        Line::styled(format!("{title} {now:>room$}"), Style::new().add_modifier(Modifier::BOLD))
    }

    fn style_of(&self, lock: &LockStatus) -> Style {
        match &lock.holders[..] {
            holders if holders.iter().any(|holder| holder.broken.is_some()) => self.of(Color::Red),
            holders if holders.iter().any(Holder::is_late) => self.of(Color::Yellow),
            [] => Style::new(),
            _ => self.of(Color::Green),
        }
    }

    fn of(&self, color: Color) -> Style {
        if self.colour { Style::new().fg(color) } else { Style::new() }
    }
}

/// Why the screen may not be what is there now.
fn trouble(view: &View) -> Option<String> {
    let age = view.seen.elapsed();
    let old = (age > OLD).then(|| format!("as it was {} ago", DurationText(age)));
    match (&view.trouble, old) {
        (Some(trouble), Some(old)) => Some(format!("{old}: {trouble}")),
        (trouble, old) => trouble.clone().or(old),
    }
}

/// So many lines of a lock in full, from the one on that was scrolled to.
fn lines_of(text: &str, view: &mut View, height: usize) -> Paragraph<'static> {
    let first = view.full.unwrap_or(0).min(text.lines().count().saturating_sub(height));
    (view.full, view.page) = (Some(first), height.max(1));
    Paragraph::new(text.lines().skip(first).map(|line| Line::raw(line.to_owned())).collect::<Vec<_>>())
}

fn events(view: &View, frame: &mut Frame, area: Rect) {
    let Some(room) = usize::from(area.height).checked_sub(1) else { return };
    let columns = usize::from(area.width);
    let heading = cut(&format!("── events {}", "─".repeat(columns)), columns);
    let mut lines = vec![Line::raw(heading.trim_end_matches('…').to_owned() + "─")];
    let skipped = view.events.len().saturating_sub(room);
    lines.extend(view.events.iter().skip(skipped).map(|event| line(event, columns)));
    frame.render_widget(Paragraph::new(lines), area);
}

/// The keys, or what is being typed or asked.
fn prompt(view: &View, columns: usize) -> Vec<Line<'static>> {
    let bold = |line: String| vec![Line::styled(line, Style::new().add_modifier(Modifier::BOLD))];
    match &view.prompt {
        Prompt::None if let Some(answer) = &view.answer => bold(cut(&sanitize(answer), columns)),
        Prompt::None if view.full.is_some() => vec![line("Esc list   b break   q quit", columns)],
        Prompt::None => {
            let filter = if view.filter.is_empty() { String::new() } else { format!(": {}", view.filter) };
            let sort = view.sort.name();
            let keys = format!("/ filter{filter}   s sort: {sort}   Enter in full   b break   q quit");
            vec![line(&keys, columns)]
        }
        Prompt::Filter => bold(end_of(&sanitize(&format!("filter: {}_", view.filter)), columns)),
        Prompt::Break { question, .. } => folded(question, columns).into_iter().flat_map(bold).collect(),
        Prompt::Refused(why) => {
            folded(&format!("{why}. Enter goes on"), columns).into_iter().flat_map(bold).collect()
        }
        Prompt::Reason { reason, .. } => {
            bold(end_of(&sanitize(&format!("why? (Enter breaks it, Esc does not) {reason}_")), columns))
        }
    }
}

/// The first lock in the list, so that all of the selected one is seen.
fn first_shown(view: &View, place: usize, height: usize) -> usize {
    let mut lines = 0;
    let above = view.shown[..view.shown.len().min(place + 1)].iter().rev().take_while(|index| {
        lines += lines_in_list(&view.locks[**index]);
        lines <= height
    });
    let earliest = (place + 1).saturating_sub(above.count().max(1));
    view.top.clamp(earliest, place).min(last_top(view, height))
}

/// From this lock on, all of them fit.
fn last_top(view: &View, height: usize) -> usize {
    let mut lines = 0;
    let fitting = view.shown.iter().rev().take_while(|index| {
        lines += lines_in_list(&view.locks[**index]);
        lines <= height
    });
    view.shown.len().saturating_sub(fitting.count().max(1))
}

/// How many lines [`listed`] makes of a lock.
fn lines_in_list(lock: &LockStatus) -> usize {
    let of = |count: usize| if count > LISTED { LISTED + 1 } else { count };
    (of(lock.holders.len()) + of(lock.waiters.len())).max(1)
}

/// The lines of a lock in the list: its first holders and waiters. Their leases have run on for as long `ago` as they were
/// seen; whether one was late with a renewal is known of that moment only.
fn listed(lock: &LockStatus, ago: Duration) -> Vec<Row> {
    let mut rows = rows_of(lock, |holder| {
        let left = holder.left.map(|left| left.saturating_sub(ago));
        let now = Holder { left, ..holder.clone() };
        lease_bar(&now) + &time_left(&now)
    });
    let mut cut_off = |from: usize, all: usize, what: &str| {
        if all > LISTED {
            rows.drain(from + LISTED..from + all);
            let mut more = Row::default();
            more[1] = format!("{} more {what}", all - LISTED);
            rows.insert(from + LISTED, more);
        }
    };
    cut_off(lock.holders.len(), lock.waiters.len(), "waiting");
    cut_off(0, lock.holders.len(), "hold it");
    rows.iter_mut().skip(1).for_each(|row| row[0].clear());
    rows.into_iter().map(columns_of).collect()
}

/// The most important part comes first, and no name hides the rest. Nothing is cut before it is harmless, which may make it
/// longer.
fn columns_of(row: Row) -> Row {
    let [key, state, host, pid, user, since, left, label] = row.map(|cell| sanitize(&cell));
    let (host, user) = (cut(&host, LONGEST_NAME), cut(&user, LONGEST_NAME));
    [key, state, left, host, pid, user, since, label]
}

/// The rest of the lease, as a part of its TTL.
fn lease_bar(holder: &Holder) -> String {
    let ttl = holder.metadata.as_ref().and_then(|metadata| metadata.ttl());
    let (Some(left), Some(ttl)) = (holder.left, ttl) else { return String::new() };
    bar(left.as_secs_f64() / ttl.as_secs_f64()) + " "
}

fn line(text: &str, columns: usize) -> Line<'static> {
    Line::raw(cut(&sanitize(text), columns))
}

/// As much of the end of `text` as `columns` have room for.
fn end_of(text: &str, columns: usize) -> String {
    let mut width = 0;
    let fits = |c: &char| {
        width += Span::raw(c.to_string()).width();
        width <= columns
    };
    let end: Vec<char> = text.chars().rev().take_while(fits).collect();
    end.into_iter().rev().collect()
}
