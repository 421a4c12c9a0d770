"""The verbs about guarded runs: what they do, print, and end with."""

import getpass
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Member, Owner, Presence, Status
from tests.answers import Answers
from tests.cli.airflow_shell import AirflowShell
from tests.cli.ran import Ran
from tests.conftest import DEPLOYMENT

Rankguard = Callable[..., Ran]
Hold = Callable[..., GuardedRun]
GoInside = Callable[[GuardedRun], Presence]

RECORD = {
    *("id", "kind", "resource", "tenant", "deployment", "dag_id", "run_id", "guard_id", "map_index"),
    *("run_started_at", "clear_number", "try_number", "status", "term", "token", "entries", "claimed_at", "started_at"),
    *(
        "work_done_at",
        "ending_at",
        "ending_status",
        "ended_seen_at",
        "ended_at",
        "cause",
        "reason",
        "run_type",
        "requested_by",
    ),
}


def test_list_is_empty_at_first(rankguard: Rankguard) -> None:
    """No runs are a sentence for people, an empty array for machines, and no failure."""
    assert rankguard("list") == Ran(0, "No guarded run.\n", "")
    assert rankguard("list", "--output", "json").json == []


def test_list_shows_who_holds_what(rankguard: Rankguard, hold: Hold) -> None:
    """A piped table has one plain line for each run, newest first, under one line of headings; none ends in blanks."""
    first, second = hold("r1", "42"), hold("r2", "43")
    lines = rankguard("list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["Guarded", "id", str(second.id), str(first.id)]
    assert "rank_check/42" in lines[3]
    assert "DAG rank_check run r1 (acquire)" in lines[3]
    assert "\x1b" not in "".join(lines)
    assert lines == [line.rstrip() for line in lines]


def test_list_as_json_has_stable_names(rankguard: Rankguard, hold: Hold) -> None:
    """A record is flat, its times are ISO 8601 with their zone, and its names do not change unnoticed."""
    held = hold()
    (record,) = rankguard("list", "--output", "json").json
    assert set(record) == RECORD
    assert (record["id"], record["resource"], record["run_id"]) == (str(held.id), "42", "r1")
    assert datetime.fromisoformat(record["claimed_at"]) == held.claimed_at
    assert record["ended_at"] is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--active"], ["r2", "r3"]),
        (["--resource", "43"], ["r2"]),
        (["--kind", "other"], []),
        (["--tenant", ""], ["r1", "r2", "r3"]),
        (["--dag", "rank_check"], ["r1", "r2", "r3"]),
        (["--dag", "another"], []),
        (["--limit", "2"], ["r2", "r3"]),
    ],
)
def test_list_narrows(
    words: list[str], found: list[str], rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers
) -> None:
    """Each filter narrows the list to what it names."""
    ended = hold("r1", "42")
    guard.release(ended.id, ended.token, answers)
    hold("r2", "43")
    hold("r3", "44")
    records = rankguard("list", *words, "--output", "json").json
    assert sorted(record["run_id"] for record in records) == found


def test_list_finds_what_is_held_for_long(
    rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers, query: Callable[..., object]
) -> None:
    """With --active and --older-than only those are left that have held their key for longer."""
    for run_id, resource in (("old", "42"), ("ended", "43"), ("new", "44")):
        held = hold(run_id, resource)
        if run_id == "ended":
            guard.release(held.id, held.token, answers)
    long_ago = f"{datetime.now(UTC) - timedelta(hours=3):%Y-%m-%d %H:%M:%S.%f}"
    query("UPDATE guarded_runs SET claimed_at = :at WHERE run_id <> 'new'", at=long_ago)
    for words, found in (
        (["--active", "--older-than", "2h"], ["old"]),
        (["--older-than", "2h"], ["ended", "old"]),
        (["--active", "--older-than", "4h"], []),
        (["--active", "--older-than", "0s"], ["new", "old"]),
    ):
        records = rankguard("list", *words, "--output", "json").json
        assert sorted(record["run_id"] for record in records) == found


def test_yaml_says_what_json_says(rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers) -> None:
    """A machine reads the same from both, whatever a reason has in it."""
    held = hold()
    guard.fail(held.id, held.token, answers, "yes: no\n# é [red]")
    for words in (["list"], ["show", held.id], ["list", "--waiting"]):
        told = rankguard(*words, "--output", "yaml")
        assert told.code == 0
        assert told.yaml == rankguard(*words, "--output", "json").json
    assert rankguard("list", "--output", "yaml").yaml[0]["reason"] == "yes: no\n# é [red]"


def test_a_reason_cannot_steer_the_terminal(rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers) -> None:
    """Markup stays text and control characters are not printed: reasons come from anywhere."""
    held = hold()
    guard.fail(held.id, held.token, answers, "[red]bad[/red]\x1b[2J\nsecond")
    out = rankguard("list").out
    assert "[red]bad[/red]" in out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 3


def test_show_tells_the_whole_story(
    rankguard: Rankguard, hold: Hold, go_inside: GoInside, guard: Guard, answers: Answers
) -> None:
    """A run is shown with who is inside and with what happened to it."""
    held = hold()
    go_inside(held)
    guard.acquire(held.key, replace(held.owner, run_id="r2"), held.life, answers)
    out = rankguard("show", held.id).out
    assert f"Guarded run {held.id}" in out
    assert "check try 1" in out
    assert "refused" in out
    told = rankguard("show", held.id, "--output", "json").json
    assert [presence["task_id"] for presence in told["presences"]] == ["check"]
    assert [(event["event"], event["run_id"]) for event in told["events"]] == [("refused", "r2")]
    assert told["run"]["entries"] == 1


def test_show_of_a_stranger_is_refused(rankguard: Rankguard) -> None:
    """A run that is not there is one sentence on stderr and the code for a refusal."""
    missing = uuid4()
    assert rankguard("show", missing) == Ran(1, "", f"rankguard: there is no guarded run {missing}.\n")


def test_release_frees_the_key_and_keeps_who_and_why(rankguard: Rankguard, hold: Hold, guard: Guard) -> None:
    """The key is free at once when nobody is inside; who freed it and why stays readable."""
    held = hold()
    ran = rankguard("release", held.id, "--even-if-alive", "--reason", "stuck since noon", "--by", "ada")
    assert ran == Ran(0, f"Freed rank_check/42, which {held.owner} held.\n", "")
    assert guard.look(held.key) is None
    seen = guard.look_run(held.id)
    assert seen is not None
    assert (seen.run.status, seen.run.reason) == (Status.FAILED, "stuck since noon (by ada)")
    assert [(event.event, event.actor) for event in guard.events(held.id)] == [("forced", "ada")]


def test_a_living_holder_is_freed_by_a_word_more(rankguard: Rankguard, hold: Hold, guard: Guard) -> None:
    """Without the word that says that it is known nothing changes, nor with --now; without an Airflow all may live."""
    held = hold()
    for words in ([], ["--now"]):
        refused = rankguard("release", held.id, "--reason", "stuck", *words, "--output", "json")
        assert (refused.code, refused.json["ended"]) == (1, False)
        assert "say --even-if-alive to free rank_check/42 nevertheless" in refused.err
    seen = guard.look(held.key)
    assert seen is not None
    assert seen.run == held
    assert guard.events(held.id) == []


@pytest.mark.backends("sqlite")
def test_airflow_says_whether_a_holder_lives(
    airflow: AirflowShell, guard: Guard, answers: Answers, key: Callable[..., GuardKey]
) -> None:
    """A holder whose DagRun is running is freed by a word more, one whose DagRun has ended needs none."""
    dag_id = f"dag_{uuid4().hex}"
    for state in ("running", "failed"):
        airflow.add_run(dag_id, state, state)
        owner = Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id=state, guard_id="acquire")
        guard.acquire(key(state), owner, Life(try_number=1), answers)
    listed = airflow.run("list", "--active", "--output", "json").json
    ids = {record["run_id"]: record["id"] for record in listed}
    refused = airflow.run("release", ids["running"], "--reason", "stuck")
    assert refused.code == 1
    assert f"DAG {dag_id} run running (acquire) may be at work, since its DagRun is running" in refused.err
    assert airflow.run("release", ids["failed"], "--reason", "stuck").code == 0
    assert airflow.run("release", ids["running"], "--reason", "stuck", "--even-if-alive").code == 0
    assert airflow.run("list", "--active").out == "No guarded run.\n"


def test_the_freed_holder_loses_at_its_fence(rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers) -> None:
    """The living holder's next task does not start, and says who freed the key and why."""
    held = hold()
    rankguard("release", held.id, "--even-if-alive", "--reason", "stuck since noon", "--by", "ada")
    with pytest.raises(GuardLost, match=r"freed by force at .*stuck since noon \(by ada\)"):
        guard.enter(held.key, held.owner, held.life, Member(task_id="check"), answers)


def test_release_signs_with_the_user(rankguard: Rankguard, hold: Hold, guard: Guard) -> None:
    """Without --by the user of the process is who did it."""
    held = hold()
    rankguard("release", held.id, "--even-if-alive", "--reason", "stuck")
    assert [event.actor for event in guard.events(held.id)] == [getpass.getuser()]


def test_release_of_an_ended_run_is_refused(rankguard: Rankguard, hold: Hold) -> None:
    """A second release changes nothing and says what the first one did."""
    held = hold()
    rankguard("release", held.id, "--even-if-alive", "--reason", "first")
    again = rankguard("release", held.id, "--even-if-alive", "--reason", "second", "--output", "json")
    assert again.code == 1
    assert again.json["ended"] is False
    assert again.json["run"]["reason"].startswith("first")
    assert again.err.startswith("rankguard: Nothing was freed: it ended failed (forced) at ")


def test_release_waits_and_says_for_whom(rankguard: Rankguard, hold: Hold, go_inside: GoInside, guard: Guard) -> None:
    """With somebody inside a release closes the doors, waits, and ends with the code that says so."""
    held = hold()
    go_inside(held)
    ran = rankguard("release", held.id, "--even-if-alive", "--reason", "stuck", "--wait", "0s")
    assert ran.code == 5
    waiting, error = ran.err.splitlines()
    assert waiting.startswith("Waiting at most 0:00:00 for check try 1 (since ")
    assert "Inside: check try 1." in error
    seen = guard.look(held.key)
    assert seen is not None
    assert seen.run.ending_at is not None


def test_release_now_does_not_wait(rankguard: Rankguard, hold: Hold, go_inside: GoInside, guard: Guard) -> None:
    """With --now the key is free although somebody is inside, and the command warns of the overlap."""
    held = hold()
    go_inside(held)
    ran = rankguard("release", held.id, "--even-if-alive", "--reason", "stuck", "--now")
    assert ran.code == 0
    assert "work may overlap" in ran.err
    assert guard.look(held.key) is None


def test_sweep_without_airflow_reclaims_nothing(rankguard: Rankguard, hold: Hold, guard: Guard) -> None:
    """Where no Airflow can be asked every run counts as alive, and the command says so."""
    held = hold()
    ran = rankguard("sweep", "--deployment", DEPLOYMENT, "--output", "json")
    assert ran.code == 0
    assert "No Airflow at hand" in ran.err
    (swept,) = ran.json
    assert (swept["run"]["id"], swept["verdict"], swept["reclaimed"]) == (str(held.id), "alive", False)
    assert "no Airflow at hand" in swept["why"]
    assert guard.look(held.key) is not None


@pytest.mark.parametrize(("words", "verdict", "held_after"), [(["--dry-run"], "stale", True), ([], "reclaimed", False)])
def test_sweep_ends_what_a_release_left_behind(
    words: list[str],
    verdict: str,
    held_after: bool,
    rankguard: Rankguard,
    hold: Hold,
    go_inside: GoInside,
    guard: Guard,
) -> None:
    """A run whose doors are closed and whom all have left is ended by a sweep, and only named by a dry run."""
    held = hold()
    presence = go_inside(held)
    rankguard("release", held.id, "--even-if-alive", "--reason", "stuck", "--wait", "0s")
    guard.leave(presence)
    ran = rankguard("sweep", "--deployment", DEPLOYMENT, *words)
    assert ran.code == 0
    assert verdict in ran.out.splitlines()[2]
    assert (guard.look(held.key) is not None) is held_after


def test_sweep_does_not_guess_whose_runs(rankguard: Rankguard) -> None:
    """With a URL nobody has said which Airflow is meant."""
    ran = rankguard("sweep")
    assert (ran.code, ran.out) == (2, "")
    assert "Say --deployment" in ran.err


def test_prune_spares_the_newest_of_a_key(rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers) -> None:
    """Old ended runs go, whatever the batch; the newest of each key stays for its token."""
    for run_id in ("r1", "r2", "r3"):
        held = hold(run_id)
        guard.release(held.id, held.token, answers)
    for long_ago in ("1d", "10000000d", "99999999w"):
        assert rankguard("prune", "--older-than", long_ago, "--output", "json") == Ran(0, '{\n  "deleted": 0\n}\n', "")
    assert rankguard("prune", "--older-than", "0s", "--batch", "1") == Ran(0, "2 rows deleted.\n", "")
    assert [record["run_id"] for record in rankguard("list", "--output", "json").json] == ["r3"]
