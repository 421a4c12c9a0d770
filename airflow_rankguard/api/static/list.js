// One panel's rows: loading, empty, wrong, or a table with pages.

import { Fragment, h, loginAddress, useEffect, useRef, useState } from "./host.js";
import { useLive } from "./live.js";

const LIMIT = 25;

/**
 * @param ofOneRun all rows are about one DagRun: it is not named again, and a panel without rows is left out.
 */
export function List({ panel, params, summary, paused, actions, onSeen, ofOneRun }) {
  const [cursors, setCursors] = useState([undefined]);
  const [order, setOrder] = useState(panel.orders && Object.keys(panel.orders)[0]);
  const asked = { ...panel.params?.(summary), ...(order && { order }), ...params, limit: LIMIT };
  const question = JSON.stringify(asked);
  const [asks, setAsks] = useState(question);
  if (asks !== question) {
    setAsks(question);
    setCursors([undefined]);
  }
  const live = useLive(panel.path, { ...asked, after: cursors.at(-1) }, paused);
  useEffect(() => onSeen?.(live), [live.at, live.problem]);
  const top = useRef(null);
  const turn = (to) => {
    setCursors(to);
    top.current.scrollIntoView({ block: "nearest" });
  };

  const rows = live.answer?.rows;
  if (ofOneRun && !live.problem && (!rows || (!rows.length && cursors.length === 1))) return null;
  return h(
    "div",
    { ref: top, className: "rg-panel", "aria-busy": !rows && !live.problem },
    h(
      "div",
      { className: "rg-panel-head" },
      ofOneRun ? h("h2", { tabIndex: -1 }, panel.title) : h("p", { className: "rg-quiet" }, panel.says),
      panel.orders && rows?.length > 1 && h(Order, { orders: panel.orders, order, onChoose: setOrder }),
    ),
    live.problem && h(Trouble, { problem: live.problem, stale: Boolean(rows), onAgain: live.refresh }),
    !rows && !live.problem && h(Loading),
    rows?.length === 0 && h("p", { className: "rg-empty" }, cursors.length > 1 ? "Nothing on this page." : panel.empty),
    rows?.length > 0 && h(Table, { panel, rows, actions, ofOneRun }),
    h(Pages, {
      page: cursors.length,
      next: live.answer?.next,
      onNext: () => turn([...cursors, live.answer.next]),
      onBack: () => turn(cursors.slice(0, -1)),
    }),
  );
}

function Order({ orders, order, onChoose }) {
  return h(
    "label",
    { className: "rg-order" },
    h("span", { className: "rg-hidden" }, "Order"),
    h(
      "select",
      { value: order, onChange: (event) => onChoose(event.target.value) },
      Object.entries(orders).map(([value, said]) => h("option", { key: value, value }, said)),
    ),
  );
}

/** The roles are the elements' own; they are said because cards, on a narrow page, would take them away. */
function Table({ panel, rows, actions, ofOneRun }) {
  const columns = panel.columns.filter(
    ({ optional, whose }) => (!optional || rows.some(optional)) && !(whose && ofOneRun),
  );
  return h(
    "div",
    { className: "rg-scroll", tabIndex: 0, role: "region", "aria-label": `${panel.title}, table` },
    h(
      "table",
      { role: "table" },
      h("caption", { className: "rg-hidden" }, panel.says),
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          columns.map(({ head, number }) => h(Head, { key: head, className: number && "rg-right" }, head)),
          actions && h(Head, { className: "rg-actions" }, h("span", { className: "rg-hidden" }, "Actions")),
        ),
      ),
      h(
        "tbody",
        { role: "rowgroup" },
        rows.map((row) =>
          h(
            "tr",
            { key: row.id, role: "row", "data-id": row.id },
            columns.map(({ head, cell, number }) =>
              h(
                "td",
                { key: head, role: "cell", "data-head": head, className: number ? "rg-right" : undefined },
                h("div", { className: "rg-cell" }, cell(row)),
              ),
            ),
            actions && h("td", { role: "cell", className: "rg-actions" }, actions(row)),
          ),
        ),
      ),
    ),
  );
}

function Head({ className, children }) {
  return h("th", { scope: "col", role: "columnheader", className: className || undefined }, children);
}

function Pages({ page, next, onNext, onBack }) {
  if (page === 1 && !next) return null;
  return h(
    "nav",
    { className: "rg-pages", "aria-label": "Pages" },
    h("button", { type: "button", onClick: onBack, disabled: page === 1 }, "Previous"),
    h("span", { className: "rg-number" }, `Page ${page}`),
    h("button", { type: "button", onClick: onNext, disabled: !next }, "Next"),
  );
}

function Loading() {
  return h(
    "div",
    { className: "rg-loading", role: "status" },
    h("span", { className: "rg-hidden" }, "Loading"),
    [0, 1, 2].map((line) => h("span", { key: line, "aria-hidden": true })),
  );
}

const HEADS = {
  401: "You are not logged in any more",
  403: "You may not see this",
  503: "The guard database cannot be read",
};

export function Trouble({ problem, stale, onAgain }) {
  return h(
    "div",
    { className: "rg-trouble", role: "alert" },
    h("strong", null, HEADS[problem.status] ?? problem.title ?? "Something went wrong"),
    problem.status !== 401 &&
      h(Fragment, null, h("span", null, problem.message), problem.code && h("code", null, problem.code)),
    stale && h("span", { className: "rg-quiet" }, "What is below was seen before."),
    problem.status === 401
      ? h("a", { className: "rg-button", href: loginAddress() }, "Log in again")
      : onAgain && h("button", { type: "button", onClick: onAgain }, "Try again"),
  );
}
