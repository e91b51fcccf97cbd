/** An address on which no process listens. The operating system never assigns port 1 to a process that asks for a free port. */
export const CLOSED_ADDRESS = { host: '127.0.0.1', port: 1 };
export const CLOSED_URL = 'http://127.0.0.1:1';
