import { useEffect, useState } from 'preact/hooks';
import { serverNow } from './api.ts';
import { parseRoute, type Route } from './route.ts';

/** Returns the server's time in ms since the epoch. Rerenders the component every `everyMs` ms; null disables rerendering. */
export function useNow(everyMs: number | null): number {
  const [, setTurn] = useState(0);
  useEffect(() => {
    if (everyMs === null) {
      return;
    }
    const timer = setInterval(() => document.hidden || setTurn((turn) => turn + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return serverNow();
}

/** Returns the section that the URL fragment names. An unknown fragment leaves the current section selected. */
export function useRoute(first: Route): Route {
  const [route, setRoute] = useState<Route>(() => parseRoute(location.hash) ?? first);
  useEffect(() => {
    const onChange = () => setRoute((before) => parseRoute(location.hash) ?? (location.hash === '' ? first : before));
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, [first]);
  return route;
}

export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const onChange = () => setHolds(list.matches);
    onChange();
    list.addEventListener('change', onChange);
    return () => list.removeEventListener('change', onChange);
  }, [query]);
  return holds;
}

/** Returns a user preference that the browser stores, and its setter. */
export function usePreference<T extends string | number | boolean>(name: string, otherwise: T): [T, (value: T) => void] {
  const key = `tony-ts.${name}`;
  const [value, setValue] = useState<T>(() => {
    try {
      const kept: unknown = JSON.parse(localStorage.getItem(key) ?? 'null');
      return typeof kept === typeof otherwise ? (kept as T) : otherwise;
    } catch {
      return otherwise;
    }
  });
  const set = (next: T) => {
    setValue(next);
    try {
      localStorage.setItem(key, JSON.stringify(next));
    } catch {
      // If the browser does not permit storage, the preference lasts until the page is closed.
    }
  };
  return [value, set];
}
