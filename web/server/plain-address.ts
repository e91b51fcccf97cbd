/** Converts an IPv4-mapped IPv6 address to its IPv4 form. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}
