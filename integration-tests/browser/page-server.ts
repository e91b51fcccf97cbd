import { pino } from 'pino';
import { NO_TENSORBOARD } from '../../web/job-site.fixture.ts';
import { JobSite } from '../../web/job-site.ts';
import { WebServer } from '../../web/server/server.ts';
import { type Scene, sceneView } from './page-views.ts';

export interface PageServer {
  readonly url: string;
  close(): void;
}

/** Serves the pages of `scene` on loopback, as the ApplicationMaster does. Tests may change the scene while the page is open. */
export async function servePage(scene: Scene): Promise<PageServer> {
  const log = pino({ level: 'silent' });
  const site = new JobSite({ view: sceneView(scene), tensorboard: NO_TENSORBOARD, access: { kind: 'authorised' }, log });
  const web = await WebServer.open({ address: '127.0.0.1', site, log });
  return { url: `http://127.0.0.1:${web.port}/tony/`, close: () => web.close() };
}
