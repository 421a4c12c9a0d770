// The page "Run guards". Airflow imports this module and draws the component that it finds under the page's name:
// in the navigation without arguments, as a tab of a DagRun with `dagId` and `runId`.

import { Details } from "./details.js";
import { FILTERS, Filters } from "./filters.js";
import { ForceRelease } from "./force.js";
import { Fragment, h, loadLooks, useAddress, useEffect, useRef, useState } from "./host.js";
import { List } from "./list.js";
import { useLive } from "./live.js";
import { PANELS } from "./panels.js";
import { counted, length } from "./words.js";

const NAMES = ["panel", ...Object.keys(FILTERS)];

function RunGuards({ dagId, runId }) {
  const [paused, setPaused] = useState(false);
  const [turn, setTurn] = useState(0);
  const [open, setOpen] = useState();
  const close = () => setOpen(undefined);
  const refresh = () => setTurn((before) => before + 1);
  const shared = { paused, turn, refresh, setPaused, actions: (row) => h(Actions, { row, onOpen: setOpen }) };
  return h(
    "div",
    { className: "rg" },
    h(
      "div",
      { className: "rg-page" },
      runId === undefined
        ? h(Everything, shared)
        : h(OneDagRun, { ...shared, params: { dag_id: dagId, run_id: runId } }),
      open?.what === "details" && h(Details, { row: open.row, onClose: close }),
      open?.what === "force" && h(ForceRelease, { row: open.row, onClose: close, onDone: refresh }),
    ),
  );
}

function Everything({ paused, setPaused, turn, refresh, actions }) {
  const [{ panel: chosen, ...filters }, write] = useAddress(NAMES);
  const panel = PANELS.find(({ name }) => name === chosen) ?? PANELS[0];
  const summary = useLive("summary", filters, paused);
  const [seen, setSeen] = useState({});
  useRefreshed(turn, summary.refresh);
  return h(
    Fragment,
    null,
    h(
      "header",
      { className: "rg-head" },
      h("h1", { tabIndex: -1 }, "Run guards"),
      summary.answer &&
        h("span", { className: "rg-tag", title: "This Airflow in the guard database" }, summary.answer.deployment),
      h(Liveness, { seen, paused, onPause: () => setPaused(!paused), onRefresh: refresh }),
    ),
    h(Tabs, { panel, summary: summary.answer, onChoose: (name) => write({ panel: name }) }),
    h(
      "div",
      { role: "tabpanel", id: "rg-tabpanel", "aria-labelledby": `rg-tab-${panel.name}`, className: "rg-tabpanel" },
      h(Filters, { filters, onChange: write }),
      h(Refreshing, {
        key: panel.name,
        turn,
        panel,
        params: filters,
        summary: summary.answer,
        paused,
        actions: "waiting refused".includes(panel.name) ? undefined : actions,
        onSeen: setSeen,
      }),
    ),
  );
}

/** A tab of a DagRun: the panels that have something about it, one below the other. */
function OneDagRun({ params, paused, turn, actions }) {
  const [seen, setSeen] = useState({});
  const shown = PANELS.filter(({ name }) => name !== "long");
  const known = Object.values(seen);
  const nothing = known.length === shown.length && known.every((live) => live.answer && !live.answer.rows.length);
  return h(
    Fragment,
    null,
    shown.map((panel) =>
      h(Refreshing, {
        key: panel.name,
        turn,
        panel,
        params,
        paused,
        actions: "waiting refused".includes(panel.name) ? undefined : actions,
        ofOneRun: true,
        onSeen: (live) => setSeen((before) => ({ ...before, [panel.name]: live })),
      }),
    ),
    nothing && h("p", { className: "rg-empty" }, "This run holds no key, and has asked for none in the last day."),
  );
}

/** A list that is asked for anew after something was changed. */
function Refreshing({ turn, onSeen, ...props }) {
  const [live, setLive] = useState();
  useRefreshed(turn, live?.refresh);
  return h(List, { ...props, onSeen: (now) => (setLive(now), onSeen?.(now)) });
}

function useRefreshed(turn, refresh) {
  const first = useRef(turn);
  useEffect(() => {
    if (turn !== first.current) refresh?.();
  }, [turn]);
}

function Actions({ row, onOpen }) {
  const button = (what, said, className) =>
    h(
      "button",
      { type: "button", className, "aria-label": `${said} of ${row.key}`, onClick: () => onOpen({ what, row }) },
      said,
    );
  return h(
    Fragment,
    null,
    button("details", "Details", "rg-ghost"),
    row.may_force_release && button("force", "Force release"),
  );
}

function Tabs({ panel, summary, onChoose }) {
  useEffect(() => {
    document.getElementById(`rg-tab-${panel.name}`).scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [panel.name]);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const here = PANELS.indexOf(panel);
    const next = PANELS[(here + step + PANELS.length) % PANELS.length];
    onChoose(next.name);
    document.getElementById(`rg-tab-${next.name}`).focus();
  };
  return h(
    "div",
    { role: "tablist", "aria-label": "Panels", className: "rg-tabs", onKeyDown: move },
    PANELS.map(({ name, title, count, alarming }) => {
      const number = summary && count?.(summary);
      return h(
        "button",
        {
          key: name,
          id: `rg-tab-${name}`,
          type: "button",
          role: "tab",
          "aria-selected": name === panel.name,
          "aria-controls": "rg-tabpanel",
          tabIndex: name === panel.name ? 0 : -1,
          onClick: () => onChoose(name),
        },
        title,
        count &&
          h(
            "span",
            { className: alarming && number ? "rg-count rg-alarm" : "rg-count" },
            counted(number, summary?.counted_to),
          ),
      );
    }),
  );
}

function Liveness({ seen, paused, onPause, onRefresh }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const ticking = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(ticking);
  }, []);
  const age = seen.at && Math.max(0, now - seen.at) / 1000;
  const said = seen.at === undefined ? "" : age < 2 ? "just now" : `${length(age)} ago`;
  return h(
    "div",
    { className: "rg-live" },
    h("span", { className: `rg-dot${paused || seen.problem ? "" : " rg-on"}`, "aria-hidden": true }),
    h("span", { className: "rg-quiet" }, paused ? `Paused, seen ${said}` : said && `Seen ${said}`),
    h("button", { type: "button", className: "rg-ghost", onClick: onPause }, paused ? "Go on" : "Pause"),
    h("button", { type: "button", className: "rg-ghost", onClick: onRefresh }, "Refresh"),
  );
}

await loadLooks();
// A bundle that two entries share is run once, so it may not rely on `AirflowPlugin`, which each of them resets.
globalThis["Run guards"] = RunGuards;
globalThis.AirflowPlugin = RunGuards;
