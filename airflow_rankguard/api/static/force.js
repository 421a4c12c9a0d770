// Freeing a key by hand: what is asked for, and what becomes of it until the key is free.

import { change } from "./asking.js";
import { Holder, Inside, Key, Status, Verdict } from "./cells.js";
import { Dialog } from "./dialog.js";
import { Fragment, h, useEffect, useState } from "./host.js";
import { Trouble } from "./list.js";
import { useLive } from "./live.js";
import { Now, Wish } from "./wish.js";
import { taskName } from "./words.js";

const WHILE_IT_DRAINS = 2_500;

export function ForceRelease({ row: seen, onClose, onDone }) {
  const path = `runs/${seen.id}`;
  const [drains, setDrains] = useState(isDraining(seen));
  const [sent, setSent] = useState();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  // The list may be some seconds old, and a page older.
  const live = useLive(path, {}, !drains, WHILE_IT_DRAINS);
  const row = sent?.freed ?? live.answer?.run ?? seen;
  if (drains !== isDraining(row)) setDrains(isDraining(row));
  useEffect(() => {
    if (!row.active) onDone();
  }, [row.active]);

  const send = async (wish) => {
    setBusy(true);
    setProblem(undefined);
    try {
      const answer = await change(`${path}/force-release`, wish);
      setSent({ wish, freed: answer.run });
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
    live.refresh();
    onDone();
  };

  // An answer is shown with the row as it is after it: that nothing was freed is no trouble where the key is free.
  const settled = !busy && (live.fresh || !(sent || problem));
  const form = { row, busy, settled, onClose };
  return h(
    Dialog,
    { title: "Force release", gone: !row.active, busy, onClose },
    h(Facts, { row }),
    row.active && settled && problem && h(Trouble, { problem }),
    row.active && live.problem && h(Trouble, { problem: live.problem, stale: true, onAgain: live.refresh }),
    !row.active
      ? h(Ended, { row, onClose })
      : sent && (row.ending_at || live.problem)
        ? h(Closed, { ...form, onSend: (now) => send({ ...sent.wish, now }) })
        : h(Wish, { ...form, events: live.answer?.events, onSend: send }),
  );
}

function isDraining(row) {
  return row.active && Boolean(row.ending_at || row.verdict.word === "draining");
}

function Facts({ row }) {
  return h(
    "div",
    { className: "rg-facts" },
    h(Key, { row }),
    h(Holder, { row }),
    row.active ? h(Verdict, { row }) : h(Status, { row }),
    row.inside?.length > 0 && h("div", null, h("span", { className: "rg-quiet" }, "Inside now"), h(Inside, { row })),
  );
}

/** Those inside are waited for; it is read again and again until they have left. */
function Closed({ row, busy, settled, onSend, onClose }) {
  const [now, setNow] = useState(false);
  const names = row.inside.map(taskName).join(", ");
  const harmful = Boolean(names) && now;
  const submit = (event) => {
    event.preventDefault();
    if (settled) onSend(harmful);
  };
  return h(
    "form",
    { onSubmit: submit },
    h(
      Outcome,
      { looks: "draining", head: "The doors are closed" },
      names ? `Still inside: ${names}. Once they have left, ` : "Nobody is inside any more: ",
      "the key is freed by whoever looks next: the run's own release, the next start, a sweep, or you.",
    ),
    names && h(Now, { ticked: now, onTick: setNow }),
    h(
      "footer",
      null,
      h(
        "button",
        { type: "button", className: "rg-ghost", autoFocus: true, disabled: busy, onClick: onClose },
        "Close",
      ),
      h(
        "button",
        { type: "submit", className: harmful ? "rg-danger" : undefined, disabled: !settled },
        settled ? (harmful ? "Free it now" : "Look again") : "Looking …",
      ),
    ),
  );
}

function Ended({ row, onClose }) {
  const forced = row.cause === "forced";
  return h(
    Fragment,
    null,
    h(
      Outcome,
      { looks: forced ? "freed" : "gone", head: forced ? "The key is free" : "There is nothing to free any more" },
      `It ended as ${row.status} (${[row.cause, row.reason].filter(Boolean).join(": ")}).`,
    ),
    h("footer", null, h("button", { type: "button", autoFocus: true, onClick: onClose }, "Close")),
  );
}

function Outcome({ looks, head, children }) {
  return h(
    "div",
    { className: `rg-outcome rg-is-${looks}`, role: "status" },
    h("strong", null, head),
    h("span", null, children),
  );
}
