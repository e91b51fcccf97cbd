/*
 * A line of /proc/net/tcp describes a socket; see proc_net_tcp(5):
 *
 *   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ...
 *    0: 0100007F:A2B8 0100007F:22B8 01 00000000:00000000 00:00000000 00000000  1000        0 81730 ...
 *
 * An address is a 32-bit word in hexadecimal, in the byte order of the machine. A port is in hexadecimal as well.
 */

const LOOPBACK = hex(new Uint32Array(Uint8Array.of(127, 0, 0, 1).buffer)[0] as number, 8);

/**
 * Returns the user ID of the process that has a connection from `clientPort` to `serverPort` on 127.0.0.1, or null if there is no such
 * connection.
 * @param text contents of /proc/net/tcp
 */
export function loopbackOwner(text: string, clientPort: number, serverPort: number): number | null {
  const addresses = ` ${LOOPBACK}:${hex(clientPort, 4)} ${LOOPBACK}:${hex(serverPort, 4)} `;
  const at = text.indexOf(addresses);
  const user = at < 0 ? undefined : text.slice(at + addresses.length).split(/\s+/, 5)[4];
  return user === undefined ? null : Number(user);
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}
