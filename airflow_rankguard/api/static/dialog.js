// A dialog of the page's own: the browser keeps the focus inside, and gives it back.

import { h, useEffect, useId, useRef } from "./host.js";

/**
 * The focus begins at what is marked `data-first`.
 *
 * @param gone what opened it goes away, too: the focus comes to the page's heading instead.
 * @param busy a change is on its way: it cannot be called off, so the dialog stays.
 */
export function Dialog({ title, gone = false, busy = false, onClose, children }) {
  const dialog = useRef(null);
  const heading = useId();
  const goes = useRef(gone);
  goes.current = gone;
  useEffect(() => {
    const { current } = dialog;
    const before = document.activeElement;
    current.showModal();
    current.querySelector("[data-first]")?.focus();
    return () => {
      current.close();
      if (before?.isConnected && !goes.current) before.focus();
      else document.querySelector(".rg :is(h1, h2)[tabindex]")?.focus();
    };
  }, []);
  return h(
    "dialog",
    {
      ref: dialog,
      className: "rg-dialog",
      "aria-labelledby": heading,
      onCancel: (event) => {
        event.preventDefault();
        if (!busy) onClose();
      },
    },
    h(
      "header",
      null,
      h("h2", { id: heading }, title),
      h(
        "button",
        { type: "button", className: "rg-ghost", "aria-label": "Close", disabled: busy, onClick: onClose },
        "✕",
      ),
    ),
    children,
  );
}
