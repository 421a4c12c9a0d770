// What the page shows: where each panel's rows come from, and what stands in their columns.

import { Behind, Held, HeldFor, Holder, Inside, Key, Progress, RunName, Status, Token, Verdict } from "./cells.js";
import { Fragment, h } from "./host.js";
import { length, Moment } from "./words.js";

const KEY = { head: "Key", cell: (row) => h(Key, { row }) };
const RUN = { head: "Run", cell: (row) => h(RunName, { run: row }), whose: true };

const ACTIVE = [
  KEY,
  { head: "Holder", cell: (row) => h(Holder, { row }), whose: true },
  { head: "Verdict", cell: (row) => h(Verdict, { row }) },
  { head: "Held for", cell: (row) => h(Held, { row }) },
  { head: "Inside", cell: (row) => h(Fragment, null, h(Inside, { row }), h(Progress, { progress: row.progress })) },
  { head: "Token", cell: (row) => h(Token, { row }), number: true },
];

export const PANELS = [
  {
    name: "active",
    title: "Active",
    says: "Who holds which key now, and what the next start would make of it.",
    path: "runs/active",
    count: (summary) => summary.active,
    empty: "No key is held.",
    orders: { key: "By key", since: "Longest held first" },
    columns: ACTIVE,
  },
  {
    name: "waiting",
    title: "Waiting",
    says: "Who waits for a key, in the order in which they are served.",
    path: "waiters",
    count: (summary) => summary.waiting,
    empty: "Nobody waits.",
    columns: [
      KEY,
      {
        head: "Place",
        cell: (row) => (row.position === null ? h("span", { className: "rg-quiet" }, "not in line") : row.position),
        number: true,
      },
      RUN,
      { head: "Policy", cell: (row) => row.policy },
      { head: "Waits for", cell: (row) => length(row.waiting_seconds) },
      { head: "Asked at", cell: (row) => h(Moment, { at: row.asked_at }) },
      { head: "Behind", cell: (row) => h(Behind, { other: row.behind, nobody: "nobody: its turn has come" }) },
    ],
  },
  {
    name: "refused",
    title: "Refused, 24 h",
    says: "Who was refused in the last day, and by whom.",
    path: "refusals",
    count: (summary) => summary.refused,
    empty: "Nobody was refused in the last day.",
    columns: [
      { head: "At", cell: (row) => h(Moment, { at: row.at }) },
      KEY,
      RUN,
      { head: "Refused by", cell: (row) => h(Behind, { other: row.blocker, nobody: "one that waited" }) },
      { head: "Reason", cell: (row) => row.reason, optional: (row) => row.reason },
    ],
  },
  {
    name: "long",
    title: "Held unusually long",
    says: "Keys held longer than is usual here. One whose DagRun can never end stays here until it is freed.",
    path: "runs/active",
    params: (summary) => ({ order: "since", held_longer_than: summary?.unusually_long_after ?? 86_400 }),
    count: (summary) => summary.held_unusually_long,
    empty: "No key is held unusually long.",
    alarming: true,
    columns: ACTIVE,
  },
  {
    name: "ended",
    title: "History",
    says: "Runs that have given their key back, or lost it.",
    path: "runs/ended",
    empty: "No run has ended yet.",
    columns: [
      { head: "Ended", cell: (row) => h(Moment, { at: row.ended_at }) },
      KEY,
      RUN,
      { head: "Status", cell: (row) => h(Status, { row }) },
      { head: "How", cell: (row) => row.cause },
      { head: "Reason", cell: (row) => row.reason, optional: (row) => row.reason },
      { head: "Held for", cell: (row) => h(HeldFor, { row }) },
      { head: "Token", cell: (row) => h(Token, { row }), number: true },
    ],
  },
];
