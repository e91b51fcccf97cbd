/** An admin who puts somebody into a group is not in such a hurry (ms). */
const KEPT_MS = 60_000;
/** Each question is a connection of its own. */
const AT_ONCE = 8;

/** Groups of many users, asked for a few at a time, and again only after a while. */
export class GroupMemory {
  readonly #ask: (user: string) => Promise<readonly string[]>;
  readonly #now: () => number;
  readonly #known = new Map<string, { readonly groups: readonly string[]; readonly until: number }>();

  /** @param now ms of a clock that never goes back. */
  constructor(ask: (user: string) => Promise<readonly string[]>, now: () => number = () => performance.now()) {
    this.#ask = ask;
    this.#now = now;
  }

  /** Of each of the users; fails as soon as one question does, and asks no more then. */
  async of(users: Iterable<string>): Promise<ReadonlyMap<string, readonly string[]>> {
    for (const [user, { until }] of this.#known) if (until <= this.#now()) this.#known.delete(user);
    const groups = new Map<string, readonly string[]>();
    const unknown: string[] = [];
    for (const user of new Set(users)) {
      const known = this.#known.get(user);
      if (known === undefined) unknown.push(user);
      else groups.set(user, known.groups);
    }
    const askOneAfterTheOther = async (): Promise<void> => {
      for (let user = unknown.shift(); user !== undefined; user = unknown.shift()) {
        const found = await this.#ask(user);
        this.#known.set(user, { groups: found, until: this.#now() + KEPT_MS });
        groups.set(user, found);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, unknown.length) }, askOneAfterTheOther));
    } finally {
      unknown.length = 0;
    }
    return groups;
  }
}
