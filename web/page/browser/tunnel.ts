/**
 * Runs before all other scripts of TensorBoard's pages. Gateways such as YARN's proxy refuse POST and some queries: this script sends such
 * requests of fetch and XMLHttpRequest to `tony/tunnel`, as web/tunnel.ts describes, transparently for the page. A probe finds out whether
 * the gateway passes PUT; otherwise the script uses GET.
 */
import './tunnel/fetch.ts';
import './tunnel/request.ts';
import { addLink } from './tunnel/job-link.ts';
import { script } from './tunnel/site.ts';
import { transport } from './tunnel/transport.ts';

if ('job' in script.dataset && window === window.top) {
  document.addEventListener('DOMContentLoaded', addLink);
}
// Starts the probe while the page loads.
void transport();
