/**
 * Runs before all other scripts on TensorBoard's pages. Gateways such as YARN's proxy reject POST and some queries. This script therefore
 * redirects such fetch and XMLHttpRequest requests to `tony/tunnel` (see web/proxy/tunnel.ts for the protocol). The page's own scripts need no
 * change. A probe determines whether the gateway forwards PUT; if not, the script uses GET.
 */
import './tunnel/fetch.ts';
import './tunnel/request.ts';
import { addLink } from './tunnel/job-link.ts';
import { script } from './tunnel/site.ts';
import { transport } from './tunnel/transport.ts';

if ('job' in script.dataset && window === window.top) {
  document.addEventListener('DOMContentLoaded', addLink);
}
void transport();
