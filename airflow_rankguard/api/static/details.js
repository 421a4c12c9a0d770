// One run and what happened to it.

import { Holder, Inside, Key, Progress, RunName, Status, Token, Verdict } from "./cells.js";
import { Dialog } from "./dialog.js";
import { Fragment, h } from "./host.js";
import { Trouble } from "./list.js";
import { useLive } from "./live.js";
import { byWhom, Moment } from "./words.js";

export function Details({ row: seen, onClose }) {
  const live = useLive(`runs/${seen.id}`, {});
  const row = live.answer?.run ?? seen;
  return h(
    Dialog,
    { title: "Guarded run", onClose },
    live.problem && h(Trouble, { problem: live.problem, onAgain: live.refresh }),
    h("div", { className: "rg-facts" }, h(Key, { row }), h(Holder, { row })),
    h(Facts, { row }),
    h("h3", null, "What happened"),
    live.answer ? h(Events, { events: live.answer.events }) : h("p", { className: "rg-quiet" }, "Loading …"),
    h("footer", null, h("button", { type: "button", "data-first": true, onClick: onClose }, "Close")),
  );
}

function Facts({ row }) {
  const facts = {
    Verdict: row.verdict && h(Verdict, { row }),
    Status: h(Status, { row }),
    Inside: row.inside && h(Inside, { row }),
    Progress: row.progress && h(Progress, { progress: row.progress }),
    Claimed: h(Moment, { at: row.claimed_at }),
    Ended: row.ended_at && h(Fragment, null, h(Moment, { at: row.ended_at }), `, ${row.cause}`),
    Reason: row.reason,
    Started: [row.run_type, row.requested_by && `asked for by ${row.requested_by}`].filter(Boolean).join(", "),
    Token: h(Token, { row }),
    Guard: row.guard_id && (row.map_index < 0 ? row.guard_id : `${row.guard_id} [${row.map_index}]`),
    Deployment: row.deployment,
  };
  return h(
    "dl",
    null,
    Object.entries(facts)
      .filter(([, value]) => value)
      .map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
  );
}

function Events({ events }) {
  if (!events.length) return h("p", { className: "rg-quiet" }, "Nothing yet.");
  return h(
    "ol",
    { className: "rg-events" },
    events.map((event) =>
      h(
        "li",
        { key: event.id ?? `${event.at} ${event.event} ${event.run_id}` },
        h(Moment, { at: event.at }),
        h("span", { className: "rg-strong" }, event.event),
        (event.hidden || event.dag_id) && h(RunName, { run: event }),
        (event.actor || event.reason) && h("span", { className: "rg-quiet" }, byWhom(event)),
      ),
    ),
  );
}
