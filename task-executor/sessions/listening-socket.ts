import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/*
 * A line of /proc/net/tcp and /proc/net/tcp6 describes a socket; see proc_net_tcp(5):
 *
 *   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ...
 *    0: 0100007F:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 81730 ...
 *
 * An address consists of 32-bit words in hexadecimal, each in the machine's byte order. State 0A is LISTEN.
 */
export interface ListeningSocket {
  /** Address on which the socket listens, in the format that node:net uses. */
  readonly host: string;
  readonly port: number;
  readonly inode: string;
}

const LISTEN = '0A';
const LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** Parses the contents of /proc/net/tcp or /proc/net/tcp6, and returns the listening sockets. */
export function parseListeningSockets(text: string): ListeningSocket[] {
  return text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state]) => state === LISTEN)
    .map(([, local = '', , , , , , , , inode = '']) => {
      const [address = '', port = ''] = local.split(':');
      return { host: hostOf(address), port: Number.parseInt(port, 16), inode };
    });
}

/** Returns the sockets on which one of the processes listens. */
export function listeningSockets(pids: readonly number[]): ListeningSocket[] {
  const sockets = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => parseListeningSockets(readIfThere(file)));
  const own = new Set(pids.flatMap(socketsOf));
  return sockets.filter(({ inode }) => own.has(inode));
}

/** Returns the inodes of a process's open sockets, or an empty list if the process has exited. */
function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap((descriptor) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${descriptor}`))?.[1] ?? [];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    // The machine does not support IPv6.
    return '';
  }
}

/** Returns the address to connect to. For a socket that listens on all addresses, this is the loopback address. */
function hostOf(hex: string): string {
  const bytes = Buffer.from(hex, 'hex');
  if (LITTLE_ENDIAN) {
    bytes.swap32();
  }
  if (bytes.every((byte) => byte === 0)) {
    return bytes.length === 4 ? '127.0.0.1' : '::1';
  }
  if (bytes.length === 4) {
    return bytes.join('.');
  }
  const words = Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16));
  return words.join(':');
}
