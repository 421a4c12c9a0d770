// What the page takes from Airflow's UI, its host: React, the router, its address and its time zone.

const { React, ReactRouterDOM } = globalThis;

export const h = React.createElement;
export const { Fragment, useCallback, useEffect, useId, useRef, useState } = React;

// This module is <Airflow>/rankguard/static/host.js, under whatever prefix Airflow is served.
export const AIRFLOW = new URL("../../", import.meta.url);
export const API = new URL("../", import.meta.url);

export function Link({ to, ...props }) {
  return ReactRouterDOM
    ? h(ReactRouterDOM.Link, { to: `/${to}`, ...props })
    : h("a", { href: new URL(to, AIRFLOW).href, ...props });
}

/** Where a login sends somebody back to. */
export function loginAddress() {
  const address = new URL("api/v2/auth/login", AIRFLOW);
  address.searchParams.set("next", globalThis.location.href);
  return address.href;
}

/**
 * The page's own part of the address, so that a link shows what its sender saw.
 * Other parts of it are the host's, and stay.
 */
export function useAddress(names) {
  const [params, setParams] = ReactRouterDOM.useSearchParams();
  const read = Object.fromEntries(names.map((name) => [name, params.get(name) ?? undefined]));
  const write = (changes) =>
    setParams(
      (before) => {
        const after = new URLSearchParams(before);
        for (const [name, value] of Object.entries(changes)) {
          if (value === undefined) after.delete(name);
          else after.set(name, value);
        }
        return after;
      },
      { replace: true },
    );
  return [read, write];
}

/** The time zone that is chosen in Airflow's UI; UTC, as there, where none is. */
function timeZone() {
  try {
    const chosen = JSON.parse(localStorage.getItem("timezone")) ?? "UTC";
    new Intl.DateTimeFormat("en", { timeZone: chosen });
    return chosen;
  } catch {
    return "UTC";
  }
}

export function timeFormat(options) {
  return new Intl.DateTimeFormat("en-GB", { timeZone: timeZone(), ...options });
}

/** Load the page's looks before it is first drawn. */
export function loadLooks() {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL("run-guards.css", import.meta.url).href;
  const loaded = new Promise((done) => {
    link.onload = done;
    link.onerror = done;
  });
  document.head.append(link);
  return loaded;
}
