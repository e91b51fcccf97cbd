/** The part of the page that the URL fragment names, for example `#tasks` or `#logs/worker:0/stderr`. */
export interface Route {
  readonly section: Section;
  /** The decoded path segments after the section. Their meaning depends on the section. */
  readonly rest: readonly string[];
}

export const SECTIONS = ['overview', 'charts', 'resources', 'tasks', 'timeline', 'logs', 'events', 'configuration'] as const;

export type Section = (typeof SECTIONS)[number];

/** Parses a URL fragment. Returns null if the section is unknown. */
export function parseRoute(hash: string): Route | null {
  const [first = '', ...rest] = hash.replace(/^#/, '').split('/');
  const section = SECTIONS.find((each) => each === first);
  if (section === undefined) {
    return null;
  }
  return { section, rest: rest.filter((part) => part !== '').map(decoded) };
}

export function formatRoute(section: Section, ...rest: readonly string[]): string {
  // A colon does not need to be escaped in a fragment, and `worker:0` is easier to read than `worker%3A0`.
  return `#${[section, ...rest.map((part) => encodeURIComponent(part).replaceAll('%3A', ':'))].join('/')}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
