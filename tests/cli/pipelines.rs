//! The lines of docs/recipes.md for CI systems, each as its runner starts it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Redlock, Store, eventually};

const RECIPES: &str = include_str!("../../docs/recipes.md");
const JOB: &str = "#!/bin/sh\necho \"$REDLOCK_KEY $REDLOCK_POOL_SERIAL\"\n";

/// A CI system, as a step sees it.
struct System {
    variables: &'static [(&'static str, &'static str)],
    /// By which others know the run.
    url: &'static str,
    /// The variable with its number.
    number: &'static str,
}

const GITHUB: System = System {
    variables: &[
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_SERVER_URL", "https://github.com"),
        ("GITHUB_REPOSITORY", "anna/shop"),
        ("GITHUB_RUN_ID", "1658821493"),
    ],
    url: "https://github.com/anna/shop/actions/runs/1658821493",
    number: "GITHUB_RUN_NUMBER",
};

const GITLAB: System = System {
    variables: &[("GITLAB_CI", "true"), ("CI_JOB_URL", "https://gitlab.com/anna/shop/-/jobs/33")],
    url: "https://gitlab.com/anna/shop/-/jobs/33",
    number: "CI_PIPELINE_IID",
};

const JENKINS: System = System {
    variables: &[("JENKINS_URL", "https://ci.example/"), ("BUILD_URL", "https://ci.example/job/shop/12/")],
    url: "https://ci.example/job/shop/12/",
    number: "BUILD_NUMBER",
};

/// The lines of the recipes that have this word.
fn lines(word: &str) -> Vec<String> {
    let typed = |line: &str| {
        let line =
            line.trim().trim_start_matches("- ").trim_start_matches("run: ").trim_start_matches("sh '");
        line.starts_with("redlock ").then(|| line.trim_end_matches('\'').to_owned())
    };
    let all: Vec<String> = RECIPES.lines().filter_map(typed).filter(|line| line.contains(word)).collect();
    assert!(!all.is_empty(), "{word}");
    all
}

struct Runner<'a> {
    store: &'a Store,
    variables: &'a [(&'a str, &'a str)],
}

impl Runner<'_> {
    fn step(&self, line: &str) -> Redlock {
        let folder = &self.store.folder;
        for name in ["deploy.sh", "test-on-phone.sh"] {
            fs::write(folder.path(name), JOB).expect("a script");
            fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o755)).expect("its mode");
        }
        let mut step = self.store.reached_by(Redlock::under("bash", &["-ec", line]));
        step.command.current_dir(folder.path("")).envs(self.variables.iter().copied());
        let (program, path) =
            (Path::new(env!("CARGO_BIN_EXE_redlock")), std::env::var("PATH").unwrap_or_default());
        step.env("PATH", format!("{}:{path}", program.parent().expect("a folder").display()))
    }
}

/// Nobody deploys backwards, and others see the URL of the run.
#[test]
fn a_deploy_is_never_older_than_the_last_one() {
    for System { variables, url, number } in [GITHUB, GITLAB, JENKINS] {
        let store = Store::local();
        let runner = Runner { store: &store, variables };
        let line = &lines(&format!("\"${number}\""))[0];
        let key = line.split_whitespace().skip_while(|word| *word != "-k").nth(1).expect("a key");
        let deployed = format!("{key} \n");
        let run = |iid: &str| runner.step(line).env(number, iid).run();
        assert_eq!(run("41").expect(0).stdout, deployed, "{line}");
        let outdated = run("40").expect(75);
        assert_eq!(outdated.stdout, "");
        assert!(outdated.stderr.contains(&format!("run 41 of '{key}' began ")), "{outdated:?}");
        assert_eq!(run("41").expect(0).stdout, deployed, "the same pipeline again");
        let shown = || {
            let history = store.redlock(&["history", "--json", key]).run().expect(0).stdout;
            let history: Value = serde_json::from_str(&history).expect("JSON");
            history[0]["runs"][0].clone()
        };
        eventually(Duration::from_secs(20), "the run with its URL", || {
            let run = shown();
            run["label"] == url && run["sequence"] == 41 && run["outcome"] == "success"
        });
    }
}

/// A device lab: each job gets a phone of its own, and learns how to reach it.
#[test]
fn each_job_of_a_lab_gets_a_phone() {
    let store = Store::local();
    let file = store.folder.path("lab.toml");
    let blocks: Vec<&str> = RECIPES.split("```").filter_map(|block| block.strip_prefix("toml\n")).collect();
    let pools = blocks.iter().find(|block| block.starts_with("[pools.")).expect("the pools of the recipe");
    // One more tablet than the recipe has.
    fs::write(&file, format!("{pools}\n[pools.phones.phone-3]\nlabels = \"tablet\"\nserial = \"0A1B2E\"\n"))
        .expect("a file");
    let runner = Runner { store: &store, variables: JENKINS.variables };
    let lines = lines("./test-on-phone.sh");
    let step = || runner.step(&lines[0]).env("REDLOCK_CONFIG", file.to_str().expect("a path"));
    assert_eq!(step().run().expect(0).stdout, "phone-2 0A1B2D\n");
    let _second = store.hold("phone-2", &[]);
    assert_eq!(step().run().expect(0).stdout, "phone-3 0A1B2E\n");
    let third = store.hold("phone-3", &[]);
    let waiter = step().spawn();
    store.await_waiters("phone-3", 1);
    third.let_go().expect(0);
    assert_eq!(waiter.finish().expect(0).stdout, "phone-3 0A1B2E\n");
}
