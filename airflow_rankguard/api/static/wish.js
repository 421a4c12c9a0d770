// The wish to free a key: says what will happen, wants a reason, and more ticks the more harm it can do.

import { h, useId, useState } from "./host.js";
import { byWhom, taskName } from "./words.js";

const REASON = 1000;
const LIVING = ["alive", "starting"];

/** @param events what happened to the run, once that is known. */
export function Wish({ row, events, busy, settled, onSend, onClose }) {
  const [reason, setReason] = useState("");
  const [evenIfAlive, setEvenIfAlive] = useState(false);
  const [now, setNow] = useState(false);
  const field = useId();
  const needed = useId();
  const living = LIVING.includes(row.verdict.word);
  const someone = row.inside.length > 0 || row.verdict.word === "draining";
  const needs = [!reason.trim() && "a reason", living && !evenIfAlive && "the tick above"].filter(Boolean);
  const ready = settled && !needs.length;
  const submit = (event) => {
    event.preventDefault();
    if (ready) onSend({ reason: reason.trim(), even_if_alive: living && evenIfAlive, now: someone && now });
  };
  return h(
    "form",
    { onSubmit: submit },
    h(WhatHappens, { row, events, living, someone, now }),
    h(
      "div",
      { className: "rg-field" },
      h("label", { htmlFor: field }, "Reason (needed; kept with your name)"),
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
        `I know that ${whetherAlive(row.verdict)}; its work is told to stop at its next guarded task.`,
      ),
    someone && h(Now, { ticked: now, onTick: setNow }),
    h(
      "footer",
      null,
      h("button", { type: "button", className: "rg-ghost", disabled: busy, onClick: onClose }, "Cancel"),
      h(
        "button",
        { type: "submit", className: "rg-danger", disabled: !ready, "aria-describedby": needed },
        settled ? "Force release" : "Releasing …",
      ),
      h("p", { id: needed, className: "rg-needed" }, needs.length > 0 && `Still needed: ${needs.join(" and ")}`),
    ),
  );
}

/** The tick not to wait for those inside. */
export function Now({ ticked, onTick }) {
  return h(
    Tick,
    { ticked, onTick, harmful: true },
    "Now: do not wait for those inside. ",
    h("strong", null, "Their work may overlap with the next holder's."),
  );
}

function whetherAlive({ foreign, word }) {
  if (foreign) return "nobody here can tell whether its holder is alive";
  return word === "starting" ? "its holder may be just starting" : "its holder is alive";
}

function Tick({ ticked, onTick, harmful, children }) {
  return h(
    "label",
    { className: harmful ? "rg-tick rg-harmful" : "rg-tick" },
    h("input", { type: "checkbox", checked: ticked, onChange: (event) => onTick(event.target.checked) }),
    h("span", null, children),
  );
}

function WhatHappens({ row, events, living, someone, now }) {
  const names = row.inside.map(taskName).join(", ");
  const who = names ? `those inside (${names})` : "those inside";
  const closed = Boolean(row.ending_at);
  // Doors that close by force keep that reason; the run's own release may have closed them, too.
  const forced = events?.find(({ event, reason }) => event === "forced" && reason === row.reason);
  const steps = [
    someone && !now && !closed && `The doors are closed at once. The key is free when ${who} have left.`,
    someone && now && `The key is free at once, though ${who} may still be at work.`,
    !someone && "The key is free at once, for whoever asks next.",
    living && "Its next guarded task fails: it has lost the key. Its DagRun is not stopped.",
    !closed &&
      "The guarded run ends as failed, with your name and reason in its history and in Airflow's audit log.",
    closed && events && !forced && "The guarded run ends as failed.",
  ].filter(Boolean);
  const already = `The doors are closed already${forced ? ` (${byWhom(forced)})` : ""}.`;
  return h(
    "div",
    { className: "rg-happens" },
    closed
      ? h("p", null, already, " Your reason is added to what happened.")
      : h("p", { className: "rg-strong" }, "What will happen"),
    steps.length > 0 && h("ul", null, steps.map((step) => h("li", { key: step }, step))),
  );
}
