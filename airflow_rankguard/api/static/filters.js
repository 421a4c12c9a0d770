// What is shown of all: keys by their parts, and DAGs, each an exact match.

import { h, useEffect, useId, useState } from "./host.js";

export const FILTERS = { resource: "Resource", kind: "Kind", tenant: "Tenant", dag_id: "DAG" };

export function Filters({ filters, onChange }) {
  const [typed, setTyped] = useState(filters);
  useEffect(() => setTyped(filters), [JSON.stringify(filters)]);
  const chosen = Object.values(filters).some((value) => value !== undefined);
  const apply = (event) => {
    event.preventDefault();
    const changes = Object.keys(FILTERS).map((name) => [name, typed[name]?.trim() || undefined]);
    onChange(Object.fromEntries(changes));
  };
  return h(
    "form",
    { className: "rg-filters", role: "search", "aria-label": "Filters", onSubmit: apply },
    Object.entries(FILTERS).map(([name, label]) =>
      h(Field, {
        key: name,
        label,
        value: typed[name] ?? "",
        onType: (value) => setTyped({ ...typed, [name]: value }),
      }),
    ),
    h("button", { type: "submit" }, "Filter"),
    chosen &&
      h(
        "button",
        {
          type: "button",
          className: "rg-ghost",
          onClick: () => onChange(Object.fromEntries(Object.keys(FILTERS).map((name) => [name, undefined]))),
        },
        "Clear",
      ),
  );
}

function Field({ label, value, onType }) {
  const id = useId();
  return h(
    "div",
    { className: "rg-field" },
    h("label", { htmlFor: id }, label),
    h("input", {
      id,
      type: "text",
      value,
      autoComplete: "off",
      spellCheck: false,
      maxLength: 255,
      placeholder: "any",
      onChange: (event) => onType(event.target.value),
    }),
  );
}
