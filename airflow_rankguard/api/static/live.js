// Keeps an answer fresh: asks again and again, not while nobody looks, and ever more rarely while it goes wrong.

import { read } from "./asking.js";
import { useCallback, useEffect, useRef, useState } from "./host.js";

const EVERY = 5_000;
const AT_MOST_EVERY = 60_000;
const NO_USE_ASKING_AGAIN = [401, 403, 404, 422];

/** How long to wait before asking again, after so many failures in a row. */
export function pause(failures, every = EVERY) {
  return Math.min(every * 2 ** failures, AT_MOST_EVERY);
}

/**
 * Ask for `path` with `params`, now and from now on.
 *
 * Gives `answer` (the newest, or undefined before the first), `at` (when it came), `problem` (what went wrong since,
 * or undefined), `refresh`, which asks at once, and `fresh`: whether that came since `refresh` was last called.
 *
 * @param paused ask once, and again only when told.
 * @param every how many milliseconds after an answer.
 */
export function useLive(path, params, paused = false, every = EVERY) {
  const wanted = JSON.stringify([path, params]);
  const [state, setState] = useState({ wanted });
  const [asked, setAsked] = useState(0);
  const failures = useRef(0);
  const refresh = useCallback(() => {
    failures.current = 0;
    setAsked((before) => before + 1);
  }, []);

  useEffect(() => {
    const stop = new AbortController();
    let timer;
    const again = () => {
      clearTimeout(timer);
      if (!paused && !document.hidden && !stop.signal.aborted) timer = setTimeout(look, pause(failures.current, every));
    };
    const look = async () => {
      try {
        const answer = await read(path, params, stop.signal);
        failures.current = 0;
        setState({ wanted, asked, answer, at: Date.now() });
      } catch (problem) {
        if (stop.signal.aborted) return;
        failures.current += 1;
        setState((before) => ({ ...(before.wanted === wanted ? before : {}), wanted, asked, problem }));
        if (NO_USE_ASKING_AGAIN.includes(problem.status)) return;
      }
      again();
    };
    const seen = () => {
      clearTimeout(timer);
      if (!document.hidden && !paused) look();
    };
    look();
    document.addEventListener("visibilitychange", seen);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [wanted, asked, paused, every]);

  const known = state.wanted === wanted ? state : {};
  return { ...known, fresh: known.asked === asked, refresh };
}
