/** A server that speaks the endpoints of a Hugging Face Hub that `pull` uses; tests can make it fail. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { rangeOf, serve } from './local-server.ts';

export interface HubFile {
  readonly path: string;
  readonly content: Uint8Array;
  /** Kept in git itself, not in large-file storage. */
  readonly small?: boolean;
  /** Announced in place of the true checksum. */
  readonly wrongChecksum?: string;
}

export interface FakeHub {
  readonly url: string;
  /** Requests so far, as `GET /path range authorization`. */
  readonly log: string[];
  files: HubFile[];
  /** Makes these the files of `main`, as a commit that the hub tells. Earlier ones stay what they were. */
  push(commit: string, files: HubFile[]): void;
  /** Repositories ask for this token. */
  token: string | undefined;
  /** Answers in place of the server when it returns true. */
  fault: (request: IncomingMessage, response: ServerResponse) => boolean;
  close(): Promise<void>;
}

const hash = (kind: string, ...parts: (string | Uint8Array)[]): string => {
  const hasher = createHash(kind);
  for (const part of parts) hasher.update(part);
  return hasher.digest('hex');
};

/** @param repo the only repository, public unless `token` is set */
export const fakeHub = async (repo: string, files: HubFile[]): Promise<FakeHub> => {
  const log: string[] = [];
  const commits = new Map<string, HubFile[]>();
  let head: string | undefined;
  const server = await serve((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://hub');
    const path = decodeURIComponent(pathname);
    const { range = '-', authorization = '-' } = request.headers;
    log.push(`${request.method} ${path} ${range} ${authorization}`);
    if (hub.fault(request, response)) return;
    if (hub.token !== undefined && authorization !== `Bearer ${hub.token}`) {
      refuse(response, 401, 'Invalid username or password.');
      return;
    }
    if (path === `/api/models/${repo}/revision/main` && head !== undefined) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ sha: head }));
      return;
    }
    const [, wanted = 'main'] = /\/(?:tree|resolve)\/([^/]+)/.exec(path) ?? [];
    const held = wanted === 'main' ? hub.files : commits.get(wanted);
    if (held && path === `/api/models/${repo}/tree/${wanted}`) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify([{ type: 'directory', path: 'sub', size: 0, oid: '0' }, ...held.map(entryOf)]),
      );
      return;
    }
    const prefix = `/${repo}/resolve/${wanted}/`;
    const file = held?.find((candidate) => prefix + candidate.path === path);
    if (!file) refuse(response, 404, 'Repository not found');
    else sendFile(file, request, response);
  });
  const hub: FakeHub = {
    url: server.url,
    log,
    files,
    push(commit, pushed) {
      head = commit;
      commits.set(commit, pushed);
      hub.files = pushed;
    },
    token: undefined,
    fault: () => false,
    close: () => server.close(),
  };
  return hub;
};

const entryOf = ({ path, content, small, wrongChecksum }: HubFile) => {
  const size = content.length;
  if (small)
    return { type: 'file', path, size, oid: wrongChecksum ?? hash('sha1', `blob ${size}\0`, content) };
  const oid = wrongChecksum ?? hash('sha256', content);
  return { type: 'file', path, size, oid: hash('sha1', path), lfs: { oid, size, pointerSize: 130 } };
};

const refuse = (response: ServerResponse, status: number, error: string): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
};

/** Where an answer is cut: after `bytes`, once the client took them in (a reset drops what it has not read yet). */
export interface Cut {
  readonly bytes: number;
  readonly received?: () => boolean;
}

/** Sends what was asked for, or the beginning of it. */
export const sendFile = (
  { content }: HubFile,
  request: IncomingMessage,
  response: ServerResponse,
  { bytes, received = () => true }: Cut = { bytes: Number.POSITIVE_INFINITY },
): void => {
  const range = rangeOf(request.headers.range, content.length);
  const body = range ? content.subarray(range.first, range.last + 1) : content;
  response.writeHead(range ? 206 : 200, {
    'content-length': body.length,
    ...(range ? { 'content-range': `bytes ${range.first}-${range.last}/${content.length}` } : {}),
  });
  if (bytes >= body.length) {
    response.end(body);
    return;
  }
  const cut = () => {
    if (received() || response.destroyed) response.destroy();
    else setTimeout(cut, 5);
  };
  response.write(body.subarray(0, bytes), () => setTimeout(cut, 20));
};
