import { listFiles } from '@huggingface/hub';
import { type AttemptOptions, Attempts } from '../platform/attempts.ts';
import { asInterruption } from '../platform/interruption.ts';
import { formatBytes } from '../engine/index.ts';
import { chunksOf } from '../platform/body-chunks.ts';
import type { RemoteFile } from './choose.ts';
import { PullError } from './errors.ts';
import type { Reference } from './reference.ts';

/** A repository on a Hugging Face Hub or on a server that speaks its endpoints. */
export interface Hub {
  readonly endpoint: string;
  readonly repo: string;
  readonly revision: string;
  readonly token: string | undefined;
  readonly signal: AbortSignal;
  readonly ask: Pick<AttemptOptions, 'idleMs' | 'noticeMs' | 'onNotice'>;
}

/** Which hub, and what to show it. */
export interface HubAccess {
  /** HF_TOKEN. */
  readonly token?: string | undefined;
  /** HF_ENDPOINT; default https://huggingface.co. */
  readonly endpoint?: string | undefined;
}

/** How the hub's own answers are waited for. */
export interface HubPatience extends Partial<Pick<AttemptOptions, 'idleMs' | 'noticeMs' | 'onNotice'>> {
  readonly signal?: AbortSignal | undefined;
}

export const hubAt = (
  access: HubAccess,
  { repo, revision = 'main' }: Reference,
  { signal = new AbortController().signal, idleMs = 30_000, ...notices }: HubPatience = {},
): Hub => ({
  endpoint: (access.endpoint || 'https://huggingface.co').replace(/\/+$/, ''),
  token: access.token || undefined,
  repo,
  revision,
  signal,
  ask: { ...notices, idleMs },
});

/** Headers of a request to the hub itself; fetch drops the token when a redirect leaves for another host. */
export const hubHeaders = ({ token }: Hub): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` };

/** Where the content of a file is. Ranges work there; large files are redirected to the storage. */
export const fileUrl = ({ endpoint, repo, revision }: Hub, path: string): string =>
  `${endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${path.split('/').map(encodeURIComponent).join('/')}`;

const commit = /^[0-9a-f]{40}$/;

/**
 * The hub at the commit that a branch or a tag stands for now, so that files which are read one after the other are of
 * one version. As it is where the server does not tell the commit, or refuses: listing the files tells why.
 */
export const pinned = async (hub: Hub): Promise<Hub> => {
  const { endpoint, repo, revision, signal } = hub;
  if (commit.test(revision)) return hub;
  try {
    const url = `${endpoint}/api/models/${repo}/revision/${encodeURIComponent(revision)}?expand[]=sha`;
    const { value } = await askHub(hub, url);
    const sha = value instanceof Object && 'sha' in value ? value.sha : undefined;
    return typeof sha === 'string' && commit.test(sha) ? { ...hub, revision: sha } : hub;
  } catch {
    signal.throwIfAborted();
    return hub;
  }
};

/** The longest answer of a hub's API: a list of 1,000 files takes some 300 KB. */
const maxAnswerBytes = 64 << 20;
/** Pages of a list: more files than a repository may hold. */
const maxPages = 200;

/**
 * A JSON answer of the hub's API, whole.
 * @throws PullError
 */
const askHub = async (hub: Hub, url: string): Promise<{ value: unknown; headers: Headers }> => {
  const { endpoint, signal, ask } = hub;
  const attempts = new Attempts(() => endpoint, { ...ask, attempts: 1, retryDelayMs: 0 });
  const limit = attempts.begin();
  const chunks: Uint8Array[] = [];
  let response: Response;
  try {
    // Another server may be named as the next page; it is not shown the token.
    const own = new URL(url).origin === new URL(endpoint).origin;
    response = await fetch(url, {
      headers: { accept: 'application/json', ...(own ? hubHeaders(hub) : {}) },
      signal: AbortSignal.any([signal, limit.signal]),
    });
    if (!response.ok) throw explainStatus(hub, response.status);
    let bytes = 0;
    for await (const chunk of chunksOf(response.body)) {
      limit.alive();
      bytes += chunk.length;
      if (bytes > maxAnswerBytes) throw notJson(url, `it is longer than ${formatBytes(maxAnswerBytes)}`);
      chunks.push(chunk);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof PullError) throw error;
    throw new PullError('server', `${endpoint} cannot be reached: ${asInterruption(error).message}`);
  } finally {
    limit.end();
  }
  const text = new TextDecoder().decode(Buffer.concat(chunks));
  try {
    return { value: JSON.parse(text), headers: response.headers };
  } catch (error) {
    const isPage = /^\s*</.test(text);
    throw notJson(url, isPage ? 'it is HTML or XML' : (error as Error).message);
  }
};

const notJson = (url: string, why: string): PullError =>
  new PullError(
    'server',
    `the answer to GET ${url} is not JSON of a hub: ${why}; check HF_ENDPOINT, and that no login page or proxy is in between`,
  );

const isSize = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

/** @throws PullError `unauthorized`, `not_found` or `server` */
export const listRepository = async (hub: Hub): Promise<RemoteFile[]> => {
  const files: RemoteFile[] = [];
  const asked = new Set<string>();
  const isList = (value: unknown) => Array.isArray(value) && value.every((entry) => entry instanceof Object);
  const entries = listFiles({
    repo: { type: 'model', name: hub.repo },
    revision: hub.revision,
    recursive: true,
    hubUrl: hub.endpoint,
    // Not the library's accessToken: it refuses tokens of other servers, and knows no signal.
    fetch: async (input) => {
      const { url } = new Request(input);
      if (asked.has(url) || asked.size >= maxPages) throw endlessList(hub, asked.size);
      asked.add(url);
      const { value, headers } = await askHub(hub, url);
      if (!isList(value)) throw noList(hub);
      const link = headers.get('link');
      return Response.json(value, link === null ? {} : { headers: { link } });
    },
  });
  for await (const { type, path, size, lfs, oid } of entries) {
    if (type !== 'file') continue;
    const { oid: hash, size: bytes } = lfs ?? { oid: oid ?? '', size };
    if (typeof path !== 'string' || typeof hash !== 'string' || !isSize(bytes)) throw noList(hub);
    if (lfs) files.push({ path, sizeBytes: lfs.size, checksum: { kind: 'sha256', hex: lfs.oid } });
    else if (oid !== undefined)
      files.push({ path, sizeBytes: size, checksum: { kind: 'git-sha1', hex: oid } });
  }
  return files;
};

const noList = ({ endpoint, repo }: Hub): PullError =>
  new PullError('server', `${endpoint}: the list of files of ${repo} is not one; check HF_ENDPOINT`);

const endlessList = ({ endpoint, repo }: Hub, pages: number): PullError =>
  new PullError(
    'server',
    `${endpoint}: the list of files of ${repo} does not end: page ${pages + 1} is one that came before, or there are more than ${maxPages} ('Link: rel="next"'); check HF_ENDPOINT`,
  );

/** A refusal of the hub in our words. */
export const explainStatus = ({ endpoint, repo, revision, token }: Hub, status: number): PullError => {
  const page = `${endpoint}/${repo}`;
  switch (status) {
    case 401:
      return new PullError(
        'unauthorized',
        token === undefined
          ? `${page}: there is no such repository, or it is not public (HTTP 401); check the name, or set HF_TOKEN to a token that may read it`
          : `${page}: the token in HF_TOKEN is not accepted (HTTP 401); make a new one`,
      );
    case 403:
      return new PullError(
        'unauthorized',
        `${page}: access is refused (HTTP 403); accept the model's terms on its page, with the account of HF_TOKEN`,
      );
    case 404:
      return new PullError(
        'not_found',
        `${page}: no such repository, or no revision '${revision}' in it (HTTP 404); check the name`,
      );
    default:
      return new PullError('server', `${page}: the server answers HTTP ${status}; try again later`);
  }
};
