import { lookup } from 'node:dns/promises';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

/** Returns the name of the network interface that has this host's address, or null if there is none. */
export async function interfaceOfHost(host: string): Promise<string | null> {
  const addresses = await lookup(host, { all: true }).catch(() => []);
  return interfaceWith(
    addresses.map(({ address }) => address),
    networkInterfaces(),
  );
}

export function interfaceWith(
  addresses: readonly string[],
  interfaces: Readonly<Record<string, readonly Pick<NetworkInterfaceInfo, 'address'>[] | undefined>>,
): string | null {
  const found = Object.entries(interfaces).find(([, own]) => own?.some(({ address }) => addresses.includes(address)));
  return found?.[0] ?? null;
}
