// What stands in a row: the key, a run, the verdict, who is inside, how far the work is.

import { Fragment, h, Link } from "./host.js";
import { between, dollars, length, Moment, taskName } from "./words.js";

/** As it is written everywhere: `tenant/kind/resource`. */
export function Key({ row }) {
  return h(
    "div",
    { className: "rg-key" },
    h("span", { className: "rg-quiet" }, row.key.slice(0, row.key.length - row.resource.length)),
    h("wbr"),
    h("span", { className: "rg-strong" }, row.resource),
  );
}

/** A DagRun; a link where this Airflow has it. */
export function RunName({ run, deployment }) {
  if (run.hidden) return h("span", { className: "rg-quiet" }, "a run that you may not see");
  const name = h("span", { className: "rg-run" }, run.run_id);
  return h(
    "div",
    { className: "rg-two" },
    h("span", null, run.dag_id, deployment && h("span", { className: "rg-tag" }, deployment)),
    run.page ? h(Link, { to: run.page, className: "rg-link", title: run.run_id }, name) : name,
  );
}

export function Holder({ row }) {
  return h(RunName, { run: row, deployment: row.verdict?.foreign ? row.deployment : undefined });
}

export function Behind({ other, nobody }) {
  if (!other) return h("span", { className: "rg-quiet" }, nobody);
  return h(
    Fragment,
    null,
    h(RunName, { run: other }),
    other.kind === "waiter" && h("span", { className: "rg-quiet" }, "waits, too"),
  );
}

export function Verdict({ row }) {
  const { word, why, until, foreign } = row.verdict;
  return h(
    "div",
    { className: "rg-verdict" },
    h("span", { className: `rg-pill rg-${foreign ? "foreign" : word}` }, foreign ? "foreign" : word),
    h("span", { className: "rg-quiet" }, why, until && h(Fragment, null, ", until ", h(Moment, { at: until }))),
    row.ending_at && h("span", { className: "rg-quiet" }, "doors closed since ", h(Moment, { at: row.ending_at })),
  );
}

export function Inside({ row }) {
  if (!row.inside.length) return h("span", { className: "rg-quiet" }, "nobody");
  const shown = row.inside.slice(0, 3);
  const more = row.inside.length - shown.length;
  return h(
    "ul",
    { className: "rg-plain" },
    shown.map((one) =>
      h("li", { key: taskName(one), title: `try ${one.try_number}, since ${one.entered_at}` }, taskName(one)),
    ),
    more > 0 && h("li", { className: "rg-quiet" }, `and ${more} more`),
  );
}

export function Progress({ progress }) {
  if (!progress) return null;
  const { total, checked, failed, cost } = progress;
  return h(
    "div",
    { className: "rg-progress" },
    h("progress", { value: checked + failed, max: Math.max(total, 1), "aria-label": "keywords checked" }),
    h("span", { className: "rg-quiet" }, `${checked} of ${total} · $${dollars(cost)}`),
    failed > 0 && h("span", { className: "rg-bad" }, `${failed} failed`),
  );
}

export function Held({ row }) {
  return h(
    "div",
    { className: "rg-two" },
    h("span", { className: row.held_unusually_long ? "rg-strong rg-bad" : undefined }, length(row.held_seconds)),
    h("span", { className: "rg-quiet" }, "since ", h(Moment, { at: row.since })),
  );
}

export function Status({ row }) {
  return h("span", { className: `rg-pill rg-${row.status}` }, row.status);
}

export function HeldFor({ row }) {
  return length(between(row.since, row.ended_at));
}

const FENCING = "Fencing token: term × 1,000,000 + re-entries; a later holder has a larger one";

export function Token({ row }) {
  return h("span", { className: "rg-number", title: FENCING }, row.token);
}
