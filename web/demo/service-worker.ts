/**
 * Service worker of the demo: keeps all files of one version of the page, and answers the page and its workers from them.
 * All or none of a version's files are stored, each checked by its digest. A new version is stored beside the old one,
 * and replaces it when no page of the old one is open; the old files are deleted then.
 */

/** The members of a service worker's global scope that are used here. */
interface Scope {
  readonly registration: {
    readonly scope: string;
    readonly waiting: { postMessage(message: unknown, transfer: Transferable[]): void } | null;
  };
  readonly clients: { matchAll(): Promise<readonly unknown[]> };
  skipWaiting(): Promise<void>;
  addEventListener(type: 'install' | 'activate', listener: (event: ExtendableEvent) => void): void;
  addEventListener(type: 'message', listener: (event: MessageEvent) => void): void;
  addEventListener(type: 'fetch', listener: (event: FetchEvent) => void): void;
}
interface ExtendableEvent {
  waitUntil(promise: Promise<unknown>): void;
}
interface FetchEvent extends ExtendableEvent {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}
const scope = globalThis as unknown as Scope;

/** Written by the build: version, and digests of all files by path, relative to this script; `./` is the page. */
declare const precache: {
  readonly version: string;
  readonly files: Readonly<Record<string, string>>;
};

const absolute = (path: string): string => new URL(path, globalThis.location.href).href;
/** Other copies of the demo on this origin have other scopes. */
const prefix = `lathe-demo ${scope.registration.scope} `;
const cacheName = `${prefix}${precache.version}`;
const urls = new Set(Object.keys(precache.files).map(absolute));
const replace = 'replace';

async function store(): Promise<void> {
  const cache = await caches.open(cacheName);
  try {
    await Promise.all(
      Object.entries(precache.files).map(async ([path, integrity]) => {
        const url = absolute(path);
        await cache.put(url, await fetchChecked(url, integrity));
      }),
    );
  } catch (error) {
    await caches.delete(cacheName);
    throw error;
  }
}

/** Fetches a file of this version. The browser's HTTP cache may have one of another version. */
async function fetchChecked(url: string, integrity: string): Promise<Response> {
  const response = await fetch(url, { integrity }).catch(() => fetch(url, { integrity, cache: 'reload' }));
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`);
  // A redirected response cannot answer a navigation.
  return response.redirected ? new Response(response.body, { headers: response.headers }) : response;
}

async function deleteOtherVersions(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(
    names.filter((name) => name.startsWith(prefix) && name !== cacheName).map((name) => caches.delete(name)),
  );
}

async function answer(request: Request, url: string): Promise<Response> {
  if (request.mode === 'navigate' && (await isReplaced()))
    return new Response('', { headers: { 'content-type': 'text/html', refresh: '0' } });
  const cache = await caches.open(cacheName);
  return (await cache.match(url)) ?? (await fetch(request));
}

/**
 * Whether a new version takes over: it is stored, and no other page of this version is open. The page is then requested
 * again, from the new version.
 */
async function isReplaced(): Promise<boolean> {
  const { waiting } = scope.registration;
  if (waiting === null || (await scope.clients.matchAll()).length > 1) return false;
  waiting.postMessage(replace, []);
  return true;
}

scope.addEventListener('install', (event) => event.waitUntil(store()));
scope.addEventListener('activate', (event) => event.waitUntil(deleteOtherVersions()));
scope.addEventListener('message', ({ data }) => {
  if (data === replace) void scope.skipWaiting();
});
scope.addEventListener('fetch', (event) => {
  const { request } = event;
  // A part of a file has to come from the server.
  if (request.method !== 'GET' || request.headers.has('range')) return;
  const url = new URL(request.url);
  url.hash = '';
  // The search of the page's address has the settings.
  if (request.mode === 'navigate') url.search = '';
  if (urls.has(url.href)) event.respondWith(answer(request, url.href));
});
