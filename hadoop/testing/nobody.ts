/** Where nobody listens, nor ever will by chance as at a port that was free a moment ago: no system gives out port 1. */
export const NOBODY = { host: '127.0.0.1', port: 1 };
export const NOBODYS_URL = 'http://127.0.0.1:1';
