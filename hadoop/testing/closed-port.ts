/** An address on which no process listens. The operating system never assigns port 1, so no other process can take the port. */
export const CLOSED_ADDRESS = { host: '127.0.0.1', port: 1 };
export const CLOSED_URL = 'http://127.0.0.1:1';
