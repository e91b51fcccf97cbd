/** Encloses an IPv6 address in brackets, as in a URL. Returns IPv4 addresses and host names unchanged. */
export function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Formats an address as `host:port`. */
export function formatAddress({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${bracketed(host)}:${port}`;
}
