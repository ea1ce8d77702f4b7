import { listFiles } from '@huggingface/hub';
import { type AttemptOptions, Attempts } from '../platform/attempts.ts';
import { asInterruption } from '../platform/interruption.ts';
import { formatBytes } from '../engine/index.ts';
import { readChunks } from '../platform/body-chunks.ts';
import type { RemoteFile } from './choose.ts';
import { PullError } from './errors.ts';
import type { Reference } from './reference.ts';

/** A repository on the Hugging Face Hub or on a server with the same API. */
export interface HubRepository {
  readonly endpoint: string;
  readonly repo: string;
  readonly revision: string;
  readonly token: string | undefined;
  readonly signal: AbortSignal;
  readonly requestOptions: Pick<AttemptOptions, 'idleMs' | 'noticeMs' | 'onNotice'>;
}

/** URL and token of a hub. */
export interface HubAccess {
  /** HF_TOKEN. */
  readonly token?: string | undefined;
  /** HF_ENDPOINT; default https://huggingface.co. */
  readonly endpoint?: string | undefined;
}

/** Timeouts and notices of requests to the hub's API. */
export interface HubRequestOptions extends Partial<Pick<AttemptOptions, 'idleMs' | 'noticeMs' | 'onNotice'>> {
  readonly signal?: AbortSignal | undefined;
}

export const createHub = (
  access: HubAccess,
  { repo, revision = 'main' }: Reference,
  { signal = new AbortController().signal, idleMs = 30_000, ...notices }: HubRequestOptions = {},
): HubRepository => ({
  endpoint: (access.endpoint || 'https://huggingface.co').replace(/\/+$/, ''),
  token: access.token || undefined,
  repo,
  revision,
  signal,
  requestOptions: { ...notices, idleMs },
});

/** Headers of a request to the hub. `fetch` drops the token on a redirect to another host. */
export const hubHeaders = ({ token }: HubRepository): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` };

/** URL of a file's content. It supports range requests; large files are redirected to the storage. */
export const fileUrl = ({ endpoint, repo, revision }: HubRepository, path: string): string =>
  `${endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${path.split('/').map(encodeURIComponent).join('/')}`;

const commitPattern = /^[0-9a-f]{40}$/;

/**
 * Resolves a branch or tag to its current commit, so that all files are of one version. Returns the hub unchanged if
 * the server does not report the commit or refuses the request; listing the files then reports the error.
 */
export const resolveRevision = async (hub: HubRepository): Promise<HubRepository> => {
  const { endpoint, repo, revision, signal } = hub;
  if (commitPattern.test(revision)) return hub;
  try {
    const url = `${endpoint}/api/models/${repo}/revision/${encodeURIComponent(revision)}?expand[]=sha`;
    const { value } = await fetchJson(hub, url);
    const sha = value instanceof Object && 'sha' in value ? value.sha : undefined;
    return typeof sha === 'string' && commitPattern.test(sha) ? { ...hub, revision: sha } : hub;
  } catch {
    signal.throwIfAborted();
    return hub;
  }
};

/** Limit of a response of the hub's API. A list of 1,000 files takes about 300 KB. */
const maxAnswerBytes = 64 << 20;
/** Limit of pages of a file list. It allows more files than a repository may have. */
const maxPages = 200;

/**
 * Sends a GET request to the hub's API and reads the JSON response.
 * @throws PullError
 */
const fetchJson = async (hub: HubRepository, url: string): Promise<{ value: unknown; headers: Headers }> => {
  const { endpoint, signal, requestOptions } = hub;
  const attempts = new Attempts(() => endpoint, { ...requestOptions, attempts: 1, retryDelayMs: 0 });
  const limit = attempts.startAttempt();
  const chunks: Uint8Array[] = [];
  let response: Response;
  try {
    // The link to the next page may name another server, which must not get the token.
    const own = new URL(url).origin === new URL(endpoint).origin;
    response = await fetch(url, {
      headers: { accept: 'application/json', ...(own ? hubHeaders(hub) : {}) },
      signal: AbortSignal.any([signal, limit.signal]),
    });
    if (!response.ok) throw explainStatus(hub, response.status);
    let bytes = 0;
    for await (const chunk of readChunks(response.body)) {
      limit.reset();
      bytes += chunk.length;
      if (bytes > maxAnswerBytes) throw notJsonError(url, `it is longer than ${formatBytes(maxAnswerBytes)}`);
      chunks.push(chunk);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof PullError) throw error;
    throw new PullError('server', `cannot reach ${endpoint}: ${asInterruption(error).message}`);
  } finally {
    limit.abort();
  }
  const text = new TextDecoder().decode(Buffer.concat(chunks));
  try {
    return { value: JSON.parse(text), headers: response.headers };
  } catch (error) {
    const isPage = /^\s*</.test(text);
    throw notJsonError(url, isPage ? 'it is HTML or XML' : (error as Error).message);
  }
};

const notJsonError = (url: string, why: string): PullError =>
  new PullError(
    'server',
    `the response to GET ${url} is not JSON from a hub: ${why}; check HF_ENDPOINT, and that no login page or proxy intercepts the request`,
  );

const isSize = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

/** @throws PullError `unauthorized`, `not_found` or `server` */
export const listRepository = async (hub: HubRepository): Promise<RemoteFile[]> => {
  const files: RemoteFile[] = [];
  const requestedUrls = new Set<string>();
  const isList = (value: unknown) => Array.isArray(value) && value.every((entry) => entry instanceof Object);
  const entries = listFiles({
    repo: { type: 'model', name: hub.repo },
    revision: hub.revision,
    recursive: true,
    hubUrl: hub.endpoint,
    // Not the library's `accessToken` option: it refuses tokens of other servers and does not support an AbortSignal.
    fetch: async (input) => {
      const { url } = new Request(input);
      if (requestedUrls.has(url) || requestedUrls.size >= maxPages)
        throw endlessListError(hub, requestedUrls.size);
      requestedUrls.add(url);
      const { value, headers } = await fetchJson(hub, url);
      if (!isList(value)) throw invalidListError(hub);
      const link = headers.get('link');
      return Response.json(value, link === null ? {} : { headers: { link } });
    },
  });
  for await (const { type, path, size, lfs, oid } of entries) {
    if (type !== 'file') continue;
    const { oid: hash, size: bytes } = lfs ?? { oid: oid ?? '', size };
    if (typeof path !== 'string' || typeof hash !== 'string' || !isSize(bytes)) throw invalidListError(hub);
    if (lfs) files.push({ path, sizeBytes: lfs.size, checksum: { kind: 'sha256', hex: lfs.oid } });
    else if (oid !== undefined)
      files.push({ path, sizeBytes: size, checksum: { kind: 'git-sha1', hex: oid } });
  }
  return files;
};

const invalidListError = ({ endpoint, repo }: HubRepository): PullError =>
  new PullError('server', `${endpoint}: the file list of ${repo} is not valid; check HF_ENDPOINT`);

const endlessListError = ({ endpoint, repo }: HubRepository, pages: number): PullError =>
  new PullError(
    'server',
    `${endpoint}: the file list of ${repo} does not end: page ${pages + 1} repeats an earlier page, or there are more than ${maxPages} pages ('Link: rel="next"'); check HF_ENDPOINT`,
  );

/** Explains an error status of the hub. */
export const explainStatus = (
  { endpoint, repo, revision, token }: HubRepository,
  status: number,
): PullError => {
  const page = `${endpoint}/${repo}`;
  switch (status) {
    case 401:
      return new PullError(
        'unauthorized',
        token === undefined
          ? `${page}: the repository does not exist or is not public (HTTP 401); check the name, or set HF_TOKEN to a token that can read it`
          : `${page}: the hub does not accept the token in HF_TOKEN (HTTP 401); create a new one`,
      );
    case 403:
      return new PullError(
        'unauthorized',
        `${page}: access refused (HTTP 403); accept the model's terms on its page with the account of HF_TOKEN`,
      );
    case 404:
      return new PullError(
        'not_found',
        `${page}: the repository or its revision '${revision}' does not exist (HTTP 404); check the name`,
      );
    default:
      return new PullError('server', `${page}: the server answered with HTTP ${status}; try again later`);
  }
};
