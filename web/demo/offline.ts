/** Registers the service worker, which keeps the files of the page for use without a network. */
import { createStore } from './store.ts';

/** Whether the page opens without a network. */
export type OfflineState = 'unavailable' | 'saving' | 'ready';
export const offline = createStore<OfflineState>('unavailable');

/** Beside the page in the build (web/service-worker-plugin.ts). */
const script = './service-worker.js';

/**
 * Registers the service worker beside the page. Its scope is the folder of the page, under any path of a server.
 * Development servers have none, and browsers offer none to pages that are not secure contexts.
 */
export async function saveForOffline(): Promise<void> {
  const { serviceWorker } = navigator as Partial<Navigator>;
  if (!import.meta.env.HAS_SERVICE_WORKER || serviceWorker === undefined) return;
  try {
    const registration = await serviceWorker.register(script, { scope: './' });
    if (registration.active === null) offline.set('saving');
    const installing = registration.installing ?? registration.waiting;
    if (registration.active ?? (installing && (await isActivated(installing)))) offline.set('ready');
    else offline.set('unavailable');
  } catch {
    // Storage is blocked or full, or the server has another version of the page: it works with the network only.
    offline.set('unavailable');
  }
}

const isActivated = (worker: ServiceWorker): Promise<boolean> =>
  new Promise((resolve) => {
    const check = () => {
      if (worker.state === 'activated' || worker.state === 'redundant') resolve(worker.state === 'activated');
    };
    worker.addEventListener('statechange', check);
    check();
  });
