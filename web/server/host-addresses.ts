import { lookup } from 'node:dns/promises';
import { plainAddress } from './plain-address.ts';

/** How long resolved addresses are cached, in ms. */
const LOOKUP_LIFE_MS = 60_000;

/** The addresses of hosts, such as proxies. Cached addresses are refreshed in the background, so only the first caller waits for DNS. */
export class HostAddresses {
  readonly #hosts: readonly string[];
  #known: { readonly addresses: ReadonlySet<string>; readonly at: number } | null = null;
  #lookup: Promise<ReadonlySet<string>> | null = null;

  constructor(hosts: readonly string[]) {
    this.#hosts = hosts;
  }

  async include(address: string): Promise<boolean> {
    return (await this.#current()).has(plainAddress(address));
  }

  /** Returns whether the address may belong to one of the hosts. Returns true until the hosts are resolved. */
  mayInclude(address: string): boolean {
    const known = this.#known;
    void this.#current();
    return known === null || known.addresses.has(plainAddress(address));
  }

  async #current(): Promise<ReadonlySet<string>> {
    const known = this.#known;
    if (known !== null && performance.now() - known.at < LOOKUP_LIFE_MS) {
      return known.addresses;
    }
    this.#lookup ??= lookUp(this.#hosts).then((addresses) => {
      // A temporary resolver failure must not lock out all users.
      this.#known = { addresses: addresses.size === 0 && known !== null ? known.addresses : addresses, at: performance.now() };
      this.#lookup = null;
      return this.#known.addresses;
    });
    return known === null ? this.#lookup : known.addresses;
  }
}

async function lookUp(hosts: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await Promise.allSettled(hosts.map((host) => lookup(host, { all: true })));
  return new Set(
    found.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value.map(({ address }) => plainAddress(address)) : [])),
  );
}
