/** An address without a listener. Unlike a port that was free a moment ago, port 1 is never assigned by the operating system. */
export const NOBODY = { host: '127.0.0.1', port: 1 };
export const NOBODYS_URL = 'http://127.0.0.1:1';
