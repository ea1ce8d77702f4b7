import { HubApiError, listFiles } from '@huggingface/hub';
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
}

/** Which hub, and what to show it. */
export interface HubAccess {
  /** HF_TOKEN. */
  readonly token?: string | undefined;
  /** HF_ENDPOINT; default https://huggingface.co. */
  readonly endpoint?: string | undefined;
}

export const hubAt = (
  access: HubAccess,
  { repo, revision = 'main' }: Reference,
  signal = new AbortController().signal,
): Hub => ({
  endpoint: (access.endpoint || 'https://huggingface.co').replace(/\/+$/, ''),
  token: access.token || undefined,
  repo,
  revision,
  signal,
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
    const response = await fetch(
      `${endpoint}/api/models/${repo}/revision/${encodeURIComponent(revision)}?expand[]=sha`,
      { headers: { accept: 'application/json', ...hubHeaders(hub) }, signal },
    );
    const { sha } = (response.ok ? await response.json() : {}) as { sha?: unknown };
    return typeof sha === 'string' && commit.test(sha) ? { ...hub, revision: sha } : hub;
  } catch {
    signal.throwIfAborted();
    return hub;
  }
};

const isSize = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

/** @throws PullError `unauthorized`, `not_found` or `server` */
export const listRepository = async (hub: Hub): Promise<RemoteFile[]> => {
  const files: RemoteFile[] = [];
  const entries = listFiles({
    repo: { type: 'model', name: hub.repo },
    revision: hub.revision,
    recursive: true,
    hubUrl: hub.endpoint,
    // Not the library's accessToken: it refuses tokens of other servers, and knows no signal.
    fetch: (input, init) =>
      fetch(input, {
        ...init,
        headers: { accept: 'application/json', ...hubHeaders(hub) },
        signal: hub.signal,
      }),
  });
  try {
    for await (const { type, path, size, lfs, oid } of entries) {
      if (type !== 'file') continue;
      const { oid: hash, size: bytes } = lfs ?? { oid: oid ?? '', size };
      if (typeof path !== 'string' || typeof hash !== 'string' || !isSize(bytes)) {
        throw new PullError(
          'server',
          `${hub.endpoint}: the list of files of ${hub.repo} is not one; check HF_ENDPOINT`,
        );
      }
      if (lfs) files.push({ path, sizeBytes: lfs.size, checksum: { kind: 'sha256', hex: lfs.oid } });
      else if (oid !== undefined)
        files.push({ path, sizeBytes: size, checksum: { kind: 'git-sha1', hex: oid } });
    }
  } catch (error) {
    hub.signal.throwIfAborted();
    if (error instanceof PullError) throw error;
    if (error instanceof HubApiError) throw explainStatus(hub, error.statusCode);
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw new PullError(
      'server',
      `${hub.endpoint} cannot be reached: ${cause instanceof Error ? cause.message : String(cause)}`,
    );
  }
  return files;
};

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
