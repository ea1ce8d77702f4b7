// oxlint-disable-next-line import/default -- Vite makes the module
import workerUrl from './worker.ts?worker&url';

export interface WorkerStart {
  /**
   * Whether the service worker of the page answers the requests of the worker, too, wherever the file of the worker is.
   * The Content-Security-Policy has to allow `blob:` in `worker-src`.
   */
  readonly hasServiceWorkerOfPage?: boolean;
}

/**
 * Starts the worker of the engine, whose file is beside this module. Bundlers copy that file as it is: it imports nothing.
 * Browsers start workers only from the page's origin. For a module from elsewhere (a CDN), which must send
 * `Access-Control-Allow-Origin`, the worker is a script of the page that imports that file.
 */
export function startWorker({ hasServiceWorkerOfPage = false }: WorkerStart): Worker {
  // Absolute in a build. (webpack does not support a variable beside `import.meta.url`.)
  const url = new URL(workerUrl, globalThis.location.href);
  const options = { type: 'module', name: 'lathe' } as const;
  if (url.origin === globalThis.location.origin && !hasServiceWorkerOfPage) return new Worker(url, options);
  const script = new Blob([`import ${JSON.stringify(url.href)};`], { type: 'text/javascript' });
  const scriptUrl = URL.createObjectURL(script);
  const worker = new Worker(scriptUrl, options);
  const revoke = () => URL.revokeObjectURL(scriptUrl);
  // The first message or error means that the script was read.
  worker.addEventListener('message', revoke, { once: true });
  worker.addEventListener('error', revoke, { once: true });
  return worker;
}
