import { join } from 'node:path';
import { expect } from 'vitest';
import type { ObserveEnvelope } from '../../src/observe/types.ts';
import { Recorder } from '../../src/recorder/recorder.ts';
import type { Grant, Verb, WriteToken } from '../../src/recorder/types.ts';
import { type RequestOptions, startContractHost } from './contract-host.ts';
import { startSource } from './host.ts';
import { filesWith } from './recorded.ts';

type Options = Parameters<typeof startContractHost>[0];
export type Row = Readonly<Record<string, unknown>>;

/** `recorder WORDS` of the product's command line, beside whatever runs; its answer. */
export async function recorderCommand<Value>(dataDir: string, words: string): Promise<Value> {
  const command = startSource(['recorder', ...words.split(' '), '--json', '--data-dir', dataDir]);
  const { code } = await command.exit;
  expect([words, code, command.output.stderr]).toEqual([words, 0, '']);
  return JSON.parse(command.output.stdout) as Value;
}

/** Lets the bearer read and write a rack, and mints a token for it, on the command line. */
export async function tokenByCommand(dataDir: string, rack: string): Promise<WriteToken & { token: string }> {
  await recorderCommand(dataDir, `grant --rack ${rack} --verbs read,write --expires 30d`);
  return await recorderCommand(dataDir, `token --rack ${rack}`);
}

/** Opens the recorder in this process, as its command does. */
async function beside<Value>(dataDir: string, work: (recorder: Recorder) => Promise<Value>): Promise<Value> {
  const quiet = { onFault: () => undefined, onNotice: () => undefined };
  const recorder = await Recorder.open({ folder: join(dataDir, 'recorder'), secrets: [], ...quiet });
  try {
    return await work(recorder);
  } finally {
    await recorder.close();
  }
}
const granting = (rack: string, verbs: readonly Verb[], to: string, includesPast = false) => ({
  rack,
  verbs,
  to,
  includesPast,
  expiresAt: new Date(Date.now() + 86_400_000),
});

export const letRead = (
  dataDir: string,
  rack: string,
  to = 'bearer',
  { includesPast = false } = {},
): Promise<Grant> =>
  beside(dataDir, (recorder) => recorder.grant(granting(rack, ['read'], to, includesPast), 'operator'));

/** As `tokenByCommand`. */
export const tokenFor = (
  dataDir: string,
  rack: string,
  to = 'bearer',
): Promise<WriteToken & { token: string }> =>
  beside(dataDir, async (recorder) => {
    await recorder.grant(granting(rack, ['read', 'write'], to), 'operator');
    return await recorder.mintToken({ rack }, 'operator');
  });

/** Before anything was kept. */
const noHistory = 'there is no rack that you can read';

/** A host of the contract tests, and what the observe and recorder planes are asked with. */
export async function startWatchedHost(options: Options) {
  const at = await startContractHost(options);
  const send = (method: string, path: string, { body, headers }: RequestOptions = {}) =>
    at.call<Row>(method, path, {
      ...(body === undefined ? {} : { body }),
      headers: { ...at.bearer, ...headers },
    });
  const query = (body: unknown, headers: Readonly<Record<string, string>> = {}) =>
    at.call<ObserveEnvelope>('POST', '/observe/v1/query', { body, headers: { ...at.bearer, ...headers } });
  /** All rows of an answer, with the names of their columns; it must have come whole. */
  const rows = async (body: { readonly surface: string } & Row): Promise<Row[]> => {
    const { status, text, json } = await query({ limit: 1000, ...body });
    expect([status, text]).toEqual([200, expect.any(String)]);
    const warnings = json.warnings.filter((warning) => warning !== noHistory);
    expect([json.truncated, warnings], text.slice(0, 500)).toEqual([false, []]);
    return json.rows.map((row) => Object.fromEntries(json.columns.map(({ name }, n) => [name, row[n]])));
  };
  return {
    ...at,
    send,
    query,
    rows,
    /** By its id. */
    one: async (surface: string, id: string) =>
      (await rows({ surface, where: [{ column: 'id', op: 'eq', value: id }] }))[0],
    putRack: async (rack: string, body: unknown) => {
      const put = await send('PUT', `/recorder/v1/racks/${rack}`, { body });
      expect([put.status, put.text]).toEqual([200, expect.any(String)]);
      return put.json['data'] as Row;
    },
    ingest: (token: string, events: unknown) =>
      send('POST', '/recorder/v1/ingest', { body: { events }, headers: { 'x-svc-write-token': token } }),
    /** Reads a rack's events, the oldest first. */
    transcript: (rack: string) =>
      rows({
        surface: 'transcript',
        select: [
          'seq',
          'event_id',
          'at',
          'source',
          'kind',
          'subject',
          'role',
          'content',
          'attributes',
          'redacted',
        ],
        where: [{ column: 'rack', op: 'eq', value: rack }],
        order_by: [{ column: 'seq' }],
      }),
    review: async () => {
      const { json } = await send('GET', '/recorder/v1/review?limit=1000');
      return (json['data'] as { entries: { act: string; by: string; rack: string; details: Row }[] }).entries;
    },
    /** A token of a peer with this name. */
    async peer(name: string) {
      const minted = await at.controlled<{ token: string }>('POST', '/host/v1/peers', {
        headers: at.operator,
        body: { name },
      });
      return {
        headers: { authorization: `Bearer ${minted.json.token}` },
        revoke: () => at.controlled('DELETE', `/host/v1/peers/${name}`, { headers: at.operator }),
      };
    },
    /** Files of the data directory that have one of these texts in them. */
    filesWith: (...texts: readonly string[]) => filesWith(at.dataDir, ...texts),
    database: join(at.dataDir, 'lathe.db'),
  };
}
export type WatchedHost = Awaited<ReturnType<typeof startWatchedHost>>;

export const event = (id: string, more: object = {}) => ({
  id,
  at: new Date().toISOString(),
  kind: 'message',
  ...more,
});
