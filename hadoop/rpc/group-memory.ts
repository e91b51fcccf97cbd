/** How long a user's groups are cached, in ms. */
const CACHED_MS = 60_000;
/** Maximum number of concurrent lookups. Each lookup needs its own connection. */
const MAX_CONCURRENT = 8;

export class GroupMemory {
  readonly #ask: (user: string) => Promise<readonly string[]>;
  readonly #now: () => number;
  readonly #known = new Map<string, { readonly groups: readonly string[]; readonly until: number }>();

  /** @param now returns a monotonic time in ms */
  constructor(ask: (user: string) => Promise<readonly string[]>, now: () => number = () => performance.now()) {
    this.#ask = ask;
    this.#now = now;
  }

  /** Returns each user's groups. If a lookup fails, rejects without starting any more lookups. */
  async of(users: Iterable<string>): Promise<ReadonlyMap<string, readonly string[]>> {
    for (const [user, { until }] of this.#known) {
      if (until <= this.#now()) {
        this.#known.delete(user);
      }
    }
    const groups = new Map<string, readonly string[]>();
    const unknown: string[] = [];
    for (const user of new Set(users)) {
      const known = this.#known.get(user);
      if (known === undefined) {
        unknown.push(user);
      } else {
        groups.set(user, known.groups);
      }
    }
    const askOneAfterTheOther = async (): Promise<void> => {
      for (let user = unknown.shift(); user !== undefined; user = unknown.shift()) {
        const found = await this.#ask(user);
        this.#known.set(user, { groups: found, until: this.#now() + CACHED_MS });
        groups.set(user, found);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT, unknown.length) }, askOneAfterTheOther));
    } finally {
      unknown.length = 0;
    }
    return groups;
  }
}
