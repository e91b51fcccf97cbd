/* Requests to the rendezvous store for Horovod processes. The executor forwards them. */
export const RENDEZVOUS_PUT = 'rendezvous.put';
export const RENDEZVOUS_GET = 'rendezvous.get';
export const RENDEZVOUS_REMOVE = 'rendezvous.remove';
/** Maximum key length. */
export const LARGEST_RENDEZVOUS_KEY = 512;
/** Maximum value size in bytes. A value of this size still fits into a request after it has been encoded. */
export const LARGEST_RENDEZVOUS_VALUE = 512 * 1024;
