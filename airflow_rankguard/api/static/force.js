// Freeing a key by hand: says what will happen, wants a reason, and more ticks the more harm it can do.

import { change, read } from "./asking.js";
import { Holder, Inside, Key, Verdict } from "./cells.js";
import { Dialog } from "./dialog.js";
import { h, useEffect, useId, useState } from "./host.js";
import { Trouble } from "./list.js";
import { taskName } from "./words.js";

const REASON = 1000;
const LIVING = ["alive", "starting"];

export function ForceRelease({ row: seen, onClose, onDone }) {
  const [row, setRow] = useState(seen);
  const [outcome, setOutcome] = useState();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);

  // The list may be some seconds old, and a page older.
  useEffect(() => {
    const stop = new AbortController();
    read(`runs/${seen.id}`, {}, stop.signal).then(
      ({ run }) => (run.active ? setRow(run) : setOutcome({ outcome: "gone", said: ended(run) })),
      (error) => stop.signal.aborted || setProblem(error),
    );
    return () => stop.abort();
  }, [seen.id]);

  const send = async (wish) => {
    setBusy(true);
    setProblem(undefined);
    try {
      const answer = await change(`runs/${row.id}/force-release`, wish);
      if (answer.outcome === "draining") setRow({ ...row, inside: answer.inside });
      setOutcome(answer);
    } catch (error) {
      if (error.more?.verdict) setRow({ ...row, verdict: error.more.verdict });
      setProblem(error);
    }
    setBusy(false);
    onDone();
  };

  return h(
    Dialog,
    { title: "Force release", gone: Boolean(outcome) && outcome.outcome !== "draining", busy, onClose },
    h(
      "div",
      { className: "rg-facts" },
      h(Key, { row }),
      h(Holder, { row }),
      h(Verdict, { row }),
      row.inside.length > 0 && h("div", null, h("span", { className: "rg-quiet" }, "Inside now"), h(Inside, { row })),
    ),
    problem && h(Trouble, { problem }),
    outcome && h(Outcome, { outcome }),
    !outcome || outcome.outcome === "draining"
      ? h(Wish, { row, again: Boolean(outcome), busy, onSend: send, onClose })
      : h("footer", null, h("button", { type: "button", autoFocus: true, onClick: onClose }, "Close")),
  );
}

function Wish({ row, again, busy, onSend, onClose }) {
  const [reason, setReason] = useState("");
  const [evenIfAlive, setEvenIfAlive] = useState(false);
  const [now, setNow] = useState(false);
  const field = useId();
  const living = LIVING.includes(row.verdict.word);
  const someone = row.inside.length > 0 || row.verdict.word === "draining";
  const ready = reason.trim() && (!living || evenIfAlive);
  const submit = (event) => {
    event.preventDefault();
    if (ready && !busy) onSend({ reason: reason.trim(), even_if_alive: living && evenIfAlive, now: someone && now });
  };
  return h(
    "form",
    { onSubmit: submit },
    h(WhatHappens, { row, living, someone, now }),
    h(
      "div",
      { className: "rg-field" },
      h("label", { htmlFor: field }, "Reason (kept with your name)"),
      h("textarea", {
        id: field,
        rows: 2,
        required: true,
        maxLength: REASON,
        "data-first": true,
        value: reason,
        onChange: (event) => setReason(event.target.value),
      }),
    ),
    living &&
      h(
        Tick,
        { ticked: evenIfAlive, onTick: setEvenIfAlive },
        `${whetherAlive(row.verdict)} Its work is told to stop at its next guarded task.`,
      ),
    someone &&
      h(
        Tick,
        { ticked: now, onTick: setNow, harmful: true },
        "Now: do not wait for those inside. ",
        h("strong", null, "Their work may overlap with the next holder's."),
      ),
    h(
      "footer",
      null,
      h(
        "button",
        { type: "button", className: "rg-ghost", disabled: busy, onClick: onClose },
        again ? "Close" : "Cancel",
      ),
      h(
        "button",
        { type: "submit", className: "rg-danger", disabled: !ready || busy },
        busy ? "Releasing …" : again ? "Try once more" : "Force release",
      ),
    ),
  );
}

function whetherAlive({ foreign, word }) {
  if (foreign) return "Nobody here can tell whether its holder is alive.";
  return word === "starting" ? "Its holder may be just starting." : "Its holder is alive.";
}

function Tick({ ticked, onTick, harmful, children }) {
  return h(
    "label",
    { className: harmful ? "rg-tick rg-harmful" : "rg-tick" },
    h("input", { type: "checkbox", checked: ticked, onChange: (event) => onTick(event.target.checked) }),
    h("span", null, children),
  );
}

function WhatHappens({ row, living, someone, now }) {
  const names = row.inside.map(taskName).join(", ");
  const who = names ? `those inside (${names})` : "those inside";
  const steps = [
    someone && !now && `The doors are closed at once. The key is free when ${who} have left.`,
    someone && now && `The key is free at once, though ${who} may still be at work.`,
    !someone && "The key is free at once, for whoever asks next.",
    living && "Its next guarded task fails: it has lost the key. Its DagRun is not stopped.",
    "The guarded run ends as failed, with your name and reason in its history and in Airflow's audit log.",
  ];
  return h(
    "div",
    { className: "rg-happens" },
    h("p", { className: "rg-strong" }, "What will happen"),
    h("ul", null, steps.filter(Boolean).map((step) => h("li", { key: step }, step))),
  );
}

const SAID = { freed: "The key is free", draining: "The doors are closed", gone: "There is nothing to free any more" };

function Outcome({ outcome: { outcome, said } }) {
  return h(
    "div",
    { className: `rg-outcome rg-is-${outcome}`, role: "status" },
    h("strong", null, SAID[outcome]),
    h("span", null, said),
  );
}

function ended(run) {
  return `It ended as ${run.status} (${run.cause})${run.reason ? `: ${run.reason}` : ""}.`;
}
